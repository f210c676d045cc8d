//! One run of a seed: faults, then peace, then rest.

use crate::{
    oracle::{self, Oracles},
    outcome::Outcome,
    plan::{Plan, Shape},
    plant::Plant,
    trace::Detail,
    world::{EPOCH, World},
};

/// Events of the first part of a run, if nothing else is asked for.
const EVENTS: u64 = 20_000;
/// Things that happen between two looks at what waits.
const LOOK_EVERY: u64 = 512;
/// How long everything may take to come right after the faults, in milliseconds of virtual time.
const CONVERGES_WITHIN: u64 = 30 * 60_000;
/// How often is looked whether it has.
const SETTLED_EVERY: u64 = 2_000;
/// How long nothing may move once it has: longer than anything is repeated.
const RESTS_FOR: u64 = 7 * 60_000;

/// What is asked of a run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The seed.
    pub seed: u64,
    /// How its world is drawn.
    pub shape: Shape,
    /// How many events happen before everything heals, at least.
    pub events: u64,
    /// How much is kept of what happens.
    pub detail: Detail,
    /// Only these oracles are asked; empty means all.
    pub only: Vec<&'static str>,
    /// A bug that is planted.
    pub plant: Option<Plant>,
}

impl Setup {
    /// A run of a seed as it draws itself.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, shape: Shape::Drawn, events: EVENTS, detail: Detail::Brief, only: Vec::new(), plant: None }
    }
}

/// Runs a seed.
#[must_use]
pub fn run(setup: &Setup) -> Outcome {
    let plan = Plan::draw(setup.seed, setup.shape);
    let oracles = Oracles::new(setup.only.clone());
    let mut world = World::new(setup.seed, plan, setup.detail.clone(), oracles, setup.plant);
    while world.found.is_none() && world.counts.events() < setup.events && world.next() {
        if world.counts.happenings.is_multiple_of(LOOK_EVERY) && !matches!(setup.shape, Shape::Large { .. }) {
            world.look_at_waits();
        }
    }
    let mut converged_in_ms = None;
    if world.found.is_none() && !matches!(setup.shape, Shape::Large { .. }) {
        converged_in_ms = converge(&mut world);
        if converged_in_ms.is_some() {
            rest(&mut world);
        }
    }
    Outcome {
        seed: setup.seed,
        hash: world.trace.hash(),
        found: world.found.take(),
        counts: world.counts,
        virtual_ms: world.now - EPOCH,
        converged_in_ms,
    }
}

fn run_until(world: &mut World, until: u64) {
    while world.found.is_none() && world.queue.next_at().is_some_and(|at| at <= until) && world.next() {
        if world.counts.happenings.is_multiple_of(LOOK_EVERY) {
            world.look_at_waits();
        }
    }
    world.now = world.now.max(until);
}

/// Everything heals. How long it took to come right.
fn converge(world: &mut World) -> Option<u64> {
    world.heal();
    let began = world.now;
    let mut why = None;
    while world.now < began + CONVERGES_WITHIN && world.found.is_none() {
        let until = world.now + SETTLED_EVERY;
        run_until(world, until);
        let open = world.open_all_hosts();
        world.counts.look(oracle::CONVERGES);
        why = if open { world.unsettled() } else { Some("a host is still closed".to_owned()) };
        if why.is_none() {
            return Some(world.now - began);
        }
    }
    if let Some(why) = why {
        world.violated(oracle::CONVERGES, format!("{} min after the faults: {why}", CONVERGES_WITHIN / 60_000));
    }
    None
}

/// Nothing moves any more.
fn rest(world: &mut World) {
    let (jobs, until) = (world.at_rest(), world.now + RESTS_FOR);
    let before = world.oracles.restart.by_job.clone();
    run_until(world, until);
    world.counts.look(oracle::REST);
    let after = &world.oracles.restart.by_job;
    let moved = jobs.iter().find(|job| before.get(job) != after.get(job)).cloned();
    if let Some(job) = moved {
        world.violated(oracle::REST, format!("a container of {job} started though everything was as wanted"));
    }
    if let Some(why) = world.unsettled() {
        world.violated(oracle::REST, format!("what was right is not any more: {why}"));
    }
}
