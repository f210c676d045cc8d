//! Nothing is stopped or deleted but by an order: every stop on record has a cause that this oracle knows of.

use super::{EXPLICIT, World};
use crate::happening::Order;
use polder_core::job_shard::{JobRecord, Placement, StopReason};
use polder_types::{ContainerId, HostId, JobId};
use std::collections::BTreeSet;

/// What people have ordered so far.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    stopped: BTreeSet<JobId>,
    deleted: BTreeSet<JobId>,
    /// Hosts whose drain was begun, durably or not.
    drained: BTreeSet<(u8, HostId)>,
}

impl World {
    /// Somebody orders something.
    pub(crate) fn see_order(&mut self, order: &Order) {
        match order {
            Order::Stop(job) => {
                self.oracles.orders.stopped.insert(job.clone());
            }
            Order::Delete(job) => {
                self.oracles.orders.deleted.insert(job.clone());
            }
            _ => {}
        }
    }

    pub(crate) fn see_job_written(&mut self, region: u8, shard: u16, record: &JobRecord) {
        self.counts.look(EXPLICIT);
        let job = record.id();
        if record.slice.stopped && !self.oracles.orders.stopped.contains(job) {
            self.violated(EXPLICIT, format!("region {region} stops {job}, and nobody ordered that"));
        }
        let old = self.region(region).store.jobs.get(&(shard, job.clone()));
        if let Some(old) = old.filter(|old| old.slice.version > record.slice.version) {
            let what = format!("the slice of {job} goes back from {} to {}", old.slice.version, record.slice.version);
            self.violated(EXPLICIT, what);
        }
        if record.quarantine.is_some() {
            self.violated(super::MACHINE, format!("{job} is set aside in region {region}"));
        }
    }

    /// A broker writes a host with a drain, or tries to.
    pub(crate) fn see_drain_begun(&mut self, region: u8, host: &HostId) {
        self.oracles.orders.drained.insert((region, host.clone()));
    }

    pub(crate) fn see_job_removed(&mut self, region: u8, shard: u16, job: &JobId) {
        self.counts.look(EXPLICIT);
        let left = self.region(region).store.chunks.iter().any(|((of, id, _), _)| *of == shard && id == job);
        if left {
            self.violated(EXPLICIT, format!("{job} is removed in region {region} before its tasks are"));
        }
        if !self.oracles.orders.deleted.contains(job) {
            self.violated(EXPLICIT, format!("{job} is removed in region {region}, and nobody ordered that"));
        }
        self.see_job_forgotten(region, job);
    }

    /// What a record says of a container; `was` is what it said before.
    pub(crate) fn see_placement(
        &mut self,
        region: u8,
        shard: u16,
        id: &ContainerId,
        placement: &Placement,
        was: Option<&Placement>,
    ) {
        let Some(stop) = placement.stop else {
            if was.is_some_and(|was| was.stop.is_some()) {
                self.violated(EXPLICIT, format!("the stop of {id} is taken back"));
            }
            return;
        };
        if was.is_some_and(|was| was.stop.is_some()) {
            return;
        }
        self.counts.look(EXPLICIT);
        let job = self.region(region).store.jobs.get(&(shard, id.task.job.clone()));
        let cause = match stop.why {
            StopReason::JobStopped => job.is_some_and(|job| job.slice.stopped),
            StopReason::SlotRemoved => job.is_some_and(|job| !job.slice.slots.contains(id.task.index)),
            StopReason::Updated => job.is_some_and(|job| job.generation != placement.generation),
            StopReason::Drained => {
                let host = self.region(region).store.hosts.get(&placement.host);
                let begun = &self.oracles.orders.drained;
                // Brokers say again how hosts are from what they hold in memory: that may be ahead of their store.
                host.is_some_and(|host| host.drains.0 > 0) || begun.contains(&(region, placement.host.clone()))
            }
            StopReason::Replaced => {
                self.see_replaced(region, shard, id, placement);
                true
            }
        };
        if !cause {
            self.violated(EXPLICIT, format!("{id} is to stop ({:?}), and that is not so", stop.why));
        }
    }
}
