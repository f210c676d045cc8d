//! The clock that leases are measured by.

use rustix::time::{ClockId, clock_gettime};
use std::{
    ops::{Add, Sub},
    time::Duration,
};

/// A moment on this machine's boot clock: it never jumps, and goes on while the machine is suspended.
///
/// The standard library's `Instant` stands still during a suspension, so that a machine that wakes up would believe
/// in a lease that everybody else has seen expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// The present moment.
    #[must_use]
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::Boottime);
        let secs = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
        Self(Duration::new(secs, nanos))
    }

    /// How long after `earlier` this is; nothing if it is before.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;
    fn add(self, length: Duration) -> Self {
        Self(self.0.saturating_add(length))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;
    fn sub(self, length: Duration) -> Self {
        Self(self.0.saturating_sub(length))
    }
}
