//! Oracles: they look at what really is, at what was durably written and at what people were told, and know nothing of
//! how machines decide. One for each of the ten promises that Polder makes so far.

mod answers;
mod at_most_one;
mod converges;
mod drained;
mod explicit;
pub(crate) mod quota;
mod restart;
mod silence;
pub(crate) mod truth;
mod waits;

use crate::{names::HostAt, world::World};
use polder_core::job_shard::{JobRecord, TaskChunk};
use polder_types::{ContainerId, DrainVersion, JobId, TaskId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// What is charged is the fold of task records, it fits, and nothing runs without a record.
pub const ONE_TRUTH: &str = "one-truth";
/// Nothing is replaced because of a silence that was too short.
pub const SILENCE: &str = "silence";
/// No container is stopped without a cause, and none is started twice.
pub const RESTART: &str = "restart";
/// Whatever waits has a reason and a deadline, and deadlines are kept.
pub const WAITS: &str = "waits";
/// Once everything is as wanted, nothing moves any more.
pub const REST: &str = "rest";
/// A task has one live container at most, but for those that were replaced while their hosts were silent.
pub const AT_MOST_ONE: &str = "at-most-one";
/// Allotments don't sum to more than the quota, and nothing is admitted beyond an allotment.
pub const QUOTA: &str = "quota";
/// A host that is drained has no process of a task.
pub const DRAINED: &str = "drained";
/// Nothing is stopped or deleted for want of a record: only by order.
pub const EXPLICIT: &str = "explicit";
/// What people were told is durable.
pub const ANSWERS: &str = "answers";
/// After the faults everything comes right in time.
pub const CONVERGES: &str = "converges";
/// Machines' own checks.
pub const MACHINE: &str = "machine";

/// All oracles.
pub const ALL: &[&str] =
    &[ONE_TRUTH, SILENCE, RESTART, WAITS, REST, AT_MOST_ONE, QUOTA, DRAINED, EXPLICIT, ANSWERS, CONVERGES, MACHINE];

/// What oracles remember.
#[derive(Debug, Default)]
pub(crate) struct Oracles {
    /// Only these are asked; empty means all.
    only: Vec<&'static str>,
    pub(crate) books: Vec<truth::Books>,
    pub(crate) silence: silence::Silence,
    pub(crate) quota: quota::Limits,
    pub(crate) orders: explicit::Orders,
    pub(crate) restart: restart::Started,
    pub(crate) answers: answers::Told,
    /// What really runs of each task.
    pub(crate) alive: BTreeMap<TaskId, BTreeSet<(HostAt, ContainerId)>>,
    /// When each drain of each host was due.
    pub(crate) drains: BTreeMap<(HostAt, DrainVersion), Timestamp>,
}

impl Oracles {
    pub(crate) fn new(only: Vec<&'static str>) -> Self {
        Self { only, ..Self::default() }
    }

    pub(crate) fn watches(&self, oracle: &str) -> bool {
        self.only.is_empty() || self.only.contains(&oracle)
    }
}

impl World {
    /// A job is written.
    pub(crate) fn see_job(&mut self, region: u8, shard: u16, record: JobRecord) {
        self.see_job_written(region, shard, &record);
        self.region_mut(region).store.jobs.insert((shard, record.id().clone()), record);
    }

    /// A job is removed.
    pub(crate) fn see_job_deleted(&mut self, region: u8, shard: u16, job: &JobId) {
        self.see_job_removed(region, shard, job);
        self.region_mut(region).store.jobs.remove(&(shard, job.clone()));
    }

    /// Task records are written or removed.
    pub(crate) fn see_chunk(&mut self, region: u8, key: (u16, JobId, u32), new: Option<TaskChunk>) {
        let old = self.region_mut(region).store.chunks.remove(&key);
        let (before, after) = (old.map_or_else(Vec::new, |chunk| chunk.tasks), new.as_ref());
        let after: &[_] = after.map_or(&[], |chunk| &chunk.tasks);
        for task in after {
            let was = before.iter().find(|was| was.index == task.index);
            self.see_task(region, key.0, &key.1, was, Some(task));
        }
        for was in &before {
            if !after.iter().any(|task| task.index == was.index) {
                self.see_task(region, key.0, &key.1, Some(was), None);
            }
        }
        if let Some(chunk) = new {
            self.region_mut(region).store.chunks.insert(key, chunk);
        }
    }
}
