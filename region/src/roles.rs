//! What surrounds each machine of a region: where its state lives and what its effects mean.

mod allocator;
mod broker;
mod shard;

pub(crate) use allocator::AllocatorRole;
pub(crate) use broker::BrokerRole;
pub(crate) use shard::ShardRole;

use polder_shell::RestoreError;
use polder_store::StoreError;

/// A store that does not answer is asked again; one that refuses or is broken is for people.
fn unreadable(error: &StoreError) -> RestoreError {
    let what = error.to_string();
    match error {
        StoreError::Unavailable { .. } | StoreError::Io { .. } => RestoreError::Unavailable { what },
        _ => RestoreError::Broken { what },
    }
}
