//! What waits for an actor. It outlives the actor: when one ends, the next takes over where it stood.

use crate::{port::Drain, query::Query};
use polder_core::machine::Machine;
use std::{collections::VecDeque, fmt, sync::Mutex};
use tokio::sync::mpsc;

pub(crate) struct Inbox<M: Machine> {
    pub(crate) events: Drain<M::Event>,
    pub(crate) queries: mpsc::Receiver<Query<M>>,
    /// Events that were taken out of the channel together and were not handled yet.
    pub(crate) held: VecDeque<M::Event>,
}

impl<M: Machine> fmt::Debug for Inbox<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("events", &self.events).field("held", &self.held.len()).finish_non_exhaustive()
    }
}

impl<M: Machine> Inbox<M> {
    /// Refuses all that comes from now on, and drops what waits.
    pub(crate) fn close(&mut self) {
        self.events.close();
        while self.events.try_recv().is_some() {}
        self.held.clear();
        self.events.handled(0);
        self.queries.close();
        while self.queries.try_recv().is_ok() {}
    }
}

/// Where the inbox is while no actor has it.
#[derive(Debug)]
pub(crate) struct Parking<M: Machine>(Mutex<Option<Inbox<M>>>);

impl<M: Machine> Parking<M> {
    pub(crate) fn new(inbox: Inbox<M>) -> Self {
        Self(Mutex::new(Some(inbox)))
    }

    pub(crate) fn take(&self) -> Option<Inbox<M>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }

    pub(crate) fn put(&self, inbox: Inbox<M>) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(inbox);
    }

    /// Closes the inbox if no actor has it.
    pub(crate) fn close(&self) {
        if let Some(inbox) = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).as_mut() {
            inbox.close();
        }
    }
}
