//! Leases.

use super::{commit, committed, gone, lease, put, soon, value};
use crate::{
    clock::Moment,
    lease::LeaseId,
    store::{Commit, Conflict, Store, StoreError},
    txn::Op,
};
use std::{sync::Arc, time::Duration};

/// etcd raises anything shorter.
const SHORTEST_SECS: u64 = 2;

pub(super) async fn lease_lives_on_and_is_revoked(store: Arc<dyn Store>) {
    let lease = lease(&*store, SHORTEST_SECS).await;
    committed(commit(&*store, Vec::new(), vec![Op::put_leased("l/a", "x", lease.id())]).await);
    let first = lease.valid_until();
    assert!(lease.is_valid(Moment::now()));
    // Longer than its time, it is renewed.
    soon("a few renewals", async {
        while lease.valid_until().since(first) < lease.ttl() * 2 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(lease.is_valid(Moment::now()), "it holds all the time");
        }
    })
    .await;
    assert!(value(&*store, "l/a").await.is_some());
    lease.revoke().await.unwrap();
    assert!(!lease.is_valid(Moment::now()));
    gone(&*store, "l/a").await;
    lease.revoke().await.expect("revoking again is harmless");
}

pub(super) async fn lease_runs_out(store: Arc<dyn Store>) {
    let lease = lease(&*store, SHORTEST_SECS).await;
    put(&*store, "o/stays", "x").await;
    let ops = vec![Op::put_leased("o/a", "x", lease.id()), Op::put_leased("o/b", "x", lease.id())];
    committed(commit(&*store, Vec::new(), ops).await);
    lease.let_run_out();
    gone(&*store, "o/a").await;
    // By the time the store deletes its keys the holder has long stopped believing in it.
    assert!(!lease.is_valid(Moment::now()));
    gone(&*store, "o/b").await;
    assert!(value(&*store, "o/stays").await.is_some());
}

pub(super) async fn lost_lease_is_told(store: Arc<dyn Store>) {
    let lease = lease(&*store, SHORTEST_SECS).await;
    let lost = lease.lost();
    lease.let_run_out();
    let why = soon("the loss of a lease", lost).await;
    assert!(!why.is_empty());
    assert!(!lease.is_valid(Moment::now()));
    // Asked afterwards, it is told at once.
    soon("the loss of a lease", lease.lost()).await;
}

pub(super) async fn key_leaves_its_lease(store: Arc<dyn Store>) {
    let lease = lease(&*store, 10).await;
    committed(commit(&*store, Vec::new(), vec![Op::put_leased("k/a", "1", lease.id())]).await);
    committed(commit(&*store, Vec::new(), vec![Op::put_leased("k/b", "1", lease.id())]).await);
    // Written without a lease it stays.
    put(&*store, "k/a", "2").await;
    lease.revoke().await.unwrap();
    gone(&*store, "k/b").await;
    assert_eq!(value(&*store, "k/a").await.as_deref(), Some("2"));
}

pub(super) async fn put_under_a_dead_lease(store: Arc<dyn Store>) {
    let lease = lease(&*store, 10).await;
    lease.revoke().await.unwrap();
    let ops = || vec![Op::put("d/other", "x"), Op::put_leased("d/a", "x", lease.id())];
    let outcome = commit(&*store, Vec::new(), ops()).await;
    assert_eq!(outcome, Commit::Conflict(Conflict::LeaseGone { lease: lease.id() }));
    let never = LeaseId(0x7000_0000_0000_0001);
    let outcome = commit(&*store, Vec::new(), vec![Op::put_leased("d/a", "x", never)]).await;
    assert_eq!(outcome, Commit::Conflict(Conflict::LeaseGone { lease: never }));
    assert!(store.list("d/").await.unwrap().entries.is_empty(), "none of it was done");
}

pub(super) async fn dropped_lease_ends(store: Arc<dyn Store>) {
    let lease = lease(&*store, SHORTEST_SECS).await;
    committed(commit(&*store, Vec::new(), vec![Op::put_leased("e/a", "x", lease.id())]).await);
    let clone = lease.clone();
    drop(lease);
    assert!(clone.is_valid(Moment::now()));
    drop(clone);
    gone(&*store, "e/a").await;
}

pub(super) async fn lease_lengths_are_limited(store: Arc<dyn Store>) {
    for ttl in [Duration::ZERO, Duration::from_millis(999), Duration::from_secs(1 << 40)] {
        assert!(matches!(store.grant_lease(ttl).await, Err(StoreError::Refused { .. })), "{ttl:?}");
    }
}
