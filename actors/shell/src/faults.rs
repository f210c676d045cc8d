//! How much an actor may fail: pauses, limits, and who is to blame.

use polder_types::{Millis, Timestamp};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Pauses that double.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first pause.
    pub first: Millis,
    /// The longest.
    pub max: Millis,
}

impl Backoff {
    /// The pause before the attempt after `failures` failures in a row.
    #[must_use]
    pub fn pause(self, failures: u32) -> Millis {
        match failures {
            0 => Millis(0),
            n => Millis(self.first.0.saturating_mul(1 << (n - 1).min(32)).min(self.max.0)),
        }
    }
}

/// When to stop trying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartPolicy {
    /// Failures within `window` that are borne; one more and the parent is told.
    pub limit: u32,
    /// The length of memory.
    pub window: Millis,
    /// Pauses between attempts.
    pub backoff: Backoff,
    /// Panics within `window` for which one key is to blame until it is quarantined.
    pub quarantine_after: u32,
    /// Keys to blame, quarantined or on the way there, that are borne; with more of them it is not the keys.
    pub blamed_keys_max: usize,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            limit: 5,
            window: Millis::from_secs(60),
            backoff: Backoff { first: Millis(10), max: Millis::from_secs(10) },
            quarantine_after: 2,
            blamed_keys_max: 16,
        }
    }
}

/// A count of failures that forgets.
#[derive(Debug, Default)]
pub(crate) struct Recent(VecDeque<Timestamp>);

impl Recent {
    /// Counts one more and says how many there were within `window`.
    pub(crate) fn count(&mut self, now: Timestamp, window: Millis) -> u32 {
        self.forget(now, window);
        self.0.push_back(now);
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    fn forget(&mut self, now: Timestamp, window: Millis) {
        while self.0.front().is_some_and(|&at| now.since(at) > window) {
            self.0.pop_front();
        }
    }
}

/// What follows from a panic.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Restore and go on.
    Restore,
    /// Restore without the key that is to blame.
    Quarantine,
    /// Give up.
    Escalate,
}

/// The record of one actor's failures.
#[derive(Debug)]
pub(crate) struct Faults<Key> {
    policy: RestartPolicy,
    unexplained: Recent,
    blamed: BTreeMap<Key, Recent>,
    quarantined: BTreeSet<Key>,
    in_a_row: u32,
    last: Option<Timestamp>,
}

impl<Key: Clone + Ord> Faults<Key> {
    pub(crate) fn new(policy: RestartPolicy) -> Self {
        Self {
            policy,
            unexplained: Recent::default(),
            blamed: BTreeMap::new(),
            quarantined: BTreeSet::new(),
            in_a_row: 0,
            last: None,
        }
    }

    pub(crate) const fn quarantined(&self) -> &BTreeSet<Key> {
        &self.quarantined
    }

    /// Lets keys out whose text is `key`.
    pub(crate) fn release(&mut self, key: &str) -> bool
    where
        Key: std::fmt::Display,
    {
        let before = self.quarantined.len();
        self.quarantined.retain(|held| held.to_string() != key);
        self.quarantined.len() < before
    }

    /// Judges a panic or a violation.
    pub(crate) fn judge(&mut self, now: Timestamp, blame: Option<&Key>) -> Verdict {
        let Some(key) = blame else {
            let count = self.unexplained.count(now, self.policy.window);
            return if count > self.policy.limit { Verdict::Escalate } else { Verdict::Restore };
        };
        let window = self.policy.window;
        self.blamed.retain(|_, recent| {
            recent.forget(now, window);
            !recent.0.is_empty()
        });
        let count = self.blamed.entry(key.clone()).or_default().count(now, window);
        let verdict = if count >= self.policy.quarantine_after {
            self.blamed.remove(key);
            self.quarantined.insert(key.clone());
            Verdict::Quarantine
        } else {
            Verdict::Restore
        };
        let involved = self.blamed.len() + self.quarantined.len();
        if involved > self.policy.blamed_keys_max { Verdict::Escalate } else { verdict }
    }

    /// The pause before the next restore. Grows with every failure until there was none for a whole window.
    pub(crate) fn pause(&mut self, now: Timestamp) -> Millis {
        if self.last.is_none_or(|last| now.since(last) > self.policy.window) {
            self.in_a_row = 0;
        }
        self.last = Some(now);
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.policy.backoff.pause(self.in_a_row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults() -> Faults<u32> {
        Faults::new(RestartPolicy { limit: 2, blamed_keys_max: 3, ..RestartPolicy::default() })
    }

    #[test]
    fn a_window_forgets() {
        let mut faults = faults();
        for at in [0, 1, 61_002, 61_003] {
            assert_eq!(faults.judge(Timestamp(at), None), Verdict::Restore, "{at}");
        }
        assert_eq!(faults.judge(Timestamp(61_004), None), Verdict::Escalate);
    }

    #[test]
    fn a_key_is_quarantined_and_does_not_use_up_the_limit() {
        let mut faults = faults();
        for key in [1, 2, 3] {
            assert_eq!(faults.judge(Timestamp(0), Some(&key)), Verdict::Restore);
            assert_eq!(faults.judge(Timestamp(1), Some(&key)), Verdict::Quarantine);
        }
        assert_eq!(faults.judge(Timestamp(2), None), Verdict::Restore);
        assert_eq!(faults.judge(Timestamp(3), Some(&4)), Verdict::Escalate, "too many keys: it is not the keys");
        assert!(faults.release("2"));
        assert!(!faults.release("2"));
        assert_eq!(faults.quarantined().iter().copied().collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let backoff = Backoff { first: Millis(10), max: Millis(100) };
        let pauses: Vec<u64> = (0..7).map(|failures| backoff.pause(failures).0).collect();
        assert_eq!(pauses, [0, 10, 20, 40, 80, 100, 100]);
        assert_eq!(backoff.pause(u32::MAX).0, 100);

        let mut faults = faults();
        assert_eq!(faults.pause(Timestamp(0)), Millis(10));
        assert_eq!(faults.pause(Timestamp(5)), Millis(20));
        assert_eq!(faults.pause(Timestamp(70_000)), Millis(10), "a quiet window");
    }
}
