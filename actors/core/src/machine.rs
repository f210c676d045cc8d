//! What a machine is, and what it asks of whoever drives it.

use alloc::{string::String, vec::Vec};
use core::fmt;
use polder_types::Timestamp;

/// A decision maker without side effects. The same state and the same inputs give the same outputs, always.
///
/// A machine is driven in a loop: an event or a deadline comes in, effects come out. It is restored from its durable
/// state (how, each machine says itself: see its `restore`), and dropped and restored again whenever a commit is not
/// known to be durable, so nothing it holds beyond durable state may be missed for long.
pub trait Machine {
    /// What happened; past tense.
    type Event;
    /// What is to be done; imperative.
    type Effect;
    /// A change of durable state.
    type Delta;

    /// Handles one event. Does not fail: bad input becomes an effect that says so.
    fn step(&mut self, now: Timestamp, event: Self::Event) -> Effects<Self>;

    /// Handles the passing of `next_deadline`. Called at or after it, and harmless when called early.
    fn wake(&mut self, now: Timestamp) -> Effects<Self>;

    /// When `wake` is to be called if nothing else happens.
    fn next_deadline(&self) -> Option<Timestamp>;

    /// Recounts everything that is cached.
    ///
    /// # Errors
    /// When a cached figure differs from what it is a copy of.
    fn check(&self) -> Result<(), Violation>;
}

/// A cached figure that is not what it should be, or a rule that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule}: {found}")]
pub struct Violation {
    /// The rule.
    pub rule: &'static str,
    /// What was found instead.
    pub found: String,
}

/// What the driver owes a machine after a step, in order: `now` at any time, then `persist`, then what waits for it.
///
/// What must wait can't be done early: it comes out only through [`Gated::open`], which wants the proof that
/// `persist` is durable.
#[must_use = "effects do nothing until they are carried out"]
pub struct Effects<M: Machine + ?Sized> {
    now: Vec<M::Effect>,
    persist: Vec<M::Delta>,
    after: Vec<M::Effect>,
}

impl<M: Machine + ?Sized> Effects<M> {
    /// Nothing to do.
    pub const fn none() -> Self {
        Self { now: Vec::new(), persist: Vec::new(), after: Vec::new() }
    }

    /// Adds an effect that may be carried out at once.
    pub fn now(&mut self, effect: M::Effect) {
        self.now.push(effect);
    }

    /// Adds a change of durable state.
    pub fn persist(&mut self, delta: M::Delta) {
        self.persist.push(delta);
    }

    /// Adds an effect that waits until every change of this step is durable.
    pub fn after(&mut self, effect: M::Effect) {
        self.after.push(effect);
    }

    /// Adds all of another step's effects behind these.
    pub fn extend(&mut self, other: Self) {
        self.now.extend(other.now);
        self.persist.extend(other.persist);
        self.after.extend(other.after);
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.now.is_empty() && self.persist.is_empty() && self.after.is_empty()
    }

    /// Takes the effects apart for the driver.
    #[expect(clippy::type_complexity, reason = "three parts in their order; a name for them would say less")]
    pub fn split(self) -> (Vec<M::Effect>, Vec<M::Delta>, Gated<M::Effect>) {
        (self.now, self.persist, Gated(self.after))
    }
}

impl<M: Machine + ?Sized> Default for Effects<M> {
    fn default() -> Self {
        Self::none()
    }
}

impl<M: Machine + ?Sized> fmt::Debug for Effects<M>
where
    M::Effect: fmt::Debug,
    M::Delta: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Effects")
            .field("now", &self.now)
            .field("persist", &self.persist)
            .field("after", &self.after)
            .finish()
    }
}

/// Effects that wait for their step's changes to be durable.
#[derive(Debug)]
#[must_use = "effects do nothing until they are carried out"]
pub struct Gated<E>(Vec<E>);

impl<E> Gated<E> {
    /// Releases the effects.
    #[must_use]
    pub fn open(self, _proof: Durable) -> Vec<E> {
        self.0
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Proof that a step's changes are durable. Only whoever commits them may make one.
#[derive(Clone, Copy, Debug)]
pub struct Durable(());

impl Durable {
    /// States that the changes were committed, or that there were none.
    #[must_use]
    pub const fn committed() -> Self {
        Self(())
    }
}
