//! The trait that both implementations have, and what it speaks of.

use crate::{
    lease::{Lease, LeaseId},
    txn::Txn,
    watch::WatchStream,
};
use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::{fmt, io, time::Duration};

/// A version of the whole store. Each commit that changes something makes the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub u64);

impl Revision {
    /// The one after this.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value; may be empty.
    pub value: Bytes,
    /// The revision that wrote it last.
    pub mod_revision: Revision,
}

/// All keys under a prefix, as they were at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// That revision. A watch after it misses nothing.
    pub revision: Revision,
    /// The keys, in the order of their bytes.
    pub entries: Vec<Entry>,
}

/// What became of a transaction.
///
/// After anything but [`Commit::Committed`] the one who asked drops what it believes and reads again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a transaction that is not known to be committed must be dealt with"]
pub enum Commit {
    /// All of it is durable.
    Committed {
        /// The revision it made, or the present one if it changed nothing.
        revision: Revision,
    },
    /// None of it was done.
    Conflict(Conflict),
    /// It may be durable, now or later, or not.
    Unknown {
        /// What happened instead of an answer.
        why: String,
    },
}

impl Commit {
    /// The revision, if it is committed.
    #[must_use]
    pub const fn committed(&self) -> Option<Revision> {
        match self {
            Self::Committed { revision } => Some(*revision),
            Self::Conflict(_) | Self::Unknown { .. } => None,
        }
    }
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Committed { revision } => write!(f, "committed at revision {revision}"),
            Self::Conflict(conflict) => write!(f, "conflict: {conflict}"),
            Self::Unknown { why } => write!(f, "outcome unknown: {why}"),
        }
    }
}

/// Why a transaction was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// A compare does not hold.
    Compare {
        /// Its place in the transaction; the first that does not hold.
        index: usize,
        /// The key it looked at.
        key: String,
        /// The revision that wrote the key last; none if the key is absent.
        found: Option<Revision>,
    },
    /// A lease that a key was to be put under does not exist, or no longer.
    LeaseGone {
        /// The lease.
        lease: LeaseId,
    },
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compare { key, found: Some(revision), .. } => {
                write!(f, "`{key}` is not as expected: it was last written at revision {revision}")
            }
            Self::Compare { key, found: None, .. } => write!(f, "`{key}` is not as expected: it does not exist"),
            Self::LeaseGone { lease } => write!(f, "lease {lease} does not exist any more"),
        }
    }
}

/// Why the store could not answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store can't be reached, or does not answer in time.
    #[error("the store does not answer: {why}")]
    Unavailable {
        /// What was tried and what came back.
        why: String,
    },
    /// The store refuses: the request will fail again.
    #[error("the store refuses: {why}")]
    Refused {
        /// Its reason.
        why: String,
    },
    /// A write failed earlier, so the store takes no more until it is opened again.
    #[error("the store has stopped: {why}; free space or repair the disk, then restart the process")]
    Stopped {
        /// The failure.
        why: String,
    },
    /// What is stored is not what Polder wrote.
    #[error("the store holds something unreadable at `{key}`: {why}")]
    Corrupt {
        /// Where.
        key: String,
        /// What is wrong with it.
        why: String,
    },
    /// The directory is used by another process.
    #[error("the store in {dir} is in use by process {pid}; stop it first, or choose another directory")]
    Locked {
        /// The directory.
        dir: String,
        /// The process that has it, as far as it is known.
        pid: String,
    },
    /// What is stored was written by a newer Polder.
    #[error("{what} has format {found}, and this version knows formats up to {known}; use a newer Polder")]
    TooNew {
        /// What.
        what: String,
        /// Its format.
        found: u64,
        /// The newest format that this version knows.
        known: u64,
    },
    /// The directory holds something else.
    #[error("{dir} is not a store: {why}; choose an empty directory")]
    NotAStore {
        /// The directory.
        dir: String,
        /// How that shows.
        why: String,
    },
    /// The disk or the operating system failed.
    #[error("{what} failed")]
    Io {
        /// What was done.
        what: String,
        /// How it failed.
        source: io::Error,
    },
}

/// An ordered map of versioned keys. Shared as `Arc<dyn Store>`.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// One key, as of now: what was acknowledged before the call is seen.
    ///
    /// # Errors
    /// When the store can't answer.
    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError>;

    /// All keys that begin with `prefix`, at one revision. The empty prefix means every key.
    ///
    /// # Errors
    /// When the store can't answer.
    async fn list(&self, prefix: &str) -> Result<Listing, StoreError>;

    /// Does all operations of a transaction if all its compares hold, and none otherwise. Committed means durable.
    ///
    /// A transaction without operations only checks its compares.
    async fn commit(&self, txn: Txn) -> Commit;

    /// Follows the keys that begin with `prefix`: every change after the revision `after`, in order.
    fn watch(&self, prefix: &str, after: Revision) -> WatchStream;

    /// Makes a lease that is kept alive in the background for as long as the handle, or a clone of it, exists. Keys
    /// put under it are deleted when it ends.
    ///
    /// # Errors
    /// When the store can't answer, or the time is outside of [`crate::limits`].
    async fn grant_lease(&self, ttl: Duration) -> Result<Lease, StoreError>;

    /// Forgets the changes before `revision`; the keys stay. A watch that would need them is told to list again.
    ///
    /// # Errors
    /// When the store can't answer.
    async fn compact(&self, revision: Revision) -> Result<(), StoreError>;

    /// Bytes that the store takes up on disk.
    ///
    /// # Errors
    /// When the store can't answer.
    async fn size_bytes(&self) -> Result<u64, StoreError>;
}
