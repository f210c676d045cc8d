//! What a machine's surroundings are: where its state lives and what its effects mean.

use crate::Panic;
use futures::future::BoxFuture;
use polder_core::machine::{Effects, Machine, Violation};
use polder_observability::ActorKind;
use polder_types::Timestamp;
use std::{collections::BTreeSet, fmt, sync::Arc};

/// The outcome of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commit {
    /// Durable.
    Committed,
    /// Surely not applied: somebody else changed what it rests on, or this owner was deposed.
    Conflict {
        /// What stood against it.
        what: String,
    },
    /// Nobody can tell whether it was applied.
    Unknown {
        /// What went wrong.
        what: String,
    },
}

/// Makes changes of state durable, in order.
pub trait Journal<Delta>: Send + Sync {
    /// Makes `steps` durable. Each inner list holds the changes of one step; they are in order, and belong together as
    /// far as the store can hold them together. Several steps come in one call when they had to wait for each other.
    ///
    /// The call takes its place in the order before it returns; only the waiting is in the future. A commit must never
    /// be applied when an earlier one was not.
    fn commit(&self, steps: Vec<Vec<Delta>>) -> BoxFuture<'static, Commit>;

    /// How many commits may be under way at once. More than one only where the journal itself keeps the promises of
    /// [`commit`](Self::commit) for calls that overlap. The machine steps on while commits are under way, whatever
    /// the depth; with depth one the steps of that time make up the next commit.
    fn depth(&self) -> usize {
        1
    }
}

/// Why a machine is restored.
#[derive(Clone, Debug)]
pub enum RestoreReason {
    /// The actor starts.
    Started,
    /// The whole actor starts again, after it or its parent gave up.
    Restarted,
    /// A commit was refused.
    Conflict {
        /// What stood against it.
        what: String,
    },
    /// A commit may or may not have been applied. Restoring must make sure that it can't be applied later (by a new
    /// epoch, for example) before it reads.
    Unknown {
        /// What went wrong.
        what: String,
    },
    /// A step or an effect panicked.
    Panicked {
        /// What it said and where.
        panic: Box<Panic>,
    },
    /// The machine found itself at odds with its own rules.
    Violated {
        /// The rule and what was found.
        violation: Violation,
    },
}

impl fmt::Display for RestoreReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("the actor starts"),
            Self::Restarted => f.write_str("the actor starts again"),
            Self::Conflict { what } => write!(f, "a commit was refused: {what}"),
            Self::Unknown { what } => write!(f, "it is not known whether a commit was applied: {what}"),
            Self::Panicked { panic } => write!(f, "{panic}"),
            Self::Violated { violation } => write!(f, "a rule of the machine does not hold: {violation}"),
        }
    }
}

/// Why a machine could not be restored.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RestoreError {
    /// Its state can't be read now. It is tried again, with growing pauses, for as long as it takes.
    #[error("the durable state can't be read now: {what}")]
    Unavailable {
        /// What stood in the way.
        what: String,
    },
    /// Somebody else owns it now. The actor stops.
    #[error("somebody else owns this now: {what}")]
    NotOwner {
        /// Who, as far as known.
        what: String,
    },
    /// The state is there and can't be understood. The actor gives up and its parent decides.
    #[error("the durable state can't be used: {what}")]
    Broken {
        /// What is wrong with it.
        what: String,
    },
}

/// The circumstances of a restore.
#[derive(Debug)]
pub struct Restoring<'a, Key> {
    /// Why.
    pub reason: &'a RestoreReason,
    /// What must be left out, because it made the machine panic again and again.
    pub quarantined: &'a BTreeSet<Key>,
    /// The current moment.
    pub now: Timestamp,
}

/// A machine fresh from its durable state, and what it wants done on account of that.
pub type Restored<M> = (M, Effects<M>);

pub(crate) type EventOf<R> = <<R as Role>::Machine as Machine>::Event;
pub(crate) type EffectOf<R> = <<R as Role>::Machine as Machine>::Effect;
pub(crate) type DeltaOf<R> = <<R as Role>::Machine as Machine>::Delta;

/// The surroundings of one machine.
///
/// A role lives on its actor's thread and need not be `Send`. Only `restore` may wait. All other calls run between
/// steps and must be quick: hand work to a task and let its result come back as an event, through the actor's own port.
/// They must not wait for another actor, and send by [`Port::try_send`](crate::Port::try_send) only.
#[expect(async_fn_in_trait, reason = "roles live on one thread, so the future need not be `Send`")]
pub trait Role: Sized + 'static {
    /// What it is counted as.
    const KIND: ActorKind;

    /// The machine.
    type Machine: Machine<Event: Send + 'static, Effect: 'static, Delta: Send + 'static> + 'static;
    /// What can be quarantined by itself: a job, a host, a region.
    type Key: Clone + Ord + fmt::Display + 'static;

    /// Builds the machine from its durable state. No commit is under way when this is called.
    ///
    /// What the machine wants done on account of its restore is carried out first; then the shell calls its `wake`,
    /// whatever its deadline.
    async fn restore(&mut self, restoring: Restoring<'_, Self::Key>) -> Result<Restored<Self::Machine>, RestoreError>;

    /// Where changes of state go. Asked for after each restore.
    fn journal(&self) -> Arc<dyn Journal<DeltaOf<Self>>>;

    /// Carries out an effect.
    fn execute(&mut self, now: Timestamp, effect: EffectOf<Self>);

    /// What is to blame if this event makes the machine panic.
    fn culprit(&self, event: &EventOf<Self>) -> Option<Self::Key> {
        let _ = event;
        None
    }

    /// What is to blame for a panic without an event, as in `wake`: whatever the machine noted that it was working at.
    fn suspect(&self, machine: &Self::Machine) -> Option<Self::Key> {
        let _ = machine;
        None
    }

    /// A step panicked; its event is lost.
    fn poisoned(&mut self, blame: Option<&Self::Key>, panic: &Panic) {
        let _ = (blame, panic);
    }

    /// The key made the machine panic too often. From now on its events go to [`quarantined`](Self::quarantined), and
    /// restores are asked to leave it out.
    fn quarantine(&mut self, key: &Self::Key) {
        let _ = key;
    }

    /// An event of a quarantined key: refuse it where somebody waits for an answer, or give it back to end the
    /// quarantine with it, as when a person mends what was wrong.
    fn quarantined(&mut self, key: &Self::Key, event: EventOf<Self>) -> Option<EventOf<Self>> {
        let _ = event;
        tracing::warn!(%key, "dropped an event of something that is in quarantine");
        None
    }
}
