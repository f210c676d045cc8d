//! What is sent to regions again and again until they have it.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    vec::Vec,
};
use core::fmt::Debug;
use polder_types::{Millis, RegionId, Timestamp};

use crate::machine::Violation;

/// How long to wait for an answer before something is sent again for the first time; doubles each time.
const BACKOFF_FIRST: Millis = Millis(1000);
/// The longest wait.
const BACKOFF_MAX: Millis = Millis::from_secs(30);

/// One thing that a region is not known to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Put {
    /// How often it was sent.
    sent: u32,
    /// When it is sent next; none while the region is not heard.
    next_at: Option<Timestamp>,
}

/// Everything that regions are not known to have, by region and key.
#[derive(Debug)]
pub(crate) struct Outbox<K> {
    puts: BTreeMap<RegionId, BTreeMap<K, Put>>,
    due: BTreeSet<(Timestamp, RegionId, K)>,
}

impl<K> Default for Outbox<K> {
    fn default() -> Self {
        Self { puts: BTreeMap::new(), due: BTreeSet::new() }
    }
}

impl<K: Clone + Ord + Debug> Outbox<K> {
    /// Has something sent at a time, or once the region is heard. Its backoff begins anew.
    pub(crate) fn want(&mut self, region: &RegionId, key: &K, at: Option<Timestamp>) {
        self.set(region, key, Put { sent: 0, next_at: at });
    }

    /// Has something that waits to be sent wait until then.
    pub(crate) fn postpone(&mut self, region: &RegionId, key: &K, at: Option<Timestamp>) {
        if let Some(put) = self.puts.get(region).and_then(|puts| puts.get(key)).copied() {
            self.set(region, key, Put { next_at: at, ..put });
        }
    }

    /// Has everything for a region wait until then.
    pub(crate) fn postpone_all(&mut self, region: &RegionId, at: Option<Timestamp>) {
        let keys: Vec<K> = self.puts.get(region).map(|puts| puts.keys().cloned().collect()).unwrap_or_default();
        for key in keys {
            self.postpone(region, &key, at);
        }
    }

    /// A region has it, or is to have it no more.
    pub(crate) fn done(&mut self, region: &RegionId, key: &K) {
        let Some(puts) = self.puts.get_mut(region) else { return };
        if let Some(at) = puts.remove(key).and_then(|put| put.next_at) {
            self.due.remove(&(at, region.clone(), key.clone()));
        }
        if puts.is_empty() {
            self.puts.remove(region);
        }
    }

    /// The next thing to send by now, if any. It comes again, later and later, until it is done.
    pub(crate) fn pop_due(&mut self, now: Timestamp) -> Option<(RegionId, K)> {
        let (at, region, key) = self.due.first().cloned()?;
        if at > now {
            return None;
        }
        let sent = self.puts.get(&region).and_then(|puts| puts.get(&key)).map_or(0, |put| put.sent);
        let put = Put { sent: sent.saturating_add(1), next_at: Some(now + backoff(sent)) };
        self.set(&region, &key, put);
        Some((region, key))
    }

    /// When the next thing is to be sent.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, ..)| *at)
    }

    /// Whether a region is not known to have it.
    pub(crate) fn contains(&self, region: &RegionId, key: &K) -> bool {
        self.puts.get(region).is_some_and(|puts| puts.contains_key(key))
    }

    /// How many things regions are not known to have.
    pub(crate) fn len(&self) -> usize {
        self.puts.values().map(BTreeMap::len).sum()
    }

    fn set(&mut self, region: &RegionId, key: &K, put: Put) {
        let old = self.puts.entry(region.clone()).or_default().insert(key.clone(), put);
        if let Some(at) = old.and_then(|old| old.next_at) {
            self.due.remove(&(at, region.clone(), key.clone()));
        }
        if let Some(at) = put.next_at {
            self.due.insert((at, region.clone(), key.clone()));
        }
    }

    /// Recounts the order of time, and looks that only regions that are heard are sent to.
    ///
    /// # Errors
    /// When a rule does not hold.
    pub(crate) fn check(&self, is_heard: impl Fn(&RegionId) -> bool) -> Result<(), Violation> {
        let mut dated = BTreeSet::new();
        for (region, puts) in &self.puts {
            for (key, put) in puts {
                let Some(at) = put.next_at else { continue };
                if !is_heard(region) {
                    let found = format!("{key:?} is to be sent to {region}, which is not heard");
                    return Err(Violation { rule: "only regions that are heard are sent to", found });
                }
                dated.insert((at, region.clone(), key.clone()));
            }
        }
        if dated == self.due {
            return Ok(());
        }
        let found = format!("{} have a time, {} are in the order", dated.len(), self.due.len());
        Err(Violation { rule: "what is to be sent is in the order of time", found })
    }
}

fn backoff(sent: u32) -> Millis {
    let doubled = BACKOFF_FIRST.0.checked_shl(sent.min(16)).unwrap_or(BACKOFF_MAX.0);
    Millis(doubled.min(BACKOFF_MAX.0))
}
