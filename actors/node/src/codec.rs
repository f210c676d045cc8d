//! Values as they are stored, and what it means when they can't be read.

use polder_shell::RestoreError;
use polder_store::{Entry, Store, StoreError};
use polder_wire::Stored;

/// The bytes of a value.
///
/// # Errors
/// When it is beyond what a value may hold, in words.
pub fn value<T: Stored>(value: &T) -> Result<Vec<u8>, String> {
    value.to_value().map_err(|error| error.to_string())
}

/// Reads what [`value()`] wrote.
///
/// # Errors
/// When it can't be understood, with the key.
pub fn read<T: Stored>(entry: &Entry) -> Result<T, RestoreError> {
    T::from_value(&entry.value).map_err(|error| RestoreError::Broken { what: format!("`{}`: {error}", entry.key) })
}

/// Reads every value under a prefix.
///
/// # Errors
/// When the store does not answer, or one of the values can't be understood.
pub async fn read_all<T: Stored>(store: &dyn Store, prefix: &str) -> Result<Vec<T>, RestoreError> {
    let listing = store.list(prefix).await.map_err(|error| unreadable(&error))?;
    listing.entries.iter().map(read).collect()
}

/// A store that does not answer is asked again; one that refuses or is broken is for people.
#[must_use]
pub fn unreadable(error: &StoreError) -> RestoreError {
    let what = error.to_string();
    match error {
        StoreError::Unavailable { .. } | StoreError::Io { .. } => RestoreError::Unavailable { what },
        _ => RestoreError::Broken { what },
    }
}
