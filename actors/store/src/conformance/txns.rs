//! Transactions and reads.

use super::{commit, committed, conflict, put, value};
use crate::{
    limits::{KEY_BYTES_MAX, TXN_BYTES_MAX, TXN_OPS_MAX},
    sequence::commit_all,
    store::{Commit, Conflict, Revision, Store},
    txn::{Compare, Op, Txn, TxnRefused},
};
use futures::future::join_all;
use std::sync::Arc;

pub(super) async fn put_get_delete(store: Arc<dyn Store>) {
    assert_eq!(store.get("a").await.unwrap(), None);
    let first = put(&*store, "a", "1").await;
    let entry = store.get("a").await.unwrap().unwrap();
    assert_eq!((entry.key.as_str(), &*entry.value, entry.mod_revision), ("a", &b"1"[..], first));
    let second = put(&*store, "a", "2").await;
    assert!(second > first);
    assert_eq!(value(&*store, "a").await.as_deref(), Some("2"));
    committed(commit(&*store, Vec::new(), vec![Op::delete("a")]).await);
    assert_eq!(store.get("a").await.unwrap(), None);
}

pub(super) async fn list_is_ordered_and_consistent(store: Arc<dyn Store>) {
    for key in ["b/2", "a/1", "b/10", "c", "b/1"] {
        put(&*store, key, key).await;
    }
    let listing = store.list("b/").await.unwrap();
    let keys: Vec<_> = listing.entries.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, ["b/1", "b/10", "b/2"]);
    assert!(listing.entries.iter().all(|entry| entry.mod_revision <= listing.revision));
    assert_eq!(store.list("").await.unwrap().entries.len(), 5);
    assert_eq!(store.list("nothing/").await.unwrap().entries.len(), 0);
}

pub(super) async fn compares_decide(store: Arc<dyn Store>) {
    let revision = put(&*store, "here", "v").await;
    let holds = [
        Compare::absent("not-here"),
        Compare::mod_revision("here", revision),
        Compare::value("here", "v"),
        Compare::unchanged(&store.get("here").await.unwrap().unwrap()),
    ];
    for compare in holds {
        committed(commit(&*store, vec![compare], vec![Op::put("done", "x")]).await);
    }
    let fails = [
        Compare::absent("here"),
        Compare::mod_revision("here", Revision(revision.0 + 1)),
        Compare::mod_revision("here", Revision(0)),
        Compare::mod_revision("here", Revision(u64::MAX)),
        Compare::mod_revision("not-here", revision),
        Compare::mod_revision("not-here", Revision(0)),
        Compare::value("here", "w"),
        Compare::value("here", ""),
        Compare::value("not-here", ""),
    ];
    for compare in fails {
        let outcome = commit(&*store, vec![compare.clone()], vec![Op::put("never", "x"), Op::delete("here")]).await;
        assert!(matches!(outcome, Commit::Conflict(_)), "{compare:?}: {outcome}");
        assert_eq!(value(&*store, "never").await, None);
    }
    assert_eq!(value(&*store, "here").await.as_deref(), Some("v"));
    // Without operations a transaction only checks.
    committed(commit(&*store, vec![Compare::value("here", "v")], Vec::new()).await);
    conflict(&commit(&*store, vec![Compare::absent("here")], Vec::new()).await);
}

pub(super) async fn conflict_names_the_compare(store: Arc<dyn Store>) {
    let a = put(&*store, "a", "1").await;
    let compares = vec![Compare::mod_revision("a", a), Compare::value("a", "2"), Compare::absent("a")];
    let outcome = commit(&*store, compares, vec![Op::put("b", "x")]).await;
    let expected = Conflict::Compare { index: 1, key: "a".to_owned(), found: Some(a) };
    assert_eq!(outcome, Commit::Conflict(expected));
    let outcome = commit(&*store, vec![Compare::value("none", "")], Vec::new()).await;
    assert_eq!(outcome, Commit::Conflict(Conflict::Compare { index: 0, key: "none".to_owned(), found: None }));
}

pub(super) async fn list_and_compare_conflict(store: Arc<dyn Store>) {
    put(&*store, "jobs/1", "a").await;
    let listing = store.list("jobs/").await.unwrap();
    // Somebody else changes what was listed.
    put(&*store, "jobs/1", "b").await;
    let outcome = commit(&*store, vec![Compare::unchanged(&listing.entries[0])], vec![Op::put("jobs/1", "c")]).await;
    conflict(&outcome);
    assert_eq!(value(&*store, "jobs/1").await.as_deref(), Some("b"));
    let again = store.list("jobs/").await.unwrap();
    committed(commit(&*store, vec![Compare::unchanged(&again.entries[0])], vec![Op::put("jobs/1", "c")]).await);
}

pub(super) async fn revisions_only_grow(store: Arc<dyn Store>) {
    let mut last = store.list("").await.unwrap().revision;
    for round in 0..20 {
        let revision = put(&*store, &format!("k{}", round % 3), "v").await;
        assert!(revision > last);
        last = revision;
        assert!(store.list("").await.unwrap().revision >= last);
    }
}

pub(super) async fn nothing_changed_makes_no_revision(store: Arc<dyn Store>) {
    let before = put(&*store, "a", "1").await;
    let outcome = commit(&*store, Vec::new(), vec![Op::delete("not-here")]).await;
    assert_eq!(committed(outcome), before);
    // Writing the same value again is a change.
    assert!(put(&*store, "a", "1").await > before);
}

