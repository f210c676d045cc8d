//! One machine with what its shell keeps of it: the inbox, the commits under way, the one timer.
//!
//! The model of `polder-shell`'s driver: what is in `now` is done at once; changes of several steps that wait for each
//! other are one commit; one commit is under way at a time; what is in `after` comes out when its commit, and all before
//! it, are durable; after anything but "committed" the machine is dropped and restored.

use polder_core::machine::Machine;
use std::{collections::VecDeque, mem};

/// Where a cell is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its machine takes events.
    Running,
    /// Its machine is gone; what it had whole is still being committed.
    Settling,
    /// Its machine is being restored.
    Restoring,
}

/// A machine and its surroundings.
pub(crate) struct Cell<M: Machine> {
    pub(crate) machine: Option<M>,
    pub(crate) phase: Phase,
    /// Counts machines, so that what was for an earlier one is known.
    pub(crate) life: u32,
    /// Events that wait for it.
    pub(crate) inbox: VecDeque<M::Event>,
    /// It takes no event before.
    pub(crate) stalled_until: u64,
    /// When its timer rings, and which ringing counts.
    pub(crate) wake_at: Option<u64>,
    pub(crate) wake_token: u32,
    /// No wake before.
    pub(crate) wake_not_before: u64,
    /// Restarts in a row, and when the last one was.
    /// When its machine began.
    pub(crate) began_at: u64,
    pub(crate) restarts: u32,
    pub(crate) restarted_at: u64,
    pending: Vec<Vec<M::Delta>>,
    under_way: bool,
    submitted: u64,
    answered: u64,
    gates: VecDeque<(u64, Vec<M::Effect>)>,
}

impl<M: Machine> std::fmt::Debug for Cell<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cell").field("phase", &self.phase).field("life", &self.life).finish_non_exhaustive()
    }
}

impl<M: Machine> Default for Cell<M> {
    fn default() -> Self {
        Self {
            machine: None,
            phase: Phase::Restoring,
            life: 0,
            inbox: VecDeque::new(),
            stalled_until: 0,
            wake_at: None,
            wake_token: 0,
            wake_not_before: 0,
            began_at: 0,
            restarts: 0,
            restarted_at: 0,
            pending: Vec::new(),
            under_way: false,
            submitted: 0,
            answered: 0,
            gates: VecDeque::new(),
        }
    }
}

impl<M: Machine> Cell<M> {
    /// The machine, while it takes events.
    pub(crate) fn running(&self) -> Option<&M> {
        if self.phase == Phase::Running { self.machine.as_ref() } else { None }
    }

    /// Begins anew with a machine that was just restored.
    pub(crate) fn begin(&mut self, machine: M) {
        self.machine = Some(machine);
        self.phase = Phase::Running;
        self.pending.clear();
        self.gates.clear();
        self.under_way = false;
        self.wake_at = None;
    }

    /// Takes a step's changes and gated effects; gives the effects back if nothing stands before them.
    pub(crate) fn push(&mut self, deltas: Vec<M::Delta>, gated: Vec<M::Effect>) -> Vec<M::Effect> {
        if !deltas.is_empty() {
            self.pending.push(deltas);
        }
        if gated.is_empty() {
            return gated;
        }
        // Without changes of its own, a step still rests on those of the steps before it.
        let group = if self.pending.is_empty() { self.submitted } else { self.submitted + 1 };
        if group <= self.answered {
            return gated;
        }
        self.gates.push_back((group, gated));
        Vec::new()
    }

    /// The next commit, if one is due and none is under way.
    pub(crate) fn submit(&mut self) -> Option<Vec<Vec<M::Delta>>> {
        if self.under_way || self.pending.is_empty() {
            return None;
        }
        self.under_way = true;
        self.submitted += 1;
        Some(mem::take(&mut self.pending))
    }

    /// The commit under way is durable: what waited for it.
    pub(crate) fn committed(&mut self) -> Vec<M::Effect> {
        self.under_way = false;
        self.answered += 1;
        let mut released = Vec::new();
        while self.gates.front().is_some_and(|(group, _)| *group <= self.answered) {
            released.extend(self.gates.pop_front().into_iter().flat_map(|(_, effects)| effects));
        }
        released
    }

    /// The commit under way failed: the machine is dropped with everything that waited.
    pub(crate) fn failed(&mut self) {
        self.under_way = false;
        self.answered += 1;
        self.pending.clear();
        self.gates.clear();
        self.machine = None;
        self.phase = Phase::Restoring;
        self.wake_at = None;
    }

    /// The machine is gone, but not what it had done before.
    pub(crate) fn drop_machine(&mut self) {
        self.machine = None;
        self.phase = Phase::Settling;
        self.wake_at = None;
    }

    /// Whether nothing is under way or about to be.
    pub(crate) fn is_settled(&self) -> bool {
        !self.under_way && self.pending.is_empty()
    }

    /// The pause before the next restore: it doubles with each until a minute passed without one.
    pub(crate) fn pause(&mut self, now: u64) -> u64 {
        if now.saturating_sub(self.restarted_at) > RESTART_WINDOW {
            self.restarts = 0;
        }
        self.restarted_at = now;
        self.restarts = self.restarts.saturating_add(1);
        (RESTART_PAUSE << (self.restarts - 1).min(16)).min(RESTART_PAUSE_MAX)
    }
}

/// As in `polder-shell`'s restart policy.
const RESTART_WINDOW: u64 = 60_000;
const RESTART_PAUSE: u64 = 10;
const RESTART_PAUSE_MAX: u64 = 10_000;
