//! A store that says how long each operation takes.

use crate::{
    lease::Lease,
    store::{Commit, Entry, Listing, Revision, Store, StoreError},
    txn::Txn,
    watch::WatchStream,
};
use async_trait::async_trait;
use polder_observability::{Operation, Outcome, StoreMeter};
use std::time::{Duration, Instant};

/// Any store, measured.
#[derive(Debug)]
pub struct MeteredStore<S> {
    store: S,
    meter: StoreMeter,
}

impl<S> MeteredStore<S> {
    /// Measures a store, which is named so: `embedded` or `etcd`.
    pub fn new(store: S, name: &'static str) -> Self {
        Self { store, meter: StoreMeter::of(name) }
    }

    fn read<T>(&self, operation: Operation, began: Instant, result: &Result<T, StoreError>) {
        let outcome = if result.is_ok() { Outcome::Ok } else { Outcome::Error };
        self.meter.took(operation, outcome, began.elapsed());
    }
}

#[async_trait]
impl<S: Store> Store for MeteredStore<S> {
    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let began = Instant::now();
        let result = self.store.get(key).await;
        self.read(Operation::Get, began, &result);
        result
    }

    async fn list(&self, prefix: &str) -> Result<Listing, StoreError> {
        let began = Instant::now();
        let result = self.store.list(prefix).await;
        self.read(Operation::List, began, &result);
        result
    }

    async fn commit(&self, txn: Txn) -> Commit {
        let began = Instant::now();
        let commit = self.store.commit(txn).await;
        let outcome = match &commit {
            Commit::Committed { .. } => Outcome::Ok,
            Commit::Conflict(_) => Outcome::Conflict,
            Commit::Unknown { .. } => Outcome::Unknown,
        };
        self.meter.took(Operation::Commit, outcome, began.elapsed());
        commit
    }

    fn watch(&self, prefix: &str, after: Revision) -> WatchStream {
        self.store.watch(prefix, after)
    }

    async fn grant_lease(&self, ttl: Duration) -> Result<Lease, StoreError> {
        self.store.grant_lease(ttl).await
    }

    async fn compact(&self, revision: Revision) -> Result<(), StoreError> {
        self.store.compact(revision).await
    }

    async fn size_bytes(&self) -> Result<u64, StoreError> {
        self.store.size_bytes().await
    }
}
