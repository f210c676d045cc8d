//! Hosts: what they are, and what is asked of them.

use super::{Read as _, RegionApi, not_ready};
use crate::views;
use polder_api::{
    Code, Problem,
    dto::{DrainRequest, DrainView, HostView, MovedTask, Note, PartAge},
};
use polder_core::broker::{self, Done, Event, Refused};
use polder_types::{HostId, JobId, TaskId, Usage};
use std::collections::{BTreeMap, BTreeSet};

/// Who asked, as long as callers can't be told apart.
const SOMEBODY: &str = "operator";

fn no_such_host(host: &HostId) -> Problem {
    Problem::new(Code::HostNotFound, format!("there is no host {host} in this region"))
        .with_hint("`polder hosts` lists those there are")
}

fn refused(host: &HostId, why: &Refused) -> Problem {
    match why {
        Refused::UnknownHost { .. } => no_such_host(host),
        Refused::Deadline { .. } => Problem::new(Code::BadRequest, why.to_string()),
        Refused::Heard { .. } => Problem::new(Code::HostHeard, why.to_string()).with_hint(format!(
            "stop the agent that speaks as {host}, and wait until `polder hosts` shows it as silent"
        )),
        // Of links only.
        Refused::NameTaken { .. } | Refused::Misdirected { .. } | Refused::Full { .. } | Refused::OldLink { .. } => {
            Problem::new(Code::Internal, why.to_string())
        }
        Refused::NotDraining { .. } => Problem::new(Code::DrainNotFound, why.to_string()),
    }
}

impl RegionApi {
    pub(super) fn part_age(&self) -> PartAge {
        PartAge { region: self.region.config.region.clone(), as_of: self.region.now(), reached: true }
    }

    pub(super) async fn host_views(&self) -> Result<Vec<HostView>, Problem> {
        let actors = self.region.actors().ok_or_else(not_ready)?;
        let usages = actors
            .allocator
            .read(|allocator| allocator.host_usages().map(|view| (view.host, view.used)).collect::<BTreeMap<_, _>>())
            .await?;
        let mut hosts = Vec::new();
        for broker in self.region.brokers.all() {
            let of_broker = broker.read(|broker| broker.hosts().collect::<Vec<_>>()).await?;
            for host in of_broker {
                let used = usages.get(&host.info.id).copied().unwrap_or_default();
                // A list shows how a drain goes; where each task went is for whoever asks for that drain.
                let drain = host.drain.as_ref().filter(|drain| drain.closes());
                let drain = drain.map(|drain| views::drain(&host, drain, BTreeSet::new(), Vec::new()));
                hosts.push(views::host(&self.region.config.region, host, used, drain));
            }
        }
        hosts.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(hosts)
    }

    async fn broker_view(&self, host: &HostId) -> Result<broker::HostView, Problem> {
        let broker = self.region.brokers.of_host(host).ok_or_else(|| no_such_host(host))?;
        let wanted = host.clone();
        let view = broker.read(move |broker| broker.host(&wanted)).await?;
        view.ok_or_else(|| no_such_host(host))
    }

    async fn used(&self, host: &HostId) -> Result<Usage, Problem> {
        let actors = self.region.actors().ok_or_else(not_ready)?;
        let wanted = host.clone();
        actors.allocator.read(move |allocator| allocator.host_usage(&wanted)).await
    }

    async fn host_view(&self, host: &HostId) -> Result<HostView, Problem> {
        let view = self.broker_view(host).await?;
        let used = self.used(host).await?;
        let drain = match &view.drain {
            Some(drain) if drain.closes() => Some(self.drain_of(&view, drain).await?),
            _ => None,
        };
        Ok(views::host(&self.region.config.region, view, used, drain))
    }

    async fn ask(
        &self,
        host: &HostId,
        event: impl FnOnce(polder_core::message::ReplyId) -> Event,
    ) -> Result<Done, Problem> {
        let answer = self.region.ask_broker(host, event).await.ok_or_else(|| no_such_host(host))?;
        answer?.map_err(|why| refused(host, &why))
    }

