//! Gauges, from what the machines show: asked once a second at most, whoever scrapes.

use crate::region::{Actors, Region};
use futures::future::join_all;
use polder_core::{
    allocator::AccountView,
    broker::{Broker, DrainState},
    job_shard::{Census, PendingReason, TaskState},
    message::HostHealth,
};
use polder_node::scrape::{ACCOUNTS_SHOWN_MAX, cores, float, mailbox, number, show_amounts, shown_by};
use polder_observability::{self as observability, ActorKind};
use polder_types::{Amounts, Timestamp, Usage};
use std::{collections::BTreeMap, time::Duration};

const TASK_STATES: [TaskState; 10] = [
    TaskState::Pending,
    TaskState::BackingOff,
    TaskState::Starting,
    TaskState::Running,
    TaskState::Ready,
    TaskState::Stopping,
    TaskState::Unknown,
    TaskState::Completed,
    TaskState::Failed,
    TaskState::Stopped,
];

const PENDING_REASONS: [PendingReason; 5] = [
    PendingReason::NoRoom,
    PendingReason::Quota,
    PendingReason::Searching,
    PendingReason::OlderContainer,
    PendingReason::SetAside,
];

const fn state_name(state: TaskState) -> &'static str {
    match state {
        TaskState::Pending => "waiting",
        TaskState::BackingOff => "backoff",
        TaskState::Starting => "starting",
        TaskState::Running => "unready",
        TaskState::Ready => "running",
        TaskState::Stopping => "stopping",
        TaskState::Unknown => "unknown",
        TaskState::Completed => "completed",
        TaskState::Failed => "failed",
        TaskState::Stopped => "stopped",
    }
}

const fn reason_name(reason: PendingReason) -> &'static str {
    match reason {
        PendingReason::NoRoom => "no_room",
        PendingReason::Quota => "quota",
        PendingReason::Searching => "searching",
        PendingReason::OlderContainer => "older_container",
        PendingReason::SetAside => "set_aside",
    }
}

/// Brings the gauges up to date, unless they are.
pub(crate) async fn refresh(region: &Region) {
    let update = async {
        observability::Region::shared().links.set([], number(region.links.count()));
        if let Some(actors) = region.actors() {
            show_mailboxes(region, actors);
            tokio::join!(show_tasks(actors), show_hosts(region, actors), show_quotas(actors));
        }
    };
    region.meter.scrapes.refresh(update).await;
}

fn show_mailboxes(region: &Region, actors: &Actors) {
    let shards = actors.shards.iter().map(|shard| mailbox(ActorKind::JobShard, shard));
    let brokers = region.brokers.all();
    let brokers = brokers.iter().map(|broker| mailbox(ActorKind::Broker, broker));
    let allocator = std::iter::once(mailbox(ActorKind::Allocator, &actors.allocator));
    observability::Actors::shared().show_mailboxes(allocator.chain(shards).chain(brokers));
}

async fn show_tasks(actors: &Actors) {
    let answers = join_all(actors.shards.iter().map(|shard| shown_by(shard, |shard| shard.census()))).await;
    let mut all = Census::default();
    for census in answers {
        // Part of the truth would look like tasks that have gone.
        let Some(census) = census else { return };
        all.add(&census);
    }
    let shown = observability::Region::shared();
    for state in TASK_STATES {
        shown.tasks.set([state_name(state)], f64::from(all.states.get(&state).copied().unwrap_or(0)));
    }
    for reason in PENDING_REASONS {
        shown.pending.set([reason_name(reason)], f64::from(all.pending.get(&reason).copied().unwrap_or(0)));
    }
}

/// What the hosts of a datacenter add up to.
#[derive(Debug, Default)]
struct Hosts {
    conditions: BTreeMap<&'static str, u32>,
    drains: BTreeMap<&'static str, u32>,
    silence_max: Duration,
    overdue_max: Duration,
    centi_cores: u64,
    memory: u64,
}

const CONDITIONS: [&str; 5] = ["ready", "silent", "cordoned", "draining", "closed"];
const DRAINS: [&str; 4] = ["in_progress", "drained", "forced", "unattested"];

