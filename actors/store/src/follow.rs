//! A copy of a prefix that stays true: list, watch, and list again when the watch has missed something.

use crate::{
    store::{Entry, Listing, Revision, Store, StoreError},
    watch::{WatchEvent, WatchStream},
};
use std::sync::Arc;

/// What a follower hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// Everything there is: what was known before is replaced by this.
    Reset(Listing),
    /// A key was written.
    Put(Entry),
    /// A key was deleted.
    Delete {
        /// The key.
        key: String,
        /// The revision of the change.
        revision: Revision,
    },
}

/// Follows a prefix for ever. The first thing it hears is [`Followed::Reset`].
#[derive(Debug)]
pub struct Follower {
    store: Arc<dyn Store>,
    prefix: String,
    watch: Option<WatchStream>,
}

impl Follower {
    /// Follows the keys that begin with `prefix`.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, prefix: impl Into<String>) -> Self {
        Self { store, prefix: prefix.into(), watch: None }
    }

    /// The next thing to know.
    ///
    /// # Errors
    /// When the store can't be listed; the next call tries again. A closed store is an error each time.
    pub async fn next(&mut self) -> Result<Followed, StoreError> {
        loop {
            let Some(watch) = &mut self.watch else {
                let listing = self.store.list(&self.prefix).await?;
                self.watch = Some(self.store.watch(&self.prefix, listing.revision));
                return Ok(Followed::Reset(listing));
            };
            match watch.next().await {
                Some(WatchEvent::Put { entry }) => return Ok(Followed::Put(entry)),
                Some(WatchEvent::Delete { key, revision }) => return Ok(Followed::Delete { key, revision }),
                Some(WatchEvent::Compacted { .. }) => self.watch = None,
                None => {
                    self.watch = None;
                    return Err(StoreError::Unavailable { why: "it was closed".to_owned() });
                }
            }
        }
    }
}
