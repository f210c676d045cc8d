//! A restart is a no-op: no container is stopped without a durable cause, and none is started twice.

use super::{RESTART, World};
use crate::names::HostAt;
use polder_types::{ContainerId, JobId};
use std::collections::{BTreeMap, BTreeSet};

/// How far a deadline may lie ahead of this world's clock and have passed by a node's.
const SKEW: u64 = 3_000;

/// Every container that ever started.
#[derive(Debug, Default)]
pub(crate) struct Started {
    containers: BTreeSet<(u8, ContainerId)>,
    /// How many of each job there were.
    pub(crate) by_job: BTreeMap<JobId, u64>,
}

impl World {
    pub(crate) fn see_first_start(&mut self, at: HostAt, id: &ContainerId) {
        self.counts.look(RESTART);
        *self.oracles.restart.by_job.entry(id.task.job.clone()).or_default() += 1;
        if !self.oracles.restart.containers.insert((at.region, id.clone())) {
            self.violated(RESTART, format!("{id} is started again on {at}"));
        }
    }

    /// A job is forgotten: its name is free, and its tasks count from the beginning again.
    pub(crate) fn see_job_forgotten(&mut self, region: u8, job: &JobId) {
        self.oracles.restart.containers.retain(|(of, id)| *of != region || id.task.job != *job);
    }

    /// A host stops a container.
    pub(crate) fn see_stopped(&mut self, at: HostAt, id: &ContainerId, how: &str) {
        let runs = self.host(at).real.get(id).is_some_and(super::super::world::Real::is_running);
        if !runs {
            return;
        }
        self.counts.look(RESTART);
        let ordered =
            self.oracles.books[usize::from(at.region)].placed.get(id).is_none_or(|placed| placed.stop.is_some());
        // A host may still be at an order of a drain that has been called off since: it counts when that one was due.
        let drain = self.host(at).disk.drain().map(|drain| drain.version);
        let deadline = drain.and_then(|version| self.oracles.drains.get(&(at, version)));
        let forced = deadline.is_some_and(|deadline| deadline.0 <= self.now + SKEW);
        if !ordered && !forced {
            self.violated(RESTART, format!("{id} gets {how} on {at}, and its record does not say that it is to stop"));
        }
    }
}
