//! Whose store this is, and which life of it.
//!
//! A process that was pointed at the wrong store must not write into it, and one that has seen a store's later life must
//! not go on with an older backup of it as if nothing had happened.

use crate::{
    owner::{EPOCHS, parse_epoch},
    sequence::commit_all,
    store::{Commit, Entry, Store, StoreError},
    txn::{Compare, Op, Txn, TxnRefused},
};
use polder_types::{Incarnation, OwnerEpoch};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Where it is kept.
pub const IDENTITY_KEY: &str = "meta/identity";
/// The format of everything in the store that this version writes, and the newest it reads.
pub const STORE_FORMAT: u64 = 1;
/// Each incarnation begins its epochs this far above those of the one before.
const EPOCHS_PER_INCARNATION: u64 = 1 << 32;

/// What a store belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreKind {
    /// A region.
    Region,
    /// A federation.
    Federation,
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Region => "region",
            Self::Federation => "federation",
        })
    }
}

/// Whose store it is, and which life of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreIdentity {
    /// The format of everything in the store.
    pub format: u64,
    /// What it belongs to.
    pub kind: StoreKind,
    /// The name of the region or federation.
    pub id: String,
    /// Which life; raised when a backup is restored.
    pub incarnation: Incarnation,
}

impl StoreIdentity {
    /// Every epoch of this incarnation is above this.
    #[must_use]
    pub const fn epoch_floor(&self) -> OwnerEpoch {
        OwnerEpoch(self.incarnation.0.saturating_sub(1).saturating_mul(EPOCHS_PER_INCARNATION))
    }
}

/// Why a store was not taken.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// It is somebody else's.
    #[error(
        "this store belongs to {found_kind} `{found}`, not to {wanted_kind} `{wanted}`; check the address or directory of \
         the store"
    )]
    Foreign {
        /// Whose it is.
        found: String,
        /// What that is.
        found_kind: StoreKind,
        /// Whose it should be.
        wanted: String,
        /// What that is.
        wanted_kind: StoreKind,
    },
    /// It is an older life than was seen before.
    #[error(
        "this store is incarnation {found} of `{id}`, and incarnation {seen} was seen before; it is an old copy: use the \
         current one, or raise its incarnation if it was restored on purpose"
    )]
    Older {
        /// Whose.
        id: String,
        /// Which life it is.
        found: Incarnation,
        /// Which life was seen.
        seen: Incarnation,
    },
    /// It has keys but no identity.
    #[error("this store holds keys (`{key}`) but no identity; it is not Polder's, or damaged: use an empty one")]
    Unmarked {
        /// One of the keys.
        key: String,
    },
    /// It was not marked or raised.
    #[error("the identity of the store could not be written: {0}")]
    NotWritten(String),
    /// It can't answer, or holds something unreadable or newer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A name is too long.
    #[error(transparent)]
    Refused(#[from] TxnRefused),
}

/// The identity that a store has; none if it is new.
///
/// # Errors
/// When the store can't answer, or was written by a newer version.
pub async fn read(store: &dyn Store) -> Result<Option<StoreIdentity>, StoreError> {
    Ok(read_entry(store).await?.map(|(identity, _)| identity))
}

async fn read_entry(store: &dyn Store) -> Result<Option<(StoreIdentity, Entry)>, StoreError> {
    /// The part that every format has.
    #[derive(Deserialize)]
    struct Format {
        format: u64,
    }
    let Some(entry) = store.get(IDENTITY_KEY).await? else { return Ok(None) };
    let corrupt =
        |error: serde_json::Error| StoreError::Corrupt { key: IDENTITY_KEY.to_owned(), why: error.to_string() };
    let Format { format } = serde_json::from_slice(&entry.value).map_err(corrupt)?;
    if format > STORE_FORMAT {
        return Err(StoreError::TooNew { what: "the store".to_owned(), found: format, known: STORE_FORMAT });
    }
    let identity = serde_json::from_slice(&entry.value).map_err(corrupt)?;
    Ok(Some((identity, entry)))
}

fn encode(identity: &StoreIdentity) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(identity)
        .map_err(|error| StoreError::Corrupt { key: IDENTITY_KEY.to_owned(), why: error.to_string() })
}

/// Takes a store for a region or federation: marks it if it is empty, checks it otherwise. `seen` is the newest
/// incarnation that the caller has ever seen of it, if any.
///
/// # Errors
/// When the store is somebody else's, an older life than `seen`, of a newer format, or can't answer.
pub async fn open_identity(
    store: &dyn Store,
    kind: StoreKind,
    id: &str,
    seen: Option<Incarnation>,
) -> Result<StoreIdentity, IdentityError> {
    let identity = match read(store).await? {
        Some(identity) => identity,
        None => mark(store, kind, id).await?,
    };
    if identity.kind != kind || identity.id != id {
        return Err(IdentityError::Foreign {
            found: identity.id,
            found_kind: identity.kind,
            wanted: id.to_owned(),
            wanted_kind: kind,
        });
    }
    match seen {
        Some(seen) if seen > identity.incarnation => {
            Err(IdentityError::Older { id: identity.id, found: identity.incarnation, seen })
        }
        _ => Ok(identity),
    }
}

async fn mark(store: &dyn Store, kind: StoreKind, id: &str) -> Result<StoreIdentity, IdentityError> {
    if let Some(entry) = store.list("").await?.entries.into_iter().find(|entry| entry.key != IDENTITY_KEY) {
        return Err(IdentityError::Unmarked { key: entry.key });
    }
    let identity = StoreIdentity { format: STORE_FORMAT, kind, id: id.to_owned(), incarnation: Incarnation(1) };
    let txn = Txn::new(vec![Compare::absent(IDENTITY_KEY)], vec![Op::put(IDENTITY_KEY, encode(&identity)?)])?;
    let outcome = store.commit(txn).await;
    // Another process may have been faster, or the answer lost: what is stored decides.
    match (outcome, read(store).await?) {
        (_, Some(stored)) => Ok(stored),
        (outcome, None) => Err(IdentityError::NotWritten(outcome.to_string())),
    }
}

/// Begins a new life of a store that was restored from a backup: raises its incarnation, and every epoch beyond what
/// any host can have seen of the life before. No other process may use the store meanwhile. May be repeated until it
/// succeeds; `seen` is the newest incarnation that is known of, if any.
///
/// # Errors
/// When the store has no identity, or can't answer.
pub async fn raise_incarnation(store: &dyn Store, seen: Option<Incarnation>) -> Result<StoreIdentity, IdentityError> {
    let Some((mut identity, entry)) = read_entry(store).await? else {
        return Err(IdentityError::NotWritten("it has none yet; open it first".to_owned()));
    };
    identity.incarnation = identity.incarnation.max(seen.unwrap_or_default()).next();
    let floor = identity.epoch_floor();
    let mut ops = Vec::new();
    for epoch in store.list(EPOCHS).await?.entries {
        if parse_epoch(&epoch)? < floor {
            ops.push(Op::put(epoch.key, floor.to_string()));
        }
    }
    // The identity comes last: a process that dies in between leaves an old incarnation, which is raised again.
    let unchanged = [Compare::unchanged(&entry)];
    committed(commit_all(store, ops, &unchanged).await?)?;
    let last = Txn::new(unchanged.to_vec(), vec![Op::put(IDENTITY_KEY, encode(&identity)?)])?;
    committed(store.commit(last).await)?;
    Ok(identity)
}

fn committed(commit: Commit) -> Result<(), IdentityError> {
    match commit {
        Commit::Committed { .. } => Ok(()),
        other => Err(IdentityError::NotWritten(other.to_string())),
    }
}