    pub(super) async fn cordon_host(&self, host: HostId, cordoned: bool) -> Result<HostView, Problem> {
        let target = host.clone();
        if cordoned {
            let (by, reason) = (SOMEBODY.to_owned(), String::new());
            self.ask(&host, |reply| Event::Cordon { reply, host: target, by, reason }).await?;
        } else {
            self.ask(&host, |reply| Event::Uncordon { reply, host: target }).await?;
        }
        self.host_view(&host).await
    }

    pub(super) async fn readmit_host(&self, host: HostId, note: Note) -> Result<HostView, Problem> {
        let by = if note.owner.is_empty() { SOMEBODY.to_owned() } else { note.owner };
        let (target, reason) = (host.clone(), note.reason);
        self.ask(&host, |reply| Event::Readmit { reply, host: target, by, reason }).await?;
        self.host_view(&host).await
    }

    pub(super) async fn drain_host(&self, host: HostId, request: DrainRequest) -> Result<DrainView, Problem> {
        let on_host = self.tasks_on(&host).await?;
        let deadline = self.region.now() + request.deadline;
        let by = if request.owner.is_empty() { SOMEBODY.to_owned() } else { request.owner };
        let (target, reason) = (host.clone(), request.reason);
        let done = self.ask(&host, |reply| Event::Drain { reply, host: target, deadline, by, reason }).await?;
        if done.changed {
            self.region.remember_drain(&host, on_host);
        }
        self.drain_view(&host).await
    }

    pub(super) async fn abort_host_drain(&self, host: HostId) -> Result<DrainView, Problem> {
        let target = host.clone();
        self.ask(&host, |reply| Event::AbortDrain { reply, host: target }).await?;
        self.drain_view(&host).await
    }

    pub(super) async fn drain_view(&self, host: &HostId) -> Result<DrainView, Problem> {
        let view = self.broker_view(host).await?;
        let Some(drain) = &view.drain else {
            return Err(Problem::new(Code::DrainNotFound, format!("host {host} was never drained"))
                .with_hint(format!("`polder drain {host}` begins one")));
        };
        self.drain_of(&view, drain).await
    }

    async fn drain_of(&self, view: &broker::HostView, drain: &broker::DrainRecord) -> Result<DrainView, Problem> {
        let host = &view.info.id;
        let on_host = self.tasks_on(host).await?;
        let gone: BTreeSet<TaskId> = self.region.drained_tasks(host).difference(&on_host).cloned().collect();
        let moved = self.whereabouts(gone).await?;
        Ok(views::drain(view, drain, on_host, moved))
    }

    /// Tasks whose records say that they have a container on a host.
    async fn tasks_on(&self, host: &HostId) -> Result<BTreeSet<TaskId>, Problem> {
        let actors = self.region.actors().ok_or_else(not_ready)?;
        let mut tasks = BTreeSet::new();
        for shard in &actors.shards {
            let host = host.clone();
            let of_shard = shard
                .read(move |shard| {
                    let here = shard.charges().filter(|charge| charge.host == host);
                    here.map(|charge| charge.container.task).collect::<Vec<_>>()
                })
                .await?;
            tasks.extend(of_shard);
        }
        Ok(tasks)
    }

    /// Where tasks are now; those without a place are left out.
    async fn whereabouts(&self, tasks: BTreeSet<TaskId>) -> Result<Vec<MovedTask>, Problem> {
        let mut by_job: BTreeMap<JobId, Vec<TaskId>> = BTreeMap::new();
        for task in tasks {
            by_job.entry(task.job.clone()).or_default().push(task);
        }
        let mut moved = Vec::new();
        for (job, tasks) in by_job {
            let shard = self.region.owner_of(&job).ok_or_else(not_ready)?;
            let found = shard
                .read(move |shard| {
                    let place = |task: TaskId| {
                        let host = shard.task_view(&task)?.current?.host;
                        Some(MovedTask { task, host })
                    };
                    tasks.into_iter().filter_map(place).collect::<Vec<_>>()
                })
                .await?;
            moved.extend(found);
        }
        Ok(moved)
    }
}
