//! What a host remembers.

use super::{
    ALIVE_EVERY, FULL_EVERY,
    container::{Container, Run},
    record::{DrainRecord, DrainState, Records, TaskFloor},
};
use crate::{machine::Effects, message::DrainAttestation};
use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::RangeInclusive;
use polder_types::{BootId, ContainerId, DrainVersion, Epoch, HostInfo, OwnerEpoch, ShardId, TaskId, Timestamp};

/// Who a host is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// What it says of itself.
    pub info: HostInfo,
    /// The boot of its machine.
    pub boot: BootId,
}

/// The open link to the region.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) session: u64,
    pub(super) alive_at: Timestamp,
    pub(super) full_at: Timestamp,
}

impl Link {
    pub(super) fn new(session: u64, now: Timestamp) -> Self {
        Self { session, alive_at: now + ALIVE_EVERY, full_at: now + FULL_EVERY }
    }
}

/// Runs the containers of one machine as its region orders.
#[derive(Debug)]
pub struct Host {
    pub(super) config: HostConfig,
    pub(super) containers: BTreeMap<ContainerId, Container>,
    pub(super) owners: BTreeMap<ShardId, OwnerEpoch>,
    pub(super) floors: BTreeMap<TaskId, TaskFloor>,
    pub(super) drain: Option<DrainRecord>,
    /// Whether the runtime has said what it holds.
    pub(super) adopted: bool,
    pub(super) link: Option<Link>,
    /// What was attested last on this link.
    pub(super) attested: Option<DrainAttestation>,
    /// Containers for which an image is being prepared, ahead of the order to start them.
    pub(super) preparing: BTreeSet<ContainerId>,
    /// Containers whose status is to be said at the end of this step.
    pub(super) changed: BTreeSet<ContainerId>,
}

impl Host {
    /// Starts from its durable records. Nothing is done until the runtime has said what it holds
    /// ([`Event::Adopted`](super::Event::Adopted)).
    pub fn restore(config: HostConfig, records: Records, _now: Timestamp) -> (Self, Effects<Self>) {
        let containers = records
            .containers
            .into_iter()
            .map(|record| (record.id.clone(), Container::recorded(record, Run::Unseen)))
            .collect();
        let host = Self {
            config,
            containers,
            owners: records.owners.into_iter().map(|owner| (owner.shard, owner.epoch)).collect(),
            floors: records.floors.into_iter().map(|floor| (floor.task.clone(), floor)).collect(),
            drain: records.drain,
            adopted: false,
            link: None,
            attested: None,
            preparing: BTreeSet::new(),
            changed: BTreeSet::new(),
        };
        (host, Effects::none())
    }

    /// The drain that is open, if one is.
    pub(super) fn open_drain(&self) -> Option<DrainVersion> {
        let drain = self.drain.as_ref()?;
        matches!(drain.state, DrainState::Open { .. }).then_some(drain.version)
    }

    /// The containers of a task, oldest first.
    pub(super) fn of_task<'a>(
        &'a self,
        task: &TaskId,
    ) -> impl DoubleEndedIterator<Item = (&'a ContainerId, &'a Container)> {
        self.containers.range(all_epochs(task))
    }

    /// The newest epoch of a task that this host has seen.
    pub(super) fn newest_epoch(&self, task: &TaskId) -> Option<Epoch> {
        let known = self.of_task(task).next_back().map(|(id, _)| id.epoch);
        let floor = self.floors.get(task).map(|floor| floor.epoch);
        known.max(floor)
    }
}

pub(super) fn all_epochs(task: &TaskId) -> RangeInclusive<ContainerId> {
    let at = |epoch| ContainerId { task: task.clone(), epoch };
    at(Epoch(0))..=at(Epoch(u64::MAX))
}
