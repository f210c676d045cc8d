//! Where time comes from. Machines never ask; they are told.

use futures::{FutureExt as _, future::BoxFuture};
use polder_types::{Millis, Timestamp};
use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::sync::watch;

/// The longest uninterrupted sleep of [`SystemClock`], so that a wall clock that was set forward wakes nobody later
/// than this.
const SLEEP_MAX: Duration = Duration::from_secs(10);

/// A source of time for machines, and a way to wait for a moment of it.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The current moment. Wall clocks may step backwards; machines must bear that.
    fn now(&self) -> Timestamp;

    /// Resolves at or after `at`.
    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()>;
}

/// The machine's wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

fn wall() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        wall()
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        async move {
            loop {
                let left = at.since(wall());
                if left == Millis(0) {
                    return;
                }
                tokio::time::sleep(left.to_duration().min(SLEEP_MAX)).await;
            }
        }
        .boxed()
    }
}

/// Follows tokio's clock from a chosen moment on. With tokio's time paused, a test decides how it passes.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    epoch: Timestamp,
    start: tokio::time::Instant,
}

impl TokioClock {
    /// A clock that shows `epoch` now.
    #[must_use]
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { epoch, start: tokio::time::Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        self.epoch + Millis(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        let target = self.start + at.since(self.epoch).to_duration();
        tokio::time::sleep_until(target).boxed()
    }
}

/// A clock that moves only when told to.
#[derive(Clone, Debug)]
pub struct ManualClock {
    now: watch::Sender<Timestamp>,
}

impl ManualClock {
    /// A clock that shows `now` until it is moved.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self { now: watch::Sender::new(now) }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Millis) {
        self.now.send_modify(|now| *now = *now + by);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.now.borrow()
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        let mut now = self.now.subscribe();
        async move {
            // The sender can only be gone when the clock is, and then no time passes any more.
            if now.wait_for(|now| *now >= at).await.is_err() {
                futures::future::pending::<()>().await;
            }
        }
        .boxed()
    }
}
