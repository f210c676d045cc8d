//! Jobs and tasks.

use super::{Read as _, RegionApi, not_ready};
use crate::views;
use polder_api::{
    Code, Problem,
    dto::{self, ApplyResponse, DeleteResponse, JobStatus, JobSummary, PartState, StopResponse, WhyView},
    job_file::JobFile,
};
use polder_core::{
    job_shard::{Event, Origin, Refused},
    message::{PlacementReport, TaskShape},
};
use polder_types::{JobId, JobSpec, Slice, SliceVersion, Slots, TaskId};

pub(super) fn no_such_task(task: &TaskId) -> Problem {
    Problem::new(Code::TaskNotFound, format!("there is no task {task} in this region"))
        .with_hint(format!("`polder status {}` lists its tasks", task.job))
}

impl RegionApi {
    fn refused(&self, job: &JobId, why: &Refused) -> Problem {
        let code = match why {
            Refused::UnknownJob => Code::JobNotFound,
            Refused::TooManyTasks { .. } | Refused::TooManyJobs { .. } => Code::JobFileLimit,
            Refused::WrongShard { .. } => Code::Internal,
            Refused::WrongOrigin { owner: Origin::Federation } => Code::JobOfFederation,
            Refused::WrongOrigin { owner: Origin::Local } => Code::JobNameTaken,
            Refused::KindChanged => Code::JobKindChanged,
            Refused::NotStopped => Code::JobNotStopped,
            Refused::StillRunning { .. } => Code::JobNotGone,
            Refused::OlderVersion { .. } | Refused::SameVersion { .. } => Code::VersionConflict,
        };
        let problem = Problem::new(code, format!("job {job}: {why}"));
        match (&problem.code, &self.region.config.federation) {
            (Code::JobOfFederation, Some(address)) => problem.with_hint(format!("add `--addr {address}`")),
            (Code::JobNotStopped, _) => problem
                .with_hint(format!("`polder delete {job} --stop` stops it first, and deletes it when it is gone")),
            _ => problem,
        }
    }

    pub(super) async fn job_summaries(&self) -> Result<Vec<JobSummary>, Problem> {
        let actors = self.region.actors().ok_or_else(not_ready)?;
        let mut summaries = Vec::new();
        for shard in &actors.shards {
            let jobs = shard
                .read(|shard| {
                    let jobs: Vec<JobId> = shard.job_ids().cloned().collect();
                    jobs.iter().filter_map(|job| shard.job_view(job)).collect::<Vec<_>>()
                })
                .await?;
            for job in jobs {
                let part = views::part(&self.region.config.region, &job, self.region.now());
                summaries.push(JobSummary {
                    job: job.job,
                    kind: job.kind,
                    state: PartState::of_parts([part.state]),
                    generation: job.generation,
                    wanted: part.wanted,
                    running: part.running,
                    ready: part.ready,
                    updated: part.updated,
                    regions: vec![part],
                });
            }
        }
        summaries.sort_by(|one, other| one.job.cmp(&other.job));
        Ok(summaries)
    }

    pub(super) async fn job_status(&self, job: JobId) -> Result<JobStatus, Problem> {
        let shard = self.region.owner_of(&job).ok_or_else(not_ready)?;
        let wanted = job.clone();
        let found = shard
            .read(move |shard| {
                let spec = shard.job_record(&wanted)?.slice.spec.clone();
                Some((spec, shard.job_view(&wanted)?, shard.task_views(&wanted)))
            })
            .await?;
        let (spec, view, tasks) = found.ok_or_else(|| {
            Problem::new(Code::JobNotFound, format!("there is no job {job} in this region"))
                .with_hint("`polder status` lists those there are")
        })?;
        let addresses = self.region.addresses();
        let region = &self.region.config.region;
        let part = views::part(region, &view, self.region.now());
        Ok(JobStatus {
            job,
            state: PartState::of_parts([part.state]),
            generation: view.generation,
            spec: JobFile::from(&spec),
            regions: vec![part],
            tasks: tasks.into_iter().map(|task| views::task(region, task, &addresses)).collect(),
        })
    }

    /// Applies a job that was submitted to this region alone: the whole of it is this region's slice.
    pub(super) async fn apply_local(&self, spec: JobSpec) -> Result<ApplyResponse, Problem> {
        let region = &self.region.config.region;
        if let Some(other) = spec.regions.names.iter().find(|name| *name != region) {
            let hint = match &self.region.config.federation {
                Some(federation) => format!("apply it at the federation: `polder --addr {federation} apply`"),
                None => format!("name {region} alone, or leave `regions` out"),
            };
            let detail = format!("the job names region {other}, and this is region {region}");
            return Err(Problem::new(Code::RegionNotFound, detail).with_hint(hint));
        }
        // The shard counts the versions of local slices itself.
        let slots = Slots::first(spec.tasks);
        let slice = Slice { slots, version: SliceVersion::default(), stopped: false, spec };
        self.apply(slice, Origin::Local).await
    }

