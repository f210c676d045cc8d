//! What can be seen of an actor from outside.

use crate::{Clock, MailboxStatus};
use polder_types::Timestamp;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// What an actor is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum ActorState {
    /// Its machine is being built for the first time.
    Starting,
    /// It handles events.
    Running,
    /// Its machine was dropped and is being built again; events wait.
    Restoring {
        /// Attempts so far, this one included.
        attempt: u32,
    },
    /// It handles events, except those of these keys, which made it panic.
    Quarantined {
        /// The keys.
        keys: Vec<String>,
    },
    /// It finishes its commits and stops.
    Stopping,
    /// It failed too often, and so did its parents: it is started no more until somebody intervenes.
    Escalated,
    /// It was stopped, or handed over to another owner.
    Stopped,
}

impl ActorState {
    /// Whether events are handled.
    #[must_use]
    pub const fn is_working(&self) -> bool {
        matches!(self, Self::Running | Self::Quarantined { .. })
    }

    /// Whether it will stay like this.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self, Self::Stopped | Self::Escalated)
    }
}

impl fmt::Display for ActorState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starting => f.write_str("starting"),
            Self::Running => f.write_str("running"),
            Self::Restoring { attempt } => write!(f, "restoring (attempt {attempt})"),
            Self::Quarantined { keys } => write!(f, "running, {} in quarantine", keys.len()),
            Self::Stopping => f.write_str("stopping"),
            Self::Escalated => f.write_str("given up"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

/// Counts of one actor since its name was first used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorCounts {
    /// Steps, wake-ups included.
    pub steps: u64,
    /// How long the last step took.
    pub last_step_micros: u64,
    /// How long the longest step took.
    pub step_micros_max: u64,
    /// Commits that were durable.
    pub commits: u64,
    /// Commits under way.
    pub commits_under_way: usize,
    /// Changes that wait for the journal.
    pub deltas_waiting: usize,
    /// Times the machine was dropped and restored, for whatever reason.
    pub restarts: u64,
    /// Steps and effects that panicked.
    pub panics: u64,
    /// Checks that found a rule broken.
    pub violations: u64,
    /// Commits that were refused.
    pub conflicts: u64,
    /// Commits of unknown outcome.
    pub unknowns: u64,
    /// Events that were turned away because their key is in quarantine.
    pub diverted: u64,
}

/// One line of the status table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorStatus {
    /// The name, with its parents': `region/shard-3`.
    pub name: String,
    /// What it is doing.
    #[serde(flatten)]
    pub state: ActorState,
    /// Since when.
    pub since: Timestamp,
    /// The last thing that went wrong.
    pub last_error: Option<String>,
    /// Its inbox.
    pub mailbox: MailboxStatus,
    /// Its counts.
    #[serde(flatten)]
    pub counts: ActorCounts,
}

#[derive(Debug)]
struct Notes {
    since: Timestamp,
    last_error: Option<String>,
    counts: ActorCounts,
}

/// Written by the actor, read by everybody else.
#[derive(Debug)]
pub(crate) struct Probe {
    name: String,
    clock: Arc<dyn Clock>,
    state: watch::Sender<ActorState>,
    notes: Mutex<Notes>,
}

impl Probe {
    pub(crate) fn new(name: String, clock: Arc<dyn Clock>) -> Self {
        let notes = Notes { since: clock.now(), last_error: None, counts: ActorCounts::default() };
        Self { name, clock, state: watch::Sender::new(ActorState::Starting), notes: Mutex::new(notes) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, state: ActorState) {
        if *self.state.borrow() != state {
            self.notes().since = self.clock.now();
            self.state.send_replace(state);
        }
    }

    pub(crate) fn state(&self) -> ActorState {
        self.state.borrow().clone()
    }

    pub(crate) async fn wait_for(&self, wanted: impl FnMut(&ActorState) -> bool) -> ActorState {
        let mut states = self.state.subscribe();
        // The sender lives in `self`, so waiting can't fail.
        states.wait_for(wanted).await.map_or(ActorState::Stopped, |state| state.clone())
    }

    pub(crate) fn error(&self, what: String) {
        self.notes().last_error = Some(what);
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut ActorCounts)) {
        change(&mut self.notes().counts);
    }

    pub(crate) fn status(&self, mailbox: MailboxStatus) -> ActorStatus {
        let state = self.state();
        let notes = self.notes();
        ActorStatus {
            name: self.name.clone(),
            state,
            since: notes.since,
            last_error: notes.last_error.clone(),
            mailbox,
            counts: notes.counts,
        }
    }
}
