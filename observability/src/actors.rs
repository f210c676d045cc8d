//! Actors, by kind.

use crate::{
    buckets,
    family::families,
    values::{Counter, Timing},
};
use std::time::Duration;

/// What an actor is. The bounded value of the label `actor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ActorKind {
    /// Picks hosts for a region.
    Allocator,
    /// Owns a share of a region's jobs.
    JobShard,
    /// Knows the hosts of a datacenter.
    Broker,
    /// Runs the containers of one machine.
    Host,
    /// Shares jobs out over regions.
    IntentRouter,
    /// Shares quotas out over regions.
    QuotaLedger,
    /// Anything else: actors of tests.
    Other,
}

impl ActorKind {
    /// The value of the label.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allocator => "allocator",
            Self::JobShard => "job_shard",
            Self::Broker => "broker",
            Self::Host => "host",
            Self::IntentRouter => "intent_router",
            Self::QuotaLedger => "quota_ledger",
            Self::Other => "other",
        }
    }
}

families! {
    /// Actors, by kind: several of a kind are counted together.
    pub struct Actors {
        /// Messages and wake-ups that actors have handled.
        messages: Counters<1> = "polder_actor_messages_total" ["actor"];
        /// Messages that wait, over all actors of the kind.
        mailbox_depth: Gauges<1> = "polder_actor_mailbox_depth" ["actor"];
        /// At most how long the oldest message that waits has waited, in seconds; 0 when none waits.
        mailbox_age: Gauges<1> = "polder_actor_mailbox_age_seconds" ["actor"];
        /// How long single steps of actors' machines took, in seconds.
        step_seconds: Timings<1> = "polder_actor_step_seconds" ["actor"] in buckets::STEPS;
        /// Times that an actor's machine was dropped and restored from what is durable, for whatever reason.
        restarts: Counters<1> = "polder_actor_restarts_total" ["actor"];
        /// Steps and effects that panicked; each was undone.
        panics: Counters<1> = "polder_actor_panics_total" ["actor"];
        /// Times that an actor was told that what it writes rests on has changed: mostly that somebody else owns it now.
        fencing_losses: Counters<1> = "polder_fencing_losses_total" ["actor"];
    }
}

/// The handles of one kind, so that nothing is looked up for a message.
#[derive(Clone, Debug)]
pub struct ActorMeter {
    messages: Counter,
    steps: Timing,
    restarts: Counter,
    panics: Counter,
    fencing_losses: Counter,
}

impl ActorMeter {
    /// Those of a kind.
    #[must_use]
    pub fn of(kind: ActorKind) -> Self {
        let (actors, kind) = (Actors::shared(), [kind.name()]);
        Self {
            messages: actors.messages.of(kind),
            steps: actors.step_seconds.of(kind),
            restarts: actors.restarts.of(kind),
            panics: actors.panics.of(kind),
            fencing_losses: actors.fencing_losses.of(kind),
        }
    }

    /// Messages were handled.
    pub fn handled(&self, messages: u64) {
        self.messages.add(messages);
    }

    /// A step took this long.
    pub fn stepped(&self, took: Duration) {
        self.steps.took(took);
    }

    /// A machine is dropped and restored.
    pub fn restarted(&self) {
        self.restarts.count();
    }

    /// A step or an effect panicked.
    pub fn panicked(&self) {
        self.panics.count();
    }

    /// Somebody else may own it now.
    pub fn fenced(&self) {
        self.fencing_losses.count();
    }
}

/// How full the mailbox of one actor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mailbox {
    /// Whose.
    pub kind: ActorKind,
    /// Messages that wait.
    pub depth: usize,
    /// At most how long the oldest of them has waited.
    pub oldest: Duration,
}

impl Actors {
    /// Shows how full all mailboxes of this process are.
    pub fn show_mailboxes(&self, all: impl IntoIterator<Item = Mailbox>) {
        let mut kinds = std::collections::BTreeMap::<ActorKind, (usize, Duration)>::new();
        for mailbox in all {
            let (depth, oldest) = kinds.entry(mailbox.kind).or_default();
            *depth += mailbox.depth;
            *oldest = (*oldest).max(mailbox.oldest);
        }
        let name = |kind: &ActorKind| [kind.name().to_owned()];
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float; no mailbox holds 2^52 messages")]
        self.mailbox_depth.show(kinds.iter().map(|(kind, (depth, _))| (name(kind), *depth as f64)));
        self.mailbox_age.show(kinds.iter().map(|(kind, (_, oldest))| (name(kind), oldest.as_secs_f64())));
    }
}
