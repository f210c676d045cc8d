//! The leases of this process.

use crate::{clock::Moment, lease::LeaseId};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

struct Granted {
    ttl: Duration,
    until: Moment,
    keys: BTreeSet<String>,
}

/// Which leases live, until when, and which keys live under them. Owned by the writer.
#[derive(Default)]
pub(super) struct Leases {
    last_id: i64,
    granted: BTreeMap<LeaseId, Granted>,
    of_key: HashMap<String, LeaseId>,
}

impl Leases {
    pub(super) fn grant(&mut self, now: Moment, ttl: Duration) -> LeaseId {
        self.last_id += 1;
        let id = LeaseId(self.last_id);
        self.granted.insert(id, Granted { ttl, until: now + ttl, keys: BTreeSet::new() });
        id
    }

    /// Lets a lease live on; none if it has ended.
    pub(super) fn renew(&mut self, now: Moment, id: LeaseId) -> Option<Duration> {
        let granted = self.granted.get_mut(&id)?;
        granted.until = now + granted.ttl;
        Some(granted.ttl)
    }

    pub(super) fn exists(&self, id: LeaseId) -> bool {
        self.granted.contains_key(&id)
    }

    /// Notes which lease a key lives under from now on; true if that is other than before.
    pub(super) fn bind(&mut self, key: &str, lease: Option<LeaseId>) -> bool {
        let before = self.of_key.get(key).copied();
        if before == lease {
            return false;
        }
        if let Some(granted) = before.and_then(|before| self.granted.get_mut(&before)) {
            granted.keys.remove(key);
        }
        match lease {
            None => {
                self.of_key.remove(key);
            }
            Some(lease) => {
                self.of_key.insert(key.to_owned(), lease);
                if let Some(granted) = self.granted.get_mut(&lease) {
                    granted.keys.insert(key.to_owned());
                }
            }
        }
        true
    }

    /// Ends a lease and tells which keys end with it; none if it does not exist.
    pub(super) fn end(&mut self, id: LeaseId) -> Option<Vec<String>> {
        Some(self.granted.remove(&id)?.keys.into_iter().collect())
    }

    /// Leases whose time is over.
    pub(super) fn over(&self, now: Moment) -> Vec<LeaseId> {
        self.granted.iter().filter(|(_, granted)| granted.until <= now).map(|(id, _)| *id).collect()
    }

    /// When the next one is over if it is not renewed.
    pub(super) fn next_end(&self) -> Option<Moment> {
        self.granted.values().map(|granted| granted.until).min()
    }
}
