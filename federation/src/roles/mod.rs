//! What surrounds each machine of the federation: where its state lives and what its effects mean.

mod ledger;
mod router;

pub(crate) use ledger::LedgerRole;
pub(crate) use router::RouterRole;

use polder_shell::RestoreError;
use polder_store::{Entry, Store, StoreError};
use polder_wire::Stored;

/// Reads every record under a prefix.
async fn read_all<T: Stored>(store: &dyn Store, prefix: &str) -> Result<Vec<T>, RestoreError> {
    let listing = store.list(prefix).await.map_err(|error| unreadable(&error))?;
    listing.entries.iter().map(read).collect()
}

fn read<T: Stored>(entry: &Entry) -> Result<T, RestoreError> {
    T::from_value(&entry.value).map_err(|error| RestoreError::Broken { what: format!("`{}`: {error}", entry.key) })
}

/// A store that does not answer is asked again; one that refuses or is broken is for people.
fn unreadable(error: &StoreError) -> RestoreError {
    let what = error.to_string();
    match error {
        StoreError::Unavailable { .. } | StoreError::Io { .. } => RestoreError::Unavailable { what },
        _ => RestoreError::Broken { what },
    }
}