pub(super) async fn empty_values_and_odd_keys(store: Arc<dyn Store>) {
    let long = "k".repeat(KEY_BYTES_MAX);
    let keys = [" ", "/", "//", "a//b/", "\0", "\u{7f}", "ключ/键/🦀", "a\nb", "%00", "\u{10ffff}", &long];
    for key in keys {
        put(&*store, key, "").await;
        let entry = store.get(key).await.unwrap().unwrap_or_else(|| panic!("{key:?} is there"));
        assert!(entry.value.is_empty(), "{key:?}");
        let listed = store.list(key).await.unwrap();
        assert!(listed.entries.iter().any(|entry| entry.key == key), "{key:?} is listed");
    }
    assert_eq!(store.list("").await.unwrap().entries.len(), keys.len());
    let binary: Vec<u8> = (0..=255).collect();
    committed(commit(&*store, Vec::new(), vec![Op::put("binary", binary.clone())]).await);
    assert_eq!(store.get("binary").await.unwrap().unwrap().value, binary);
    committed(commit(&*store, vec![Compare::value("binary", binary)], vec![Op::delete("binary")]).await);
    assert!(matches!(Txn::put("", "x"), Err(TxnRefused::KeyLength { bytes: 0, .. })));
    assert!(matches!(Txn::put(format!("{long}k"), "x"), Err(TxnRefused::KeyLength { .. })));
}

pub(super) async fn big_transactions(store: Arc<dyn Store>) {
    // The biggest that can be made are taken by every store.
    let many: Vec<_> = (0..TXN_OPS_MAX).map(|n| Op::put(format!("many/{n:03}"), vec![7; 1000])).collect();
    let compares: Vec<_> = (0..TXN_OPS_MAX).map(|n| Compare::absent(format!("none/{n}"))).collect();
    committed(commit(&*store, compares, many).await);
    assert_eq!(store.list("many/").await.unwrap().entries.len(), TXN_OPS_MAX);
    let big = vec![9; TXN_BYTES_MAX - "big".len()];
    committed(commit(&*store, Vec::new(), vec![Op::put("big", big.clone())]).await);
    assert_eq!(store.get("big").await.unwrap().unwrap().value, big);
    // What is bigger can't be made.
    let ops = |count| (0..count).map(|n| Op::delete(format!("k{n}"))).collect::<Vec<_>>();
    let refused = Txn::new(Vec::new(), ops(TXN_OPS_MAX + 1));
    assert_eq!(refused, Err(TxnRefused::TooManyOps { ops: TXN_OPS_MAX + 1 }));
    assert!(matches!(Txn::put("k", vec![0; TXN_BYTES_MAX]), Err(TxnRefused::TooManyBytes { .. })));
    let twice = Txn::new(Vec::new(), vec![Op::put("k", "1"), Op::delete("k")]);
    assert_eq!(twice, Err(TxnRefused::KeyTwice { key: "k".to_owned() }));
}

pub(super) async fn many_transactions_in_order(store: Arc<dyn Store>) {
    put(&*store, "fence", "1").await;
    let fence = [Compare::value("fence", "1")];
    let ops: Vec<_> = (0..500).map(|n| Op::put(format!("all/{n:03}"), vec![1; 4096])).collect();
    committed(commit_all(&*store, ops.clone(), &fence).await.unwrap());
    assert_eq!(store.list("all/").await.unwrap().entries.len(), 500);
    put(&*store, "fence", "2").await;
    conflict(&commit_all(&*store, ops, &fence).await.unwrap());
    conflict(&commit_all(&*store, Vec::new(), &fence).await.unwrap());
}

pub(super) async fn concurrent_writers_lose_nothing(store: Arc<dyn Store>) {
    const WRITERS: usize = 16;
    const ROUNDS: usize = 20;
    put(&*store, "counter", "0").await;
    let writers = (0..WRITERS).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for _ in 0..ROUNDS {
                loop {
                    let entry = store.get("counter").await.unwrap().unwrap();
                    let count: usize = str::from_utf8(&entry.value).unwrap().parse().unwrap();
                    let next = Op::put("counter", (count + 1).to_string());
                    match commit(&*store, vec![Compare::unchanged(&entry)], vec![next]).await {
                        Commit::Committed { .. } => break,
                        Commit::Conflict(_) => {}
                        Commit::Unknown { why } => panic!("unknown: {why}"),
                    }
                }
            }
        })
    });
    for done in join_all(writers).await {
        done.unwrap();
    }
    assert_eq!(value(&*store, "counter").await, Some((WRITERS * ROUNDS).to_string()));
}

pub(super) async fn prefixes_do_not_mix(store: Arc<dyn Store>) {
    for key in ["a", "a/", "a/x", "a0", "ab", "b"] {
        put(&*store, key, "").await;
    }
    let keys = |listing: crate::Listing| listing.entries.into_iter().map(|entry| entry.key).collect::<Vec<_>>();
    assert_eq!(keys(store.list("a/").await.unwrap()), ["a/", "a/x"]);
    assert_eq!(keys(store.list("a").await.unwrap()), ["a", "a/", "a/x", "a0", "ab"]);
}
