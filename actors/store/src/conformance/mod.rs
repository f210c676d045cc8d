//! The suite that every implementation of [`Store`] passes.
//!
//! A case gets an empty store of its own. What needs an implementation's own means (killing it, losing its answers) is
//! tested beside that implementation.

mod leases;
mod owners;
mod txns;
mod watches;

use crate::{
    lease::Lease,
    store::{Commit, Revision, Store},
    txn::{Compare, Op, Txn},
    watch::{WatchEvent, WatchStream},
};
use futures::future::BoxFuture;
use std::{future::Future, sync::Arc, time::Duration};
use tokio::time::timeout;

/// How long anything may take before a case gives up on it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A test of one behaviour.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    run: fn(Arc<dyn Store>) -> BoxFuture<'static, ()>,
}

impl Case {
    /// Runs it on an empty store.
    ///
    /// # Panics
    /// When the store does not behave.
    pub async fn run(&self, store: Arc<dyn Store>) {
        (self.run)(store).await;
    }
}

macro_rules! cases {
    ($($module:ident: $($name:ident),+;)+) => {
        /// All cases.
        pub const CASES: &[Case] = &[
            $($(Case { name: stringify!($name), run: |store| Box::pin($module::$name(store)) },)+)+
        ];
    };
}

cases! {
    txns: put_get_delete, list_is_ordered_and_consistent, compares_decide, conflict_names_the_compare,
        list_and_compare_conflict, revisions_only_grow, nothing_changed_makes_no_revision, empty_values_and_odd_keys,
        big_transactions, many_transactions_in_order, concurrent_writers_lose_nothing, prefixes_do_not_mix;
    watches: watch_sees_everything_in_order, watch_resumes_from_a_revision, watch_keeps_transactions_together,
        compaction_asks_to_list_again, many_watchers, follower_stays_true, slow_watcher;
    leases: lease_lives_on_and_is_revoked, lease_runs_out, lost_lease_is_told, key_leaves_its_lease,
        put_under_a_dead_lease, dropped_lease_ends, lease_lengths_are_limited;
    owners: one_owner_at_a_time, deposed_owner_can_not_write, owner_waits_for_release, acquire_after_unknown,
        epochs_outlive_owners, identity_guards_the_store, restored_backup, registry_round_trip,
        newer_records_are_refused;
}

/// Waits for what should happen.
async fn soon<T>(what: &str, wait: impl Future<Output = T>) -> T {
    match timeout(PATIENCE, wait).await {
        Ok(done) => done,
        Err(_) => panic!("{what} did not happen within {PATIENCE:?}"),
    }
}

async fn commit(store: &dyn Store, compares: Vec<Compare>, ops: Vec<Op>) -> Commit {
    let txn = Txn::new(compares, ops).expect("the transaction is within limits");
    store.commit(txn).await
}

async fn put(store: &dyn Store, key: &str, value: &str) -> Revision {
    committed(commit(store, Vec::new(), vec![Op::put(key, value.to_owned())]).await)
}

#[track_caller]
fn committed(commit: Commit) -> Revision {
    commit.committed().unwrap_or_else(|| panic!("not committed: {commit}"))
}

#[track_caller]
fn conflict(commit: &Commit) {
    assert!(matches!(commit, Commit::Conflict(_)), "no conflict: {commit}");
}

async fn lease(store: &dyn Store, secs: u64) -> Lease {
    store.grant_lease(Duration::from_secs(secs)).await.expect("a lease is granted")
}

async fn value(store: &dyn Store, key: &str) -> Option<String> {
    let entry = store.get(key).await.expect("the store answers")?;
    Some(String::from_utf8(entry.value.to_vec()).expect("the value is text"))
}

async fn event(watch: &mut WatchStream) -> WatchEvent {
    soon("an event", watch.next()).await.expect("the watch goes on")
}

/// Waits until a key is gone.
async fn gone(store: &dyn Store, key: &str) {
    soon("the end of a key", async {
        let listing = store.list(key).await.expect("the store answers");
        if !listing.entries.iter().any(|entry| entry.key == key) {
            return;
        }
        let mut watch = store.watch(key, listing.revision);
        while let Some(event) = watch.next().await {
            if matches!(&event, WatchEvent::Delete { key: deleted, .. } if deleted == key) {
                return;
            }
        }
    })
    .await;
}
