//! Values as they are stored, and what it means when they can't be read.

use polder_shell::RestoreError;
use polder_store::Entry;
use polder_wire::Stored;

/// The bytes of a value.
pub(crate) fn value<T: Stored>(value: &T) -> Result<Vec<u8>, String> {
    value.to_value().map_err(|error| error.to_string())
}

/// Reads what [`value`] wrote.
pub(crate) fn read<T: Stored>(entry: &Entry) -> Result<T, RestoreError> {
    T::from_value(&entry.value).map_err(|error| RestoreError::Broken { what: format!("`{}`: {error}", entry.key) })
}
