//! Ports: the only way to say something to an actor, and never an unbounded one.

use futures::future::poll_fn;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};
use tokio::sync::mpsc;

/// Why an event was not taken. The event comes back: a full port is something that its sender handles.
#[derive(thiserror::Error)]
pub enum PortError<E> {
    /// The inbox has no room now.
    #[error("the inbox is full: the actor behind it is slower than its senders; send again later, or drop the event")]
    Full {
        /// The event.
        event: E,
    },
    /// The actor was stopped for good.
    #[error("the actor was stopped: nobody will handle this event")]
    Closed {
        /// The event.
        event: E,
    },
}

impl<E> PortError<E> {
    /// The event that was not taken.
    pub fn into_event(self) -> E {
        match self {
            Self::Full { event } | Self::Closed { event } => event,
        }
    }

    /// Whether trying again can help.
    pub const fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }
}

// By hand, so that events need not be `Debug`.
impl<E> fmt::Debug for PortError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_full() { "Full" } else { "Closed" })
    }
}

/// How full an inbox is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailboxStatus {
    /// Events that wait.
    pub depth: usize,
    /// Events that can wait.
    pub capacity: usize,
    /// The most that ever waited.
    pub high_water: usize,
    /// Events that were refused because there was no room.
    pub refused: u64,
    /// The oldest event that waits has waited at most this long; 0 when none waits.
    pub oldest_ms_max: u64,
}

#[derive(Debug)]
pub(crate) struct Gauge {
    capacity: usize,
    high_water: AtomicUsize,
    refused: AtomicU64,
    /// Taken out of the channel, not yet handled.
    held: AtomicUsize,
    /// When nothing waited for the last time, in microseconds since `born`.
    emptied_micros: AtomicU64,
    born: Instant,
}

impl Gauge {
    fn new(capacity: usize) -> Self {
        Self {
            capacity,
            high_water: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            held: AtomicUsize::new(0),
            emptied_micros: AtomicU64::new(0),
            born: Instant::now(),
        }
    }

    fn micros(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn status(&self, queued: usize) -> MailboxStatus {
        let depth = queued + self.held.load(Ordering::Relaxed);
        // The depth only grows between two drains, so looking before each drain (and now) sees every peak.
        let high_water = self.high_water.fetch_max(depth, Ordering::Relaxed).max(depth);
        let waited = if depth == 0 {
            0
        } else {
            self.micros().saturating_sub(self.emptied_micros.load(Ordering::Relaxed)) / 1000
        };
        MailboxStatus {
            depth,
            capacity: self.capacity,
            high_water,
            refused: self.refused.load(Ordering::Relaxed),
            oldest_ms_max: waited,
        }
    }
}

/// A handle to send events to an actor. Cheap to clone, bounded, and good for as long as the actor's name is: restarts
/// of the machine and of the actor behind it go unnoticed, except that events wait longer.
pub struct Port<E> {
    events: mpsc::Sender<E>,
    gauge: Arc<Gauge>,
}

impl<E> Clone for Port<E> {
    fn clone(&self) -> Self {
        Self { events: self.events.clone(), gauge: Arc::clone(&self.gauge) }
    }
}

impl<E> fmt::Debug for Port<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Port").field(&self.status()).finish()
    }
}

impl<E> Port<E> {
    /// A port with no actor behind it: whoever holds the [`Drain`] takes the events. For tests, and for parts that are
    /// not machines.
    #[must_use]
    pub fn detached(capacity: usize) -> (Self, Drain<E>) {
        let capacity = capacity.max(1);
        let (events, receiver) = mpsc::channel(capacity);
        let gauge = Arc::new(Gauge::new(capacity));
        (Self { events, gauge: Arc::clone(&gauge) }, Drain { events: receiver, gauge })
    }