impl Hosts {
    fn of(broker: &Broker, now: Timestamp) -> Self {
        let mut hosts = Self::default();
        for host in broker.hosts() {
            let drain = host.drain.as_ref().filter(|drain| drain.closes());
            let condition = match (host.health, drain.map(|drain| drain.state), &host.cordon) {
                (HostHealth::Unknown { since }, ..) => {
                    hosts.silence_max = hosts.silence_max.max(now.since(since).to_duration());
                    "silent"
                }
                (_, Some(DrainState::Draining), _) => "draining",
                (_, Some(_), _) => "closed",
                (_, None, Some(_)) => "cordoned",
                (_, None, None) => "ready",
            };
            *hosts.conditions.entry(condition).or_default() += 1;
            if let Some(drain) = drain {
                let state = match drain.state {
                    DrainState::Draining => {
                        hosts.overdue_max = hosts.overdue_max.max(now.since(drain.deadline).to_duration());
                        "in_progress"
                    }
                    DrainState::Drained => "drained",
                    DrainState::Forced => "forced",
                    DrainState::Unattested => {
                        // It stands until the host says that nothing is left, or a person opens it.
                        if drain.attested_late_at.is_none() {
                            hosts.overdue_max = hosts.overdue_max.max(now.since(drain.deadline).to_duration());
                        }
                        "unattested"
                    }
                    // Called off: the host is open.
                    DrainState::Aborted => continue,
                };
                *hosts.drains.entry(state).or_default() += 1;
            }
            hosts.centi_cores += u64::from(host.info.capacity.cpu.centi_cores());
            hosts.memory += host.info.capacity.memory.get();
        }
        hosts
    }

    fn add(&mut self, other: &Self) {
        for (condition, hosts) in &other.conditions {
            *self.conditions.entry(condition).or_default() += hosts;
        }
        for (state, drains) in &other.drains {
            *self.drains.entry(state).or_default() += drains;
        }
        self.silence_max = self.silence_max.max(other.silence_max);
        self.overdue_max = self.overdue_max.max(other.overdue_max);
        self.centi_cores += other.centi_cores;
        self.memory += other.memory;
    }
}

async fn show_hosts(region: &Region, actors: &Actors) {
    let now = region.now();
    let brokers = region.brokers.all();
    let answers = join_all(brokers.iter().map(|broker| shown_by(broker, move |broker| Hosts::of(broker, now)))).await;
    let used = shown_by(&actors.allocator, |allocator| {
        allocator.host_usages().fold((0_u64, 0_u64, 0_u64), |(cpu, memory, tasks), view| {
            let Usage { cpu: host_cpu, memory: host_memory, containers } = view.used;
            (cpu + u64::from(host_cpu.centi_cores()), memory + host_memory.get(), tasks + u64::from(containers))
        })
    })
    .await;
    let shown = observability::Region::shared();
    if let Some((cpu, memory, tasks)) = used {
        shown.used.set(["cpu_cores"], cores(cpu));
        shown.used.set(["memory_bytes"], float(memory));
        shown.used.set(["tasks"], float(tasks));
    }
    let mut all = Hosts::default();
    for hosts in answers {
        let Some(hosts) = hosts else { return };
        all.add(&hosts);
    }
    for condition in CONDITIONS {
        shown.hosts.set([condition], f64::from(all.conditions.get(condition).copied().unwrap_or(0)));
    }
    for state in DRAINS {
        shown.drains.set([state], f64::from(all.drains.get(state).copied().unwrap_or(0)));
    }
    shown.host_silence_max.set([], all.silence_max.as_secs_f64());
    shown.drain_overdue.set([], all.overdue_max.as_secs_f64());
    shown.capacity.set(["cpu_cores"], cores(all.centi_cores));
    shown.capacity.set(["memory_bytes"], float(all.memory));
}

async fn show_quotas(actors: &Actors) {
    let limited = |view: &AccountView| view.limit.is_some_and(|limit| limit != Amounts::UNLIMITED);
    let accounts = shown_by(&actors.allocator, move |allocator| {
        let all = allocator.account_usages().into_iter();
        all.filter(limited).take(ACCOUNTS_SHOWN_MAX).collect::<Vec<_>>()
    });
    let Some(accounts) = accounts.await else { return };
    let shown = observability::Region::shared();
    let limits = accounts.iter().filter_map(|view| Some((&view.account, view.limit?)));
    show_amounts(&shown.quota_limit, limits);
    show_amounts(&shown.quota_used, accounts.iter().map(|view| (&view.account, view.used)));
}
