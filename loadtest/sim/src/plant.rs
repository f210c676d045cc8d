//! Bugs that are planted on purpose, to see that the oracles catch them. No production code knows of them: an actor's
//! events and effects are spoilt on their way.

use crate::{
    names::{ActorId, HostAt},
    oracle,
    world::{Step, World},
};
use polder_core::{
    allocator::{self, Allocator},
    broker::{self, Broker},
    host::{self, Host},
    intent_router::{self, IntentRouter},
    job_shard::{self, JobShard},
    message::{HostHealth, HostOrder, HostReport, PlacementNote},
    quota_ledger::{self, QuotaLedger},
};
use polder_types::{BootId, ContainerPhase, Slots, Timestamp};

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

const fn plant(name: &'static str, oracle: &'static str, what: &'static str) -> Plant {
    Plant { name, what, oracle }
}

impl Plant {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        plant("placed-is-forgotten", oracle::ONE_TRUTH, "the allocator does not charge what was placed"),
        plant("end-made-up", oracle::ONE_TRUTH, "a shard hears that a container has ended that runs"),
        plant("silence-added", oracle::SILENCE, "a broker counts ten minutes of silence that were not"),
        plant("agent-kills", oracle::RESTART, "an agent kills what it finds when its link opens"),
        plant("shard-sleeps", oracle::WAITS, "a shard is never woken"),
        plant("inventory-forgets", oracle::REST, "an inventory leaves out a container that runs, as after a reboot"),
        plant("slots-doubled", oracle::AT_MOST_ONE, "each region is given every slot"),
        plant("allotments-doubled", oracle::QUOTA, "each region may admit twice its part"),
        plant("allotment-ignored", oracle::QUOTA, "the allocator admits without limits"),
        plant("drain-sworn-early", oracle::DRAINED, "a host swears that nothing is left while something is"),
        plant("stop-made-up", oracle::EXPLICIT, "a region is told to stop a job that nobody stopped"),
        plant(
            "intent-not-kept",
            oracle::ANSWERS,
            "the router answers before its record is written, and never writes it",
        ),
        plant("stops-lost", oracle::CONVERGES, "no order to stop a container reaches its host"),
    ];

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

    /// Whether an actor is never woken.
    pub(crate) fn sleeps(&self, actor: ActorId) -> bool {
        matches!(actor, ActorId::Shard(_)) && self.plants("shard-sleeps")
    }
}

pub(crate) fn spoil_allocator(_world: &World, _step: &mut Step<Allocator>) {}

pub(crate) fn spoil_allocator_event(world: &World, event: allocator::Event) -> Option<allocator::Event> {
    match event {
        allocator::Event::Note(PlacementNote::Placed { request, charges }) if world.plants("placed-is-forgotten") => {
            let tasks = charges.iter().map(|charge| charge.container.task.index).collect();
            Some(allocator::Event::Note(PlacementNote::Withdraw { request, tasks }))
        }
        allocator::Event::AllotmentChanged(mut allotment) if world.plants("allotment-ignored") => {
            allotment.limit = polder_types::Amounts::UNLIMITED;
            Some(allocator::Event::AllotmentChanged(allotment))
        }
        event => Some(event),
    }
}

pub(crate) fn spoil_shard(world: &World, step: &mut Step<JobShard>) {
    if world.plants("stops-lost") {
        let is_stop = |effect: &job_shard::Effect| {
            matches!(effect, job_shard::Effect::Order { order: HostOrder::Stop { .. }, .. })
        };
        step.after.retain(|effect| !is_stop(effect));
    }
}

pub(crate) fn spoil_shard_event(world: &mut World, event: job_shard::Event) -> job_shard::Event {
    match event {
        job_shard::Event::HostListed { host, mut statuses, .. }
            if world.healed && world.plants("inventory-forgets") =>
        {
            statuses.pop();
            let boot = BootId(format!("made-up-{}", world.now));
            job_shard::Event::HostListed { host, boot, statuses }
        }
        job_shard::Event::HostReported { host, mut statuses } if world.plants("end-made-up") => {
            let at = Timestamp(world.now);
            for status in &mut statuses {
                if let ContainerPhase::Running { .. } = status.phase
                    && world.dice.faults.chance(50)
                {
                    status.phase = ContainerPhase::Ended { status: polder_types::ExitStatus::Code { code: 1 }, at };
                }
            }
            job_shard::Event::HostReported { host, statuses }
        }
        event => event,
    }
}

pub(crate) fn spoil_broker(world: &World, step: &mut Step<Broker>) {
    if !world.plants("silence-added") {
        return;
    }
    for effect in step.now.iter_mut().chain(&mut step.after) {
        if let broker::Effect::Host(notice) = effect
            && let HostHealth::Unknown { since } = &mut notice.condition.health
        {
            *since = Timestamp(since.0.saturating_sub(600_000));
        }
    }
}

pub(crate) fn spoil_host(world: &World, at: HostAt, step: &mut Step<Host>) {
    for effect in &mut step.after {
        if let host::Effect::Report(HostReport::Drain(attestation)) = effect
            && world.plants("drain-sworn-early")
        {
            attestation.remaining.clear();
        }
    }
    let opens = |effect: &host::Effect| matches!(effect, host::Effect::Report(HostReport::Inventory { .. }));
    if world.plants("agent-kills") && step.after.iter().any(opens) {
        let running: Vec<_> = world.host(at).running().map(|(id, _)| id.clone()).collect();
        step.after.extend(running.into_iter().map(|id| host::Effect::Kill { id }));
    }
}

pub(crate) fn spoil_router(world: &World, step: &mut Step<IntentRouter>) {
    if world.plants("intent-not-kept") {
        step.persist.clear();
    }
    for effect in &mut step.after {
        if let intent_router::Effect::PutSlice { slice, .. } = effect {
            if world.plants("slots-doubled") {
                slice.slots = Slots::first(slice.spec.tasks);
            }
            if world.plants("stop-made-up") {
                slice.stopped = true;
            }
        }
    }
}

pub(crate) fn spoil_ledger(world: &World, step: &mut Step<QuotaLedger>) {
    for effect in &mut step.after {
        if let quota_ledger::Effect::PutAllotment { allotment, .. } = effect
            && world.plants("allotments-doubled")
        {
            allotment.limit = allotment.limit.plus(allotment.limit);
        }
    }
}