    /// Sends an event if there is room for it. The only way to send from within [`Role::execute`](crate::Role::execute).
    ///
    /// # Errors
    /// When there is no room, or when the actor was stopped for good; the event comes back.
    pub fn try_send(&self, event: E) -> Result<(), PortError<E>> {
        self.events.try_send(event).map_err(|error| match error {
            mpsc::error::TrySendError::Full(event) => {
                self.gauge.refused.fetch_add(1, Ordering::Relaxed);
                PortError::Full { event }
            }
            mpsc::error::TrySendError::Closed(event) => PortError::Closed { event },
        })
    }

    /// Sends an event, waiting for room. Senders get room in the order in which they began to wait.
    ///
    /// # Errors
    /// When the actor was stopped for good; the event comes back.
    pub async fn send(&self, event: E) -> Result<(), PortError<E>> {
        self.events.send(event).await.map_err(|mpsc::error::SendError(event)| PortError::Closed { event })
    }

    /// Whether the actor was stopped for good.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.events.is_closed()
    }

    /// How full the inbox is.
    #[must_use]
    pub fn status(&self) -> MailboxStatus {
        self.gauge.status(self.events.max_capacity() - self.events.capacity())
    }
}

/// The other end of a [`Port`].
pub struct Drain<E> {
    events: mpsc::Receiver<E>,
    gauge: Arc<Gauge>,
}

impl<E> fmt::Debug for Drain<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Drain").field(&self.gauge.status(self.events.len())).finish()
    }
}

impl<E> Drain<E> {
    /// Waits for events and takes up to `limit` of them, in order. None when every port is gone, or after
    /// [`close`](Self::close) when all were taken.
    pub async fn recv_many(&mut self, limit: usize) -> Vec<E> {
        let mut taken = Vec::new();
        poll_fn(|cx| self.poll_many(cx, &mut taken, limit)).await;
        self.handled(0);
        taken
    }

    /// Takes one event if one waits.
    pub fn try_recv(&mut self) -> Option<E> {
        self.gauge.status(self.events.len());
        let event = self.events.try_recv().ok();
        self.handled(0);
        event
    }

    /// Refuses all further events.
    pub fn close(&mut self) {
        self.events.close();
    }

    pub(crate) fn poll_many(
        &mut self,
        cx: &mut std::task::Context<'_>,
        into: &mut Vec<E>,
        limit: usize,
    ) -> std::task::Poll<usize> {
        self.gauge.status(self.events.len());
        self.events.poll_recv_many(cx, into, limit)
    }

    /// Tells the gauge that of the events taken out so far, `held` have not been handled yet.
    pub(crate) fn handled(&self, held: usize) {
        self.gauge.held.store(held, Ordering::Relaxed);
        if held == 0 && self.events.is_empty() {
            self.gauge.emptied_micros.store(self.gauge.micros(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_port_gives_the_event_back_and_counts_it() {
        let (port, mut drain) = Port::detached(2);
        port.try_send(1).unwrap();
        port.try_send(2).unwrap();
        let refused = port.try_send(3).unwrap_err();
        assert!(refused.is_full());
        assert_eq!(refused.into_event(), 3);
        let status = port.status();
        assert_eq!((status.depth, status.capacity, status.high_water, status.refused), (2, 2, 2, 1));

        assert_eq!(drain.try_recv(), Some(1));
        port.try_send(4).unwrap();
        drain.close();
        assert!(matches!(port.try_send(5), Err(PortError::Closed { event: 5 })));
        assert!(port.is_closed());
        assert_eq!((drain.try_recv(), drain.try_recv(), drain.try_recv()), (Some(2), Some(4), None));
        let status = port.status();
        assert_eq!((status.depth, status.high_water, status.oldest_ms_max), (0, 2, 0));
    }

    #[tokio::test]
    async fn send_waits_for_room() {
        let (port, mut drain) = Port::detached(1);
        port.try_send(1).unwrap();
        let waiting = tokio::spawn({
            let port = port.clone();
            async move { port.send(2).await }
        });
        tokio::task::yield_now().await;
        assert_eq!(drain.recv_many(8).await, [1]);
        assert_eq!(drain.recv_many(8).await, [2]);
        waiting.await.unwrap().unwrap();
        drop(port);
        assert!(drain.recv_many(8).await.is_empty());
    }
}
