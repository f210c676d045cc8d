//! What is charged: the fold of task records and of grants that are not placed yet. Nothing else is counted anywhere.

use super::quota::{account_and_above, amounts_of};
use crate::message::{Charge, HostCondition, RequestId};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    sync::Arc,
};
use polder_types::{
    AccountId, Amounts, ContainerId, Epoch, HostId, HostInfo, JobId, Resources, ShardId, TaskId, Timestamp, Usage,
};

/// A host that was told of, or that something is charged on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Host {
    /// What and how it is; none while it was not told of.
    pub(super) known: Option<Known>,
    /// The sum of its charges.
    pub(super) used: Usage,
    /// Its taken ports, with the number of containers that say they have it: facts may collide, grants don't.
    pub(super) ports: BTreeMap<u16, u32>,
    /// Where the search for a free port begins, so that a port that was just freed is not used again at once.
    pub(super) next_port: u16,
}

/// What a broker told of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) info: Arc<HostInfo>,
    pub(super) condition: HostCondition,
}

/// How sure a charge is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// A task record says so.
    Placed,
    /// It was granted and is not placed yet.
    Granted {
        /// The request.
        request: RequestId,
        /// Why this host.
        why: String,
        /// When it is next looked at if it is still not placed.
        overdue_at: Timestamp,
        /// Whether people were told that it is overdue.
        told: bool,
    },
}

/// One container's charge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) shard: ShardId,
    pub(super) charge: Charge,
    pub(super) hold: Hold,
}

/// Everything that is charged, and to whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Books {
    pub(super) held: BTreeMap<ContainerId, Held>,
    pub(super) hosts: BTreeMap<HostId, Host>,
    pub(super) accounts: BTreeMap<AccountId, Amounts>,
    /// Grants that are not placed, by when they are next looked at.
    pub(super) overdue: BTreeSet<(Timestamp, ContainerId)>,
}

impl Books {
    /// Charges a container, in place of what was charged for it before.
    pub(super) fn charge(&mut self, held: Held) {
        let id = held.charge.container.clone();
        self.release(&id);
        let before = self.task(&id.task);
        let host = self.hosts.entry(held.charge.host.clone()).or_default();
        host.used.cpu += held.charge.resources.cpu;
        host.used.memory += held.charge.resources.memory;
        host.used.containers += 1;
        for binding in &held.charge.ports {
            *host.ports.entry(binding.port).or_default() += 1;
        }
        if let Hold::Granted { overdue_at, .. } = &held.hold {
            self.overdue.insert((*overdue_at, id.clone()));
        }
        self.held.insert(id.clone(), held);
        self.book(&id.task, before);
    }

    /// Takes a container's charge away.
    pub(super) fn release(&mut self, id: &ContainerId) -> Option<Held> {
        let before = self.task(&id.task);
        let held = self.held.remove(id)?;
        if let Hold::Granted { overdue_at, .. } = &held.hold {
            self.overdue.remove(&(*overdue_at, id.clone()));
        }
        if let Some(host) = self.hosts.get_mut(&held.charge.host) {
            host.used.cpu = host.used.cpu.saturating_sub(held.charge.resources.cpu);
            host.used.memory = host.used.memory.saturating_sub(held.charge.resources.memory);
            host.used.containers = host.used.containers.saturating_sub(1);
            for binding in &held.charge.ports {
                if let Some(count) = host.ports.get_mut(&binding.port) {
                    *count -= 1;
                    if *count == 0 {
                        host.ports.remove(&binding.port);
                    }
                }
            }
            if host.known.is_none() && host.used.containers == 0 {
                self.hosts.remove(&held.charge.host);
            }
        }
        self.book(&id.task, before);
        Some(held)
    }

    /// What a task is charged to its account: its containers count once, with the largest of each amount.
    pub(super) fn task(&self, task: &TaskId) -> Option<Amounts> {
        self.containers_of(task).map(|held| amounts_of(&held.charge.resources)).reduce(largest)
    }

    /// What one more container of a task would add to its accounts.
    pub(super) fn addition(&self, task: &TaskId, resources: &Resources) -> Amounts {
        let with = amounts_of(resources);
        self.task(task).map_or(with, |before| largest(before, with).minus(before))
    }

    /// A task's charged containers.
    pub(super) fn containers_of<'a>(&'a self, task: &TaskId) -> impl Iterator<Item = &'a Held> + use<'a> {
        let first = ContainerId { task: task.clone(), epoch: Epoch(0) };
        let last = ContainerId { task: task.clone(), epoch: Epoch(u64::MAX) };
        self.held.range(first..=last).map(|(_, held)| held)
    }

    /// A job's charged containers, by slot.
    pub(super) fn containers_of_job<'a>(&'a self, job: &JobId) -> impl Iterator<Item = &'a Held> + use<'a> {
        let first = ContainerId { task: TaskId { job: job.clone(), index: 0 }, epoch: Epoch(0) };
        let last = ContainerId { task: TaskId { job: job.clone(), index: u32::MAX }, epoch: Epoch(u64::MAX) };
        self.held.range(first..=last).map(|(_, held)| held)
    }

    /// Brings the accounts of a task up to date after its containers changed.
    fn book(&mut self, task: &TaskId, before: Option<Amounts>) {
        let after = self.task(task);
        if after == before {
            return;
        }
        for account in account_and_above(&task.job.account) {
            let used = self.accounts.entry(account.clone()).or_default();
            *used = used.plus(after.unwrap_or_default()).minus(before.unwrap_or_default());
            if *used == Amounts::default() {
                self.accounts.remove(&account);
            }
        }
    }
}

fn largest(a: Amounts, b: Amounts) -> Amounts {
    Amounts { cpu: a.cpu.max(b.cpu), memory: a.memory.max(b.memory), tasks: a.tasks.max(b.tasks) }
}
