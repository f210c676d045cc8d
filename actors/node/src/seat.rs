//! What this node holds: its lease, and the ownership of actors under it.

use polder_shell::RestoreError;
use polder_store::{
    Commit, Compare, Lease, Store,
    owner::{self, AcquireError, Owned, OwnerKey},
    registry::{self, ActorRecord},
};
use polder_types::Name;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// A node's lease and what it owns under it.
#[derive(Debug)]
pub struct Seat {
    store: Arc<dyn Store>,
    lease: Lease,
    node: Name,
    owned: Mutex<BTreeMap<OwnerKey, Owned>>,
}

impl Seat {
    /// A seat that owns nothing yet.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, lease: Lease, node: Name) -> Self {
        Self { store, lease, node, owned: Mutex::default() }
    }

    fn owned(&self) -> std::sync::MutexGuard<'_, BTreeMap<OwnerKey, Owned>> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a write beside an actor's own compares, so that it can't land once somebody else has the actor. None while
    /// this node does not have it.
    #[must_use]
    pub fn fence(&self, key: &OwnerKey) -> Option<Vec<Compare>> {
        self.owned().get(key).map(Owned::fence)
    }

    /// Takes an actor, with an epoch that is newer than any before, also than one that this node itself had: nothing
    /// that was sent to the store under an older epoch can land any more.
    ///
    /// # Errors
    /// When somebody else has it, the lease is lost, or the store does not answer.
    pub async fn take(&self, key: &OwnerKey) -> Result<Owned, RestoreError> {
        // Bound first: the lock must not be held while the store is waited for.
        let before = self.owned().remove(key);
        if let Some(before) = before {
            match before.clone().release(&*self.store).await {
                Commit::Committed { .. } | Commit::Conflict(_) => {}
                Commit::Unknown { why } => {
                    self.owned().insert(key.clone(), before);
                    return Err(RestoreError::Unavailable { what: why });
                }
            }
        }
        let owned = owner::acquire(&*self.store, key, self.node.as_str(), &self.lease).await.map_err(|error| {
            let what = error.to_string();
            match error {
                AcquireError::LeaseLost { .. } => RestoreError::NotOwner { what },
                AcquireError::Refused(_) => RestoreError::Broken { what },
                _ => RestoreError::Unavailable { what },
            }
        })?;
        self.owned().insert(key.clone(), owned.clone());
        let record = ActorRecord { name: key.to_string(), node: self.node.to_string(), epoch: owned.epoch() };
        if let Err(error) = registry::register_actor(&*self.store, self.lease.id(), &record, owned.fence()).await {
            tracing::warn!(actor = %key, %error, "the actor is not in the registry");
        }
        Ok(owned)
    }
}
