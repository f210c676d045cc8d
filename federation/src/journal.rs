//! Where an owner's changes go: fenced transactions of the store.

use futures::{FutureExt as _, future::BoxFuture};
use polder_shell::{Commit, Journal};
use polder_store::{Commit as Stored, Moment, Op, Store, commit_all, owner::Owned};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// What a change of a machine's state means for the store.
#[derive(Debug)]
pub(crate) enum Write {
    Put { key: String, value: Vec<u8> },
    Delete { key: String },
}

/// The journal of an actor that is owned.
pub(crate) struct OwnerJournal<D> {
    store: Arc<dyn Store>,
    owned: Mutex<Option<Owned>>,
    encode: Box<dyn Fn(D) -> Result<Write, String> + Send + Sync>,
}

impl<D> OwnerJournal<D> {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        encode: impl Fn(D) -> Result<Write, String> + Send + Sync + 'static,
    ) -> Self {
        Self { store, owned: Mutex::new(None), encode: Box::new(encode) }
    }

    /// Commits under this ownership from now on.
    pub(crate) fn own(&self, owned: Owned) {
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
            match commit_all(&*store, operations(writes), &owned.fence()).await {
                Ok(Stored::Committed { .. }) => Commit::Committed,
                Ok(Stored::Conflict(conflict)) => Commit::Conflict { what: conflict.to_string() },
                Ok(Stored::Unknown { why }) => Commit::Unknown { what: why },
                Err(refused) => Commit::Conflict { what: refused.to_string() },
            }
        }
        .boxed()
    }
}

/// The operations of several steps. Every value is whole, so of two writes of a key the later one counts.
fn operations(writes: Vec<Write>) -> Vec<Op> {
    let mut last = BTreeMap::new();
    for write in writes {
        match write {
            Write::Put { key, value } => last.insert(key.clone(), Op::put(key, value)),
            Write::Delete { key } => last.insert(key.clone(), Op::delete(key)),
        };
    }
    last.into_values().collect()
}