    /// Takes a slice from the federation.
    pub(super) async fn apply_slice(&self, slice: Slice) -> Result<ApplyResponse, Problem> {
        self.apply(slice, Origin::Federation).await
    }

    async fn apply(&self, slice: Slice, origin: Origin) -> Result<ApplyResponse, Problem> {
        let job = slice.spec.id.clone();
        let slice = Box::new(slice);
        let answer = self.region.ask_shard(&job, |reply| Event::Apply { reply, slice, origin }).await;
        let applied = answer?.map_err(|why| self.refused(&job, &why))?;
        Ok(ApplyResponse { job, generation: applied.generation, changed: applied.changed })
    }

    pub(super) async fn stop_local(&self, job: JobId) -> Result<StopResponse, Problem> {
        let ordered = job.clone();
        let answer =
            self.region.ask_shard(&job, |reply| Event::Stop { reply, job: ordered, origin: Origin::Local }).await;
        let applied = answer?.map_err(|why| self.refused(&job, &why))?;
        Ok(StopResponse { job, changed: applied.changed })
    }

    pub(super) async fn delete_local(&self, job: JobId) -> Result<DeleteResponse, Problem> {
        self.delete(job, Origin::Local).await
    }

    /// Forgets a slice of the federation's, unless it is newer than the one that is meant.
    pub(super) async fn delete_of_federation(
        &self,
        job: JobId,
        version: SliceVersion,
    ) -> Result<DeleteResponse, Problem> {
        let shard = self.region.owner_of(&job).ok_or_else(not_ready)?;
        let wanted = job.clone();
        let held = shard.read(move |shard| shard.job_record(&wanted).map(|record| record.slice.version)).await?;
        if let Some(held) = held.filter(|held| *held > version) {
            let detail = format!("job {job}: version {held} of the slice is here, newer than {version}");
            return Err(Problem::new(Code::VersionConflict, detail));
        }
        self.delete(job, Origin::Federation).await
    }

    async fn delete(&self, job: JobId, origin: Origin) -> Result<DeleteResponse, Problem> {
        let ordered = job.clone();
        let answer = self.region.ask_shard(&job, |reply| Event::Delete { reply, job: ordered, origin }).await;
        answer?.map_err(|why| self.refused(&job, &why))?;
        Ok(DeleteResponse { job, gone: true })
    }

    pub(super) async fn why_task(&self, task: TaskId) -> Result<WhyView, Problem> {
        let shard = self.region.owner_of(&task.job).ok_or_else(not_ready)?;
        let wanted = task.clone();
        let found = shard
            .read(move |shard| {
                let spec = &shard.job_record(&wanted.job)?.slice.spec;
                let shape = TaskShape {
                    resources: spec.resources,
                    ports: spec.ports.clone(),
                    constraints: spec.constraints.clone(),
                    spread: spec.spread,
                    priority: spec.priority,
                };
                let slots = &shard.job_record(&wanted.job)?.slice.slots;
                let view = shard.task_view(&wanted)?;
                // One whose slot went elsewhere, and of which nothing is left, is not this region's to speak of.
                let left = view.current.is_some() || view.next.is_some() || !view.lingering.is_empty();
                (left || slots.contains(wanted.index)).then_some((view, shape))
            })
            .await?;
        let (view, shape) = found.ok_or_else(|| no_such_task(&task))?;
        let (wait, why, report) =
            (view.wait.clone(), view.current.as_ref().and_then(|c| c.why.clone()), view.report.clone());
        let wanted = view.wanted;
        let shown = views::task(&self.region.config.region, view, &self.region.addresses());
        let summary = match (&wait, &shown.host, why) {
            (Some(wait), _, _) => wait.detail.clone(),
            (None, Some(host), Some(why)) => format!("on {host}: {why}"),
            (None, Some(host), None) => {
                format!("on {host}: placed before this node took over, so the reasons are not kept")
            }
            (None, None, _) => format!("the task is {}", shown.phase.as_str()),
        };
        // What stood in the way of a task that has a place by now explains nothing.
        let report = match report {
            Some(report) => report,
            None if shown.host.is_some() || !wanted => PlacementReport::default(),
            None => {
                let actors = self.region.actors().ok_or_else(not_ready)?;
                let job = task.job.clone();
                actors.allocator.read(move |allocator| allocator.explain(&job, &shape)).await?.report
            }
        };
        Ok(WhyView {
            task,
            region: shown.region,
            host: shown.host,
            phase: shown.phase,
            summary,
            considered: report.hosts,
            rejected: views::rejections(&report),
            // The summary has said why.
            waiting: shown.waiting.zip(wait).map(|(shown, wait)| dto::Wait { message: wait.then, ..shown }),
        })
    }
}
