//! The changes that watchers may still want, in memory.
//!
//! Watchers pull: each has its place in the one history, so a slow one costs nobody anything. What falls out at the
//! old end is compacted for whoever has not read it.

use crate::{
    limits::{HISTORY_BYTES_MAX, HISTORY_EVENTS_MAX},
    store::{Entry, Revision, StoreError},
    watch::WatchEvent,
};
use bytes::Bytes;
use std::{
    collections::VecDeque,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};
use tokio::sync::watch;

/// Events that a watcher takes out of the history at a time, and looks at while it holds the lock.
const TAKEN_AT_A_TIME_MAX: usize = 256;
const LOOKED_AT_AT_A_TIME_MAX: usize = 8192;

/// One change; no value means that the key was deleted.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) key: String,
    pub(super) revision: Revision,
    pub(super) value: Option<Bytes>,
}

impl Change {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.key.len() + self.value.as_ref().map_or(0, Bytes::len)
    }

    fn to_event(&self) -> WatchEvent {
        match &self.value {
            Some(value) => WatchEvent::Put {
                entry: Entry { key: self.key.clone(), value: value.clone(), mod_revision: self.revision },
            },
            None => WatchEvent::Delete { key: self.key.clone(), revision: self.revision },
        }
    }
}

struct Log {
    changes: VecDeque<Arc<Change>>,
    bytes: usize,
    /// Every change after this revision is here.
    complete_after: Revision,
}

impl Log {
    fn forget_oldest(&mut self) {
        if let Some(change) = self.changes.pop_front() {
            self.bytes -= change.bytes();
            self.complete_after = self.complete_after.max(change.revision);
        }
    }
}

/// The history's end that readers hold.
#[derive(Clone)]
pub(super) struct Reader {
    log: Arc<RwLock<Log>>,
    last: watch::Receiver<Revision>,
}

/// The history.
pub(super) struct History {
    log: Arc<RwLock<Log>>,
    last: std::sync::Mutex<Option<watch::Sender<Revision>>>,
    reader: Reader,
}

fn read(log: &RwLock<Log>) -> RwLockReadGuard<'_, Log> {
    log.read().unwrap_or_else(PoisonError::into_inner)
}

fn write(log: &RwLock<Log>) -> RwLockWriteGuard<'_, Log> {
    log.write().unwrap_or_else(PoisonError::into_inner)
}

impl History {
    pub(super) fn new(revision: Revision) -> Self {
        let log = Arc::new(RwLock::new(Log { changes: VecDeque::new(), bytes: 0, complete_after: revision }));
        let (sender, last) = watch::channel(revision);
        let reader = Reader { log: Arc::clone(&log), last };
        Self { log, last: std::sync::Mutex::new(Some(sender)), reader }
    }

    pub(super) fn reader(&self) -> Reader {
        self.reader.clone()
    }

    /// Adds changes that are durable, and wakes the watchers.
    pub(super) fn append(&self, changes: Vec<Change>, revision: Revision) {
        let mut log = write(&self.log);
        for change in changes {
            log.bytes += change.bytes();
            log.changes.push_back(Arc::new(change));
        }
        while log.changes.len() > HISTORY_EVENTS_MAX || log.bytes > HISTORY_BYTES_MAX {
            log.forget_oldest();
        }
        drop(log);
        if let Some(last) = &*self.last.lock().unwrap_or_else(PoisonError::into_inner) {
            last.send_replace(revision);
        }
    }

    /// Forgets the changes before `revision`.
    pub(super) fn compact(&self, revision: Revision) -> Result<(), StoreError> {
        let newest = *self.reader.last.borrow();
        if revision > newest {
            let why = format!("revision {revision} can't be compacted: the newest is {newest}");
            return Err(StoreError::Refused { why });
        }
        let before = revision.0.saturating_sub(1);
        let mut log = write(&self.log);
        while log.changes.front().is_some_and(|change| change.revision.0 <= before) {
            log.forget_oldest();
        }
        log.complete_after = log.complete_after.max(Revision(before));
        Ok(())
    }

    /// Ends every watch.
    pub(super) fn close(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A watcher's place in the history.
pub(super) struct Cursor {
    reader: Reader,
    prefix: String,
    /// Every change up to here was looked at.
    seen: Revision,
    taken: VecDeque<Arc<Change>>,
    ended: bool,
}

impl Cursor {
    pub(super) fn new(reader: Reader, prefix: String, after: Revision) -> Self {
        Self { reader, prefix, seen: after, taken: VecDeque::new(), ended: false }
    }

    pub(super) async fn next(&mut self) -> Option<WatchEvent> {
        loop {
            if let Some(change) = self.taken.pop_front() {
                return Some(change.to_event());
            }
            if self.ended {
                return None;
            }
            self.reader.last.borrow_and_update();
            let more = match self.take() {
                Ok(more) => more,
                Err(compacted) => {
                    self.ended = true;
                    return Some(WatchEvent::Compacted { revision: compacted });
                }
            };
            if self.taken.is_empty() && !more && self.reader.last.changed().await.is_err() {
                // Closed; what came last may not have been looked at.
                self.ended = matches!(self.take(), Ok(false)) && self.taken.is_empty();
            }
        }
    }

    /// Takes what matches next; tells whether there is more to look at, or what the oldest revision is if the next
    /// changes are forgotten.
    fn take(&mut self) -> Result<bool, Revision> {
        let log = read(&self.reader.log);
        if self.seen < log.complete_after {
            return Err(log.complete_after);
        }
        let start = log.changes.partition_point(|change| change.revision <= self.seen);
        for (looked_at, change) in log.changes.range(start..).enumerate() {
            // All changes of one revision are taken together, so that a place is always between revisions.
            let between = change.revision > self.seen;
            if between && (looked_at >= LOOKED_AT_AT_A_TIME_MAX || self.taken.len() >= TAKEN_AT_A_TIME_MAX) {
                return Ok(true);
            }
            self.seen = change.revision;
            if change.key.starts_with(&self.prefix) {
                self.taken.push_back(Arc::clone(change));
            }
        }
        Ok(false)
    }
}
