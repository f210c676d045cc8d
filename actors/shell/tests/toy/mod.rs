//! A small machine with every way to go wrong, and a disk whose answers the test decides.
#![allow(dead_code, unreachable_pub, missing_debug_implementations, reason = "each test program uses a part")]

use futures::future::BoxFuture;
use polder_core::machine::{Effects, Machine, Violation};
use polder_shell::{
    ActorOptions, Backoff, Clock, Commit, Handle, Journal, Panic, RestartPolicy, RestoreError, RestoreReason, Restored,
    Restoring, Role, Tree, TreeOptions,
};
use polder_types::{Millis, Timestamp};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
};
use tokio::sync::oneshot;

/// Adding so much ends a key's quarantine.
pub const MENDS: u64 = 100;

#[derive(Debug)]
pub enum Event {
    Add {
        key: u32,
        amount: u64,
    },
    /// Says something after what came before, without a change of its own.
    Say(&'static str),
    /// Changes half of what it should, then panics.
    Poison {
        key: u32,
    },
    /// Panics, and nobody is to blame.
    Crash,
    /// Breaks the rule that `total` is the sum.
    Corrupt,
    /// Asks for a wake-up.
    Alarm {
        at: Timestamp,
    },
    /// Has its effect panic.
    BadEffect,
}

#[derive(Debug)]
pub enum Effect {
    Said(String),
    Panic,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    pub key: u32,
    pub amount: u64,
}

#[derive(Debug, Default)]
pub struct Toy {
    pub sums: BTreeMap<u32, u64>,
    pub total: u64,
    alarm: Option<Timestamp>,
    awake: bool,
}

impl Machine for Toy {
    type Event = Event;
    type Effect = Effect;
    type Delta = Delta;

    fn step(&mut self, _: Timestamp, event: Event) -> Effects<Self> {
        let mut effects = Effects::none();
        match event {
            Event::Add { key, amount } => {
                *self.sums.entry(key).or_default() += amount;
                self.total += amount;
                effects.now(Effect::Said(format!("now {key}+{amount}")));
                effects.persist(Delta { key, amount });
                effects.after(Effect::Said(format!("after {key}+{amount}")));
            }
            Event::Say(what) => effects.after(Effect::Said(what.to_owned())),
            Event::Poison { key } => {
                *self.sums.entry(key).or_default() += 1000;
                panic!("job {key} is poisoned");
            }
            Event::Crash => panic!("crashed"),
            Event::Corrupt => {
                self.total += 1;
                effects.now(Effect::Said("must not be seen".to_owned()));
            }
            Event::Alarm { at } => self.alarm = Some(at),
            Event::BadEffect => {
                self.sums.insert(99, 1);
                self.total += 1;
                effects.now(Effect::Panic);
                effects.persist(Delta { key: 99, amount: 1 });
            }
        }
        effects
    }

    fn wake(&mut self, now: Timestamp) -> Effects<Self> {
        let mut effects = Effects::none();
        if !self.awake {
            self.awake = true;
            effects.now(Effect::Said("awake".to_owned()));
        }
        if self.alarm.is_some_and(|at| at <= now) {
            self.alarm = None;
            effects.now(Effect::Said(format!("alarm at {}", now.0)));
        }
        effects
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        self.alarm
    }

    fn check(&self) -> Result<(), Violation> {
        let sum: u64 = self.sums.values().sum();
        if sum == self.total {
            Ok(())
        } else {
            Err(Violation { rule: "the total is the sum", found: format!("{} instead of {sum}", self.total) })
        }
    }
}

#[derive(Debug)]
struct Held {
    steps: Vec<Vec<Delta>>,
    answer: oneshot::Sender<Commit>,
}

#[derive(Debug, Default)]
struct DiskState {
    durable: BTreeMap<u32, u64>,
    /// Answers to come before all is committed at once.
    script: VecDeque<Commit>,
    holding: bool,
    held: VecDeque<Held>,
    groups: Vec<usize>,
    depth: usize,
    restore_errors: VecDeque<RestoreError>,
    reasons: Vec<String>,
    log: Vec<String>,
    diverted: Vec<u32>,
    quarantined: Vec<u32>,
    panics: Vec<String>,
    announce: bool,
}

/// Durable state, and everything that the role saw.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<DiskState>>);

impl Disk {
    fn with<T>(&self, f: impl FnOnce(&mut DiskState) -> T) -> T {
        f(&mut self.0.lock().unwrap())
    }
    pub fn script(&self, answers: impl IntoIterator<Item = Commit>) {
        self.with(|disk| disk.script.extend(answers));
    }
    pub fn hold(&self) {
        self.with(|disk| disk.holding = true);
    }
    /// Has restores say so.
    pub fn announce(&self) {
        self.with(|disk| disk.announce = true);
    }
    pub fn depth(&self, depth: usize) {
        self.with(|disk| disk.depth = depth);
    }
    pub fn fail_restore(&self, errors: impl IntoIterator<Item = RestoreError>) {
        self.with(|disk| disk.restore_errors.extend(errors));
    }
    pub fn held(&self) -> usize {
        self.with(|disk| disk.held.len())
    }
    /// Answers the commit that has been under way n-th longest.
    pub fn answer(&self, nth: usize, commit: Commit) {
        self.with(|disk| {
            let held = disk.held.remove(nth).expect("a commit under way");
            if commit == Commit::Committed {
                apply(&mut disk.durable, &held.steps);
            }
            held.answer.send(commit).expect("somebody waits");
        });
    }
    pub fn durable(&self) -> BTreeMap<u32, u64> {
        self.with(|disk| disk.durable.clone())
    }
    /// Steps in each commit.
    pub fn groups(&self) -> Vec<usize> {
        self.with(|disk| disk.groups.clone())
    }
    pub fn log(&self) -> Vec<String> {
        self.with(|disk| disk.log.clone())
    }
    pub fn reasons(&self) -> Vec<String> {
        self.with(|disk| disk.reasons.clone())
    }
    pub fn diverted(&self) -> Vec<u32> {
        self.with(|disk| disk.diverted.clone())
    }
    pub fn quarantined(&self) -> Vec<u32> {
        self.with(|disk| disk.quarantined.clone())
    }
    pub fn panics(&self) -> Vec<String> {
        self.with(|disk| disk.panics.clone())
    }
}

fn apply(durable: &mut BTreeMap<u32, u64>, steps: &[Vec<Delta>]) {
    for delta in steps.iter().flatten() {
        *durable.entry(delta.key).or_default() += delta.amount;
    }
}

impl Journal<Delta> for Disk {
    fn commit(&self, steps: Vec<Vec<Delta>>) -> BoxFuture<'static, Commit> {
        self.with(|disk| -> BoxFuture<'static, Commit> {
            disk.groups.push(steps.len());
            if disk.holding {
                let (answer, answered) = oneshot::channel();
                disk.held.push_back(Held { steps, answer });
                return Box::pin(async move { answered.await.expect("an answer") });
            }
            let commit = disk.script.pop_front().unwrap_or(Commit::Committed);
            if commit == Commit::Committed {
                apply(&mut disk.durable, &steps);
            }
            Box::pin(std::future::ready(commit))
        })
    }

    fn depth(&self) -> usize {
        self.with(|disk| disk.depth)
    }
}

