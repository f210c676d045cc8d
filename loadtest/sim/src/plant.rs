//! Bugs that are planted on purpose, to see that the oracles catch them. No production code knows of them: an actor's
//! events and effects are spoilt on their way.

use crate::{
    names::{AllocatorAt, BrokerAt, HostAt, LedgerAt, RouterAt, ShardAt},
    world::{Step, World},
};
use polder_core::{
    allocator::{self, Allocator},
    broker::Broker,
    host::Host,
    intent_router::IntentRouter,
    job_shard::{self, JobShard},
    quota_ledger::QuotaLedger,
};

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plant {
    /// Its name.
    pub name: &'static str,
    /// What goes wrong.
    pub what: &'static str,
    /// The oracle that is to see it.
    pub oracle: &'static str,
}

impl Plant {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self {
        name: "epoch-reused",
        what: "a node that takes an actor does not raise its epoch",
        oracle: "one-truth",
    }];

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|plant| plant.name == name).copied()
    }
}

impl World {
    /// Whether this bug is planted.
    pub(crate) fn plants(&self, name: &str) -> bool {
        self.plant.is_some_and(|plant| plant.name == name)
    }
}

pub(crate) fn spoil_allocator(_world: &mut World, _at: AllocatorAt, _step: &mut Step<Allocator>) {}

pub(crate) fn spoil_allocator_event(_world: &mut World, event: allocator::Event) -> Option<allocator::Event> {
    Some(event)
}

pub(crate) fn spoil_shard(_world: &mut World, _at: ShardAt, _step: &mut Step<JobShard>) {}

pub(crate) fn spoil_shard_event(_world: &mut World, _at: ShardAt, event: job_shard::Event) -> Option<job_shard::Event> {
    Some(event)
}

pub(crate) fn spoil_broker(_world: &mut World, _at: BrokerAt, _step: &mut Step<Broker>) {}

pub(crate) fn spoil_host(_world: &mut World, _at: HostAt, _step: &mut Step<Host>) {}

pub(crate) fn spoil_router(_world: &mut World, _at: RouterAt, _step: &mut Step<IntentRouter>) {}

pub(crate) fn spoil_ledger(_world: &mut World, _at: LedgerAt, _step: &mut Step<QuotaLedger>) {}
