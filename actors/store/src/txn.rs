//! Transactions: compares, operations, and the limits of both.

use crate::{
    lease::LeaseId,
    limits::{KEY_BYTES_MAX, TXN_BYTES_MAX, TXN_COMPARES_MAX, TXN_OPS_MAX},
    store::{Entry, Revision},
};
use bytes::Bytes;
use std::collections::BTreeSet;

/// Something that must hold for a transaction to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The key does not exist.
    Absent {
        /// The key.
        key: String,
    },
    /// The key exists and was last written at this revision.
    ModRevision {
        /// The key.
        key: String,
        /// The revision.
        revision: Revision,
    },
    /// The key exists and has this value.
    Value {
        /// The key.
        key: String,
        /// The value.
        value: Bytes,
    },
}

impl Compare {
    /// The key does not exist.
    pub fn absent(key: impl Into<String>) -> Self {
        Self::Absent { key: key.into() }
    }

    /// The key was last written at this revision.
    pub fn mod_revision(key: impl Into<String>, revision: Revision) -> Self {
        Self::ModRevision { key: key.into(), revision }
    }

    /// The key has this value.
    pub fn value(key: impl Into<String>, value: impl Into<Bytes>) -> Self {
        Self::Value { key: key.into(), value: value.into() }
    }

    /// The entry is as it was read.
    #[must_use]
    pub fn unchanged(entry: &Entry) -> Self {
        Self::mod_revision(entry.key.clone(), entry.mod_revision)
    }

    /// The key it looks at.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Absent { key } | Self::ModRevision { key, .. } | Self::Value { key, .. } => key,
        }
    }

    /// Whether it holds for what was found under its key.
    #[must_use]
    pub fn holds(&self, found: Option<(Revision, &[u8])>) -> bool {
        match (self, found) {
            (Self::Absent { .. }, found) => found.is_none(),
            (Self::ModRevision { revision, .. }, Some((found, _))) => *revision == found,
            (Self::Value { value, .. }, Some((_, found))) => value == found,
            (Self::ModRevision { .. } | Self::Value { .. }, None) => false,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Absent { key } | Self::ModRevision { key, .. } => key.len(),
            Self::Value { key, value } => key.len() + value.len(),
        }
    }
}

/// One change of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Writes a key.
    Put {
        /// The key.
        key: String,
        /// Its value.
        value: Bytes,
        /// The lease that the key lives under; none means that it stays.
        lease: Option<LeaseId>,
    },
    /// Deletes a key; harmless if it does not exist.
    Delete {
        /// The key.
        key: String,
    },
}

impl Op {
    /// Writes a key that stays.
    pub fn put(key: impl Into<String>, value: impl Into<Bytes>) -> Self {
        Self::Put { key: key.into(), value: value.into(), lease: None }
    }

    /// Writes a key that lives as long as a lease.
    pub fn put_leased(key: impl Into<String>, value: impl Into<Bytes>, lease: LeaseId) -> Self {
        Self::Put { key: key.into(), value: value.into(), lease: Some(lease) }
    }

    /// Deletes a key.
    pub fn delete(key: impl Into<String>) -> Self {
        Self::Delete { key: key.into() }
    }

    /// The key it changes.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }

    /// What it counts towards the limit of a transaction.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Put { key, value, .. } => key.len() + value.len(),
            Self::Delete { key } => key.len(),
        }
    }
}

/// Why a transaction can't be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TxnRefused {
    /// It has too many operations.
    #[error("a transaction of {ops} operations is too big: {TXN_OPS_MAX} at most; split it")]
    TooManyOps {
        /// How many.
        ops: usize,
    },
    /// It has too many compares.
    #[error("a transaction with {compares} compares is too big: {TXN_COMPARES_MAX} at most")]
    TooManyCompares {
        /// How many.
        compares: usize,
    },
    /// Its keys and values are too long together.
    #[error("a transaction of {bytes} bytes is too big: {TXN_BYTES_MAX} at most; split it")]
    TooManyBytes {
        /// How long.
        bytes: usize,
    },
    /// A key is empty or too long.
    #[error("a key of {bytes} bytes can't be stored: 1 to {KEY_BYTES_MAX} bytes (`{start}`)")]
    KeyLength {
        /// How long.
        bytes: usize,
        /// Its beginning.
        start: String,
    },
    /// Two operations change the same key.
    #[error("`{key}` is changed twice in one transaction; merge the two changes")]
    KeyTwice {
        /// The key.
        key: String,
    },
}

/// A transaction that is within the limits of every store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Txn {
    compares: Vec<Compare>,
    ops: Vec<Op>,
}

impl Txn {
    /// Makes a transaction.
    ///
    /// # Errors
    /// When it is too big, has a bad key, or changes a key twice.
    pub fn new(compares: Vec<Compare>, ops: Vec<Op>) -> Result<Self, TxnRefused> {
        if ops.len() > TXN_OPS_MAX {
            return Err(TxnRefused::TooManyOps { ops: ops.len() });
        }
        if compares.len() > TXN_COMPARES_MAX {
            return Err(TxnRefused::TooManyCompares { compares: compares.len() });
        }
        let bytes = compares.iter().map(Compare::bytes).sum::<usize>() + ops.iter().map(Op::bytes).sum::<usize>();
        if bytes > TXN_BYTES_MAX {
            return Err(TxnRefused::TooManyBytes { bytes });
        }
        let keys = compares.iter().map(Compare::key).chain(ops.iter().map(Op::key));
        if let Some(bad) = keys.into_iter().find(|key| key.is_empty() || key.len() > KEY_BYTES_MAX) {
            return Err(TxnRefused::KeyLength { bytes: bad.len(), start: bad.chars().take(40).collect() });
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = ops.iter().map(Op::key).find(|key| !seen.insert(*key)) {
            return Err(TxnRefused::KeyTwice { key: twice.to_owned() });
        }
        Ok(Self { compares, ops })
    }

    /// A transaction that writes one key, whatever was there.
    ///
    /// # Errors
    /// When the key or the value is too long.
    pub fn put(key: impl Into<String>, value: impl Into<Bytes>) -> Result<Self, TxnRefused> {
        Self::new(Vec::new(), vec![Op::put(key, value)])
    }

    /// What must hold.
    #[must_use]
    pub fn compares(&self) -> &[Compare] {
        &self.compares
    }

    /// What is done.
    #[must_use]
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    pub(crate) fn into_parts(self) -> (Vec<Compare>, Vec<Op>) {
        (self.compares, self.ops)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.ops.iter().map(Op::bytes).sum()
    }
}
