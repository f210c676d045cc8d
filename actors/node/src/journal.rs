//! Where an owner's changes go: fenced transactions of the store.

use futures::{FutureExt as _, future::BoxFuture};
use polder_shell::{Commit, Journal};
use polder_store::{
    Commit as Stored, Compare, Moment, Op, Store, commit_all,
    owner::{Owned, OwnerKey},
};
use polder_types::OwnerEpoch;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

/// What a change of a machine's state means for the store.
#[derive(Debug)]
pub enum Write {
    /// This is the value now.
    Put {
        /// Of this key.
        key: String,
        /// All of it.
        value: Vec<u8>,
    },
    /// There is no value any more.
    Delete {
        /// Of this key.
        key: String,
    },
    /// Another actor's epoch must be this one.
    Fence {
        /// That actor.
        actor: OwnerKey,
        /// The epoch that what is written rests on.
        epoch: OwnerEpoch,
    },
}

/// The journal of an actor that is owned.
pub struct OwnerJournal<D> {
    store: Arc<dyn Store>,
    owned: Mutex<Option<Owned>>,
    encode: Box<dyn Fn(D) -> Result<Write, String> + Send + Sync>,
}

impl<D> fmt::Debug for OwnerJournal<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnerJournal").field("owned", &self.owned).finish_non_exhaustive()
    }
}

impl<D> OwnerJournal<D> {
    /// A journal that refuses everything until the actor is [owned](Self::own).
    pub fn new(store: Arc<dyn Store>, encode: impl Fn(D) -> Result<Write, String> + Send + Sync + 'static) -> Self {
        Self { store, owned: Mutex::new(None), encode: Box::new(encode) }
    }

    /// Commits under this ownership from now on.
    pub fn own(&self, owned: Owned) {
        *self.owned.lock().unwrap_or_else(PoisonError::into_inner) = Some(owned);
    }
}

impl<D: Send + 'static> Journal<D> for OwnerJournal<D> {
    fn commit(&self, steps: Vec<Vec<D>>) -> BoxFuture<'static, Commit> {
        let owned = self.owned.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let writes = steps.into_iter().flatten().map(&self.encode).collect::<Result<Vec<_>, _>>();
        let store = Arc::clone(&self.store);
        async move {
            let (owned, writes) = match (owned, writes) {
                (Some(owned), Ok(writes)) => (owned, writes),
                (None, _) => return Commit::Conflict { what: "this node does not own the actor".to_owned() },
                (_, Err(what)) => return Commit::Conflict { what },
            };
            if !owned.surely_valid(Moment::now()) {
                return Commit::Conflict { what: "the node's lease is not sure any more".to_owned() };
            }
            let (fence, ops) = transaction(&owned, writes);
            match commit_all(&*store, ops, &fence).await {
                Ok(Stored::Committed { .. }) => Commit::Committed,
                Ok(Stored::Conflict(conflict)) => Commit::Conflict { what: conflict.to_string() },
                Ok(Stored::Unknown { why }) => Commit::Unknown { what: why },
                Err(refused) => Commit::Conflict { what: refused.to_string() },
            }
        }
        .boxed()
    }
}

/// The compares and operations of several steps. Every value is whole, so of two writes of a key the later one counts.
fn transaction(owned: &Owned, writes: Vec<Write>) -> (Vec<Compare>, Vec<Op>) {
    let mut fences = BTreeSet::new();
    let mut last = BTreeMap::new();
    for (at, write) in writes.iter().enumerate() {
        match write {
            Write::Put { key, .. } | Write::Delete { key } => {
                last.insert(key.clone(), at);
            }
            Write::Fence { actor, epoch } => {
                fences.insert((actor.clone(), *epoch));
            }
        }
    }
    let mut fence = owned.fence();
    fence.extend(fences.into_iter().map(|(actor, epoch)| actor.at_epoch(epoch)));
    let ops = writes
        .into_iter()
        .enumerate()
        .filter_map(|(at, write)| match write {
            Write::Put { key, value } if last.get(&key) == Some(&at) => Some(Op::put(key, value)),
            Write::Delete { key } if last.get(&key) == Some(&at) => Some(Op::delete(key)),
            _ => None,
        })
        .collect();
    (fence, ops)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seat;
    use polder_store::EmbeddedStore;
    use std::time::Duration;

    const TTL: Duration = Duration::from_secs(60);

    async fn seat(store: &Arc<dyn Store>) -> Seat {
        let lease = store.grant_lease(TTL).await.unwrap();
        Seat::new(Arc::clone(store), lease, "node-1".parse().unwrap())
    }

    fn put(key: &str, value: &str) -> Write {
        Write::Put { key: key.to_owned(), value: value.as_bytes().to_vec() }
    }

    async fn text(store: &Arc<dyn Store>, key: &str) -> Option<String> {
        let entry = store.get(key).await.unwrap()?;
        Some(String::from_utf8(entry.value.to_vec()).unwrap())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn writes_only_under_the_newest_epoch() {
        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(dir.path()).unwrap());
        let seat = seat(&store).await;
        let key = OwnerKey::new("toy");
        let journal = OwnerJournal::new(Arc::clone(&store), Ok);
        assert!(matches!(journal.commit(vec![vec![put("a", "0")]]).await, Commit::Conflict { .. }), "not owned yet");

        let first = seat.take(&key).await.unwrap();
        journal.own(first.clone());
        // Of two writes of a key the later one counts, over steps too.
        let steps =
            vec![vec![put("a", "1"), put("b", "1")], vec![put("a", "2"), Write::Delete { key: "b".to_owned() }]];
        assert_eq!(journal.commit(steps).await, Commit::Committed);
        assert_eq!((text(&store, "a").await.as_deref(), text(&store, "b").await), (Some("2"), None));

        // The same node takes it again: what was under way before can't land any more.
        let second = seat.take(&key).await.unwrap();
        assert!(second.epoch() > first.epoch());
        assert!(matches!(journal.commit(vec![vec![put("a", "3")]]).await, Commit::Conflict { .. }));
        journal.own(second);
        assert_eq!(journal.commit(vec![vec![put("a", "4")]]).await, Commit::Committed);
        assert_eq!(text(&store, "a").await.as_deref(), Some("4"));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_rests_on_another_actor_falls_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(dir.path()).unwrap());
        let seat = seat(&store).await;
        let granter = seat.take(&OwnerKey::allocator()).await.unwrap();
        let journal = OwnerJournal::new(Arc::clone(&store), Ok);
        journal.own(seat.take(&OwnerKey::new("toy")).await.unwrap());
        let resting = || {
            let fence = Write::Fence { actor: OwnerKey::allocator(), epoch: granter.epoch() };
            vec![vec![fence, put("a", "granted")]]
        };
        assert_eq!(journal.commit(resting()).await, Commit::Committed);
        seat.take(&OwnerKey::allocator()).await.unwrap();
        assert!(matches!(journal.commit(resting()).await, Commit::Conflict { .. }));
        assert_eq!(journal.commit(vec![vec![put("a", "free")]]).await, Commit::Committed);
    }
}