pub struct ToyRole(pub Disk);

impl Role for ToyRole {
    const KIND: polder_shell::ActorKind = polder_shell::ActorKind::Other;

    type Machine = Toy;
    type Key = u32;

    async fn restore(&mut self, restoring: Restoring<'_, u32>) -> Result<Restored<Toy>, RestoreError> {
        tokio::task::yield_now().await;
        self.0.with(|disk| {
            disk.reasons.push(short(restoring.reason).to_owned());
            if let Some(error) = disk.restore_errors.pop_front() {
                return Err(error);
            }
            let sums = disk.durable.clone();
            let mut effects = Effects::none();
            if disk.announce {
                effects.after(Effect::Said(format!("restored after {:?}", restoring.quarantined)));
            }
            Ok((Toy { total: sums.values().sum(), sums, ..Toy::default() }, effects))
        })
    }

    fn journal(&self) -> Arc<dyn Journal<Delta>> {
        Arc::new(self.0.clone())
    }

    fn execute(&mut self, _: Timestamp, effect: Effect) {
        match effect {
            Effect::Said(what) => self.0.with(|disk| disk.log.push(what)),
            Effect::Panic => panic!("an effect panicked"),
        }
    }

    fn culprit(&self, event: &Event) -> Option<u32> {
        match event {
            Event::Add { key, .. } | Event::Poison { key } => Some(*key),
            _ => None,
        }
    }

    fn poisoned(&mut self, _: Option<&u32>, panic: &Panic) {
        self.0.with(|disk| disk.panics.push(panic.message.clone()));
    }

    fn quarantine(&mut self, key: &u32) {
        self.0.with(|disk| disk.quarantined.push(*key));
    }

    fn quarantined(&mut self, key: &u32, event: Event) -> Option<Event> {
        if matches!(event, Event::Add { amount: MENDS.., .. }) {
            return Some(event);
        }
        self.0.with(|disk| disk.diverted.push(*key));
        None
    }
}

const fn short(reason: &RestoreReason) -> &'static str {
    match reason {
        RestoreReason::Started => "started",
        RestoreReason::Restarted => "restarted",
        RestoreReason::Conflict { .. } => "conflict",
        RestoreReason::Unknown { .. } => "unknown",
        RestoreReason::Panicked { .. } => "panicked",
        RestoreReason::Violated { .. } => "violated",
    }
}

pub const EPOCH: Timestamp = Timestamp(1_000_000);

/// Limits and pauses small enough for tests; time is tokio's, paused.
pub fn policy(limit: u32) -> RestartPolicy {
    RestartPolicy { limit, backoff: Backoff { first: Millis(10), max: Millis(1000) }, ..RestartPolicy::default() }
}

pub fn options() -> ActorOptions {
    ActorOptions { check_every: std::num::NonZeroU32::MIN, ..ActorOptions::default() }.restarts(policy(2))
}

/// A tree on this thread whose clock is tokio's, paused: it moves on only when everybody waits.
pub fn tree() -> Tree {
    Tree::on_this_thread(tree_options())
}

pub fn tree_options() -> TreeOptions {
    tokio::time::pause();
    let clock: Arc<dyn Clock> = Arc::new(polder_shell::TokioClock::starting_at(EPOCH));
    TreeOptions { clock, restarts: policy(1), ..TreeOptions::default() }
}

pub fn spawn(tree: &Tree, name: &str, disk: &Disk) -> Handle<Toy> {
    let disk = disk.clone();
    tree.root().spawn(name, options(), move |_| ToyRole(disk.clone())).unwrap()
}

/// Lets everybody do what they can do without time passing by.
pub async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// Waits, in virtual time, until something holds.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..20_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

pub const fn add(key: u32, amount: u64) -> Event {
    Event::Add { key, amount }
}
