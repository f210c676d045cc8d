//! Failures that tests can order.

use std::sync::atomic::{AtomicBool, Ordering};

/// Failures of one store; each happens once.
#[derive(Debug, Default)]
pub struct Faults {
    lose_answer: AtomicBool,
    fail_write: AtomicBool,
}

impl Faults {
    /// The next group of commits becomes durable, but those who asked hear that the outcome is unknown.
    pub fn lose_next_answer(&self) {
        self.lose_answer.store(true, Ordering::SeqCst);
    }

    /// The next group of commits fails at the disk; the store stops.
    pub fn fail_next_write(&self) {
        self.fail_write.store(true, Ordering::SeqCst);
    }

    pub(super) fn take_lose_answer(&self) -> bool {
        self.lose_answer.swap(false, Ordering::SeqCst)
    }

    pub(super) fn take_fail_write(&self) -> bool {
        self.fail_write.swap(false, Ordering::SeqCst)
    }
}
