//! The embedded store: the suite, and what only it has.

use polder_store::{Commit, Compare, EmbeddedStore, Op, Store, StoreError, Txn, WatchEvent, conformance::CASES};
use std::{fs, sync::Arc, time::Duration};
use tempfile::TempDir;

fn dir() -> TempDir {
    tempfile::Builder::new().prefix("polder-store-").tempdir().unwrap()
}

async fn put(store: &dyn Store, key: &str, value: &str) -> Commit {
    store.commit(Txn::put(key, value.to_owned()).unwrap()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conformance() {
    for case in CASES {
        eprintln!("embedded: {}", case.name);
        let dir = dir();
        case.run(Arc::new(EmbeddedStore::open(dir.path()).unwrap())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_is_there_after_reopening() {
    let dir = dir();
    let mut last = None;
    for round in 0..5 {
        let store = EmbeddedStore::open(dir.path()).unwrap();
        if let Some(last) = last {
            assert_eq!(store.list("").await.unwrap().revision, last);
            // The history is gone: whoever watches from before lists again.
            let mut watch = store.watch("", polder_store::Revision(0));
            assert!(matches!(watch.next().await, Some(WatchEvent::Compacted { .. })));
        }
        last = put(&store, &format!("k{round}"), "v").await.committed();
        assert_eq!(store.list("k").await.unwrap().entries.len(), round + 1);
        assert!(store.size_bytes().await.unwrap() > 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_end_with_their_process() {
    let dir = dir();
    let store = EmbeddedStore::open(dir.path()).unwrap();
    let lease = store.grant_lease(Duration::from_secs(600)).await.unwrap();
    let ops = vec![Op::put_leased("leased", "x", lease.id()), Op::put("stays", "x")];
    let before = store.commit(Txn::new(Vec::new(), ops).unwrap()).await.committed().unwrap();
    drop(store);
    let store = EmbeddedStore::open(dir.path()).unwrap();
    assert_eq!(store.get("leased").await.unwrap(), None);
    assert!(store.get("stays").await.unwrap().is_some());
    assert!(store.list("").await.unwrap().revision > before);
    // The old handle knows, or hears as soon as it asks.
    tokio::time::timeout(Duration::from_secs(5), lease.revoke()).await.unwrap().unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_is_unknown_and_the_write_is_there() {
    let dir = dir();
    let store = EmbeddedStore::open(dir.path()).unwrap();
    store.faults().lose_next_answer();
    assert!(matches!(put(&store, "k", "v").await, Commit::Unknown { .. }));
    assert!(store.get("k").await.unwrap().is_some());
    assert!(put(&store, "k", "w").await.committed().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failed_write_the_store_stops_until_it_is_opened_again() {
    let dir = dir();
    let store = EmbeddedStore::open(dir.path()).unwrap();
    assert!(put(&store, "before", "v").await.committed().is_some());
    let lease = store.grant_lease(Duration::from_secs(2)).await.unwrap();
    store.faults().fail_next_write();
    assert!(matches!(put(&store, "failed", "v").await, Commit::Unknown { .. }));
    let Commit::Unknown { why } = put(&store, "after", "v").await else { panic!("the store has stopped") };
    assert!(why.contains("has stopped") && why.matches("has stopped").count() == 1, "{why}");
    let check = Txn::new(vec![Compare::absent("x")], Vec::new()).unwrap();
    assert!(matches!(store.commit(check).await, Commit::Unknown { .. }));
    assert!(matches!(store.grant_lease(Duration::from_secs(5)).await, Err(StoreError::Stopped { .. })));
    assert_eq!(store.list("").await.unwrap().entries.len(), 1, "what is durable can be read");
    tokio::time::timeout(Duration::from_secs(30), lease.lost()).await.expect("leases of a stopped store are lost");
    drop(store);
    let store = EmbeddedStore::open(dir.path()).unwrap();
    assert!(store.get("before").await.unwrap().is_some());
    assert!(put(&store, "after", "v").await.committed().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_ends_with_its_store() {
    let dir = dir();
    let store = EmbeddedStore::open(dir.path()).unwrap();
    let mut watch = store.watch("", store.list("").await.unwrap().revision);
    assert!(put(&store, "k", "v").await.committed().is_some());
    drop(store);
    assert!(matches!(watch.next().await, Some(WatchEvent::Put { .. })));
    assert_eq!(watch.next().await, None);
}

#[test]
fn the_directory_is_exclusive() {
    let dir = dir();
    let _store = EmbeddedStore::open(dir.path()).unwrap();
    match EmbeddedStore::open(dir.path()) {
        Err(StoreError::Locked { pid, .. }) => assert_eq!(pid, std::process::id().to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn other_formats_and_other_directories_are_refused() {
    let dir = dir();
    drop(EmbeddedStore::open(dir.path()).unwrap());
    fs::write(dir.path().join("format"), "2\n").unwrap();
    let error = EmbeddedStore::open(dir.path()).unwrap_err();
    assert!(matches!(error, StoreError::TooNew { found: 2, known: 1, .. }), "{error}");
    fs::write(dir.path().join("format"), "abc").unwrap();
    assert!(matches!(EmbeddedStore::open(dir.path()), Err(StoreError::NotAStore { .. })));
    fs::remove_file(dir.path().join("format")).unwrap();
    assert!(matches!(EmbeddedStore::open(dir.path()), Err(StoreError::NotAStore { .. })));
    fs::write(dir.path().join("file"), "").unwrap();
    assert!(matches!(EmbeddedStore::open(dir.path().join("file")), Err(StoreError::Io { .. })));
}
