//! Ownership: who may write, and how everybody else is kept from it.
//!
//! ```text
//! owners/shard/003    {"holder":"node-a","epoch":7,"lease":..}   under the holder's lease
//! epochs/shard/003    7                                          stays for ever, only grows
//! ```
//!
//! An owner is whoever raised the epoch last, and every write of an owner compares it ([`Owned::fence`]); so a deposed
//! owner gets a conflict, however late its write arrives. The owner key ends with the lease, which tells others when
//! they may try. [`Owned::surely_valid`] is for what no store can fence: orders to hosts, answers to people.

use crate::{
    clock::Moment,
    identity::{self, StoreIdentity},
    lease::Lease,
    store::{Commit, Conflict, Entry, Store, StoreError},
    txn::{Compare, Op, Txn, TxnRefused},
    watch::WatchEvent,
};
use polder_types::{DatacenterId, OwnerEpoch, ShardId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Where epochs are kept.
pub const EPOCHS: &str = "epochs/";
/// Where owners are kept.
pub const OWNERS: &str = "owners/";

/// Something that has one owner at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerKey(String);

impl OwnerKey {
    /// Anything, by a path of its own: `shard/003`.
    #[must_use]
    pub fn new(path: &str) -> Self {
        Self(path.strip_prefix(OWNERS).unwrap_or(path).to_owned())
    }

    /// A shard of the region's jobs.
    #[must_use]
    pub fn shard(shard: ShardId) -> Self {
        Self(format!("shard/{:03x}", shard.0))
    }

    /// The region's allocator.
    #[must_use]
    pub fn allocator() -> Self {
        Self("allocator".to_owned())
    }

    /// The broker of a datacenter.
    #[must_use]
    pub fn broker(datacenter: &DatacenterId) -> Self {
        Self(format!("broker/{datacenter}"))
    }

    /// The federation's leader.
    #[must_use]
    pub fn federation() -> Self {
        Self("federation".to_owned())
    }

    /// The key that is held under the owner's lease.
    #[must_use]
    pub fn owner_key(&self) -> String {
        format!("{OWNERS}{}", self.0)
    }

    /// The key of the epoch.
    #[must_use]
    pub fn epoch_key(&self) -> String {
        format!("{EPOCHS}{}", self.0)
    }

    /// Holds as long as nobody has raised the epoch beyond this one. Others use it, too: a shard that commits what the
    /// allocator granted compares the epoch that granted it.
    #[must_use]
    pub fn at_epoch(&self, epoch: OwnerEpoch) -> Compare {
        Compare::value(self.epoch_key(), epoch.to_string())
    }
}

impl fmt::Display for OwnerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Who owns something, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerRecord {
    /// The owner's name: its node.
    pub holder: String,
    /// Its epoch.
    pub epoch: OwnerEpoch,
    /// Its lease, by which it knows itself again when it did not hear the answer.
    lease: i64,
}

/// Why something could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum AcquireError {
    /// Somebody else has it.
    #[error("`{key}` is held by {holder}; it is free when that one gives it up or its lease ends")]
    HeldBy {
        /// What.
        key: OwnerKey,
        /// By whom.
        holder: String,
    },
    /// Somebody else was faster.
    #[error("`{key}` was taken by somebody else just now")]
    Raced {
        /// What.
        key: OwnerKey,
    },
    /// The lease is not valid any more.
    #[error("the lease that `{key}` was to be held under is lost")]
    LeaseLost {
        /// What.
        key: OwnerKey,
    },
    /// It may be ours; asking again with the same lease tells.
    #[error("whether `{key}` was taken is unknown: {why}")]
    Unknown {
        /// What.
        key: OwnerKey,
        /// What happened instead of an answer.
        why: String,
    },
    /// The store can't answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The key or the holder's name is too long.
    #[error(transparent)]
    Refused(#[from] TxnRefused),
}

/// Something that is owned, for as long as the lease holds and nobody has raised the epoch.
#[derive(Clone, Debug)]
pub struct Owned {
    key: OwnerKey,
    epoch: OwnerEpoch,
    entry: Entry,
    lease: Lease,
}

impl Owned {
    /// What is owned.
    #[must_use]
    pub const fn key(&self) -> &OwnerKey {
        &self.key
    }

    /// The epoch. Goes with every order to a host.
    #[must_use]
    pub const fn epoch(&self) -> OwnerEpoch {
        self.epoch
    }

    /// The lease it is held under.
    #[must_use]
    pub const fn lease(&self) -> &Lease {
        &self.lease
    }

    /// What every write of the owner compares: the epoch is ours, and so is the owner key.
    #[must_use]
    pub fn fence(&self) -> Vec<Compare> {
        vec![self.key.at_epoch(self.epoch), Compare::unchanged(&self.entry)]
    }

    /// Whether the owner may act at `now` on what the store can't fence.
    #[must_use]
    pub fn surely_valid(&self, now: Moment) -> bool {
        self.lease.is_valid(now)
    }

    /// Gives it up at once. The lease lives on, for what else is held under it.
    pub async fn release(self, store: &dyn Store) -> Commit {
        match Txn::new(self.fence(), vec![Op::delete(self.key.owner_key())]) {
            Ok(txn) => store.commit(txn).await,
            Err(error) => Commit::Unknown { why: error.to_string() },
        }
    }
}

fn record(entry: &Entry) -> Result<OwnerRecord, StoreError> {
    serde_json::from_slice(&entry.value)
        .map_err(|error| StoreError::Corrupt { key: entry.key.clone(), why: error.to_string() })
}

/// Who owns something now.
///
/// # Errors
/// When the store can't answer.
pub async fn owner_of(store: &dyn Store, key: &OwnerKey) -> Result<Option<OwnerRecord>, StoreError> {
    store.get(&key.owner_key()).await?.as_ref().map(record).transpose()
}

/// Takes something that nobody owns: raises its epoch and puts the owner key under `lease`, in one transaction.
///
/// The new owner reads its state only after this, so that nothing of the one before can land behind what it read.
///
/// # Errors
/// When somebody else has it, the lease is lost, or the store can't answer. When the outcome was unknown, asking again
/// with the same lease finds out.
pub async fn acquire(store: &dyn Store, key: &OwnerKey, holder: &str, lease: &Lease) -> Result<Owned, AcquireError> {
    if !lease.is_valid(Moment::now()) {
        return Err(AcquireError::LeaseLost { key: key.clone() });
    }
    if let Some(entry) = store.get(&key.owner_key()).await? {
        let record = record(&entry)?;
        if record.holder == holder && record.lease == lease.id().0 {
            return Ok(Owned { key: key.clone(), epoch: record.epoch, entry, lease: lease.clone() });
        }
        return Err(AcquireError::HeldBy { key: key.clone(), holder: record.holder });
    }
    let epoch_entry = store.get(&key.epoch_key()).await?;
    let (unchanged, epoch) = match &epoch_entry {
        Some(entry) => (Compare::unchanged(entry), parse_epoch(entry)?.next()),
        None => {
            // Perhaps it is new, or only newer than the backup that the store was restored from.
            let identity = identity::read(store).await?;
            let floor = identity.as_ref().map_or(OwnerEpoch(0), StoreIdentity::epoch_floor);
            (Compare::absent(key.epoch_key()), floor.next())
        }
    };
    let record = OwnerRecord { holder: holder.to_owned(), epoch, lease: lease.id().0 };
    let value = serde_json::to_vec(&record)
        .map_err(|error| StoreError::Corrupt { key: key.owner_key(), why: error.to_string() })?;
    let txn = Txn::new(
        vec![Compare::absent(key.owner_key()), unchanged],
        vec![Op::put(key.epoch_key(), epoch.to_string()), Op::put_leased(key.owner_key(), value.clone(), lease.id())],
    )?;
    match store.commit(txn).await {
        Commit::Committed { revision } => {
            let entry = Entry { key: key.owner_key(), value: value.into(), mod_revision: revision };
            Ok(Owned { key: key.clone(), epoch, entry, lease: lease.clone() })
        }
        Commit::Conflict(Conflict::LeaseGone { .. }) => Err(AcquireError::LeaseLost { key: key.clone() }),
        Commit::Conflict(Conflict::Compare { .. }) => Err(AcquireError::Raced { key: key.clone() }),
        Commit::Unknown { why } => Err(AcquireError::Unknown { key: key.clone(), why }),
    }
}

/// The epoch that an epoch key holds.
pub(crate) fn parse_epoch(entry: &Entry) -> Result<OwnerEpoch, StoreError> {
    let number = str::from_utf8(&entry.value).ok().and_then(|text| text.parse().ok());
    number.map(OwnerEpoch).ok_or_else(|| StoreError::Corrupt {
        key: entry.key.clone(),
        why: "it should hold the number of an epoch".to_owned(),
    })
}

/// Waits until nobody owns something; returns at once if so already.
///
/// # Errors
/// When the store can't answer.
pub async fn vacant(store: &dyn Store, key: &OwnerKey) -> Result<(), StoreError> {
    let owner_key = key.owner_key();
    loop {
        let listing = store.list(&owner_key).await?;
        if !listing.entries.iter().any(|entry| entry.key == owner_key) {
            return Ok(());
        }
        let mut events = store.watch(&owner_key, listing.revision);
        loop {
            match events.next().await {
                Some(WatchEvent::Delete { key, .. }) if key == owner_key => return Ok(()),
                Some(WatchEvent::Put { .. } | WatchEvent::Delete { .. }) => {}
                Some(WatchEvent::Compacted { .. }) => break,
                None => return Err(StoreError::Unavailable { why: "it was closed".to_owned() }),
            }
        }
    }
}

/// Waits until something can be taken, and takes it.
///
/// # Errors
/// When the lease is lost meanwhile, or the store can't answer.
pub async fn acquire_when_vacant(
    store: &dyn Store,
    key: &OwnerKey,
    holder: &str,
    lease: &Lease,
) -> Result<Owned, AcquireError> {
    loop {
        match acquire(store, key, holder, lease).await {
            Err(AcquireError::HeldBy { .. } | AcquireError::Raced { .. }) => {}
            other => return other,
        }
        tokio::select! {
            vacant = vacant(store, key) => vacant?,
            _ = lease.lost() => return Err(AcquireError::LeaseLost { key: key.clone() }),
        }
    }
}
