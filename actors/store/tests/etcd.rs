//! The etcd store: the suite on one member and on three, and what happens when members fail.

use polder_store::{
    Commit, EtcdStore, Moment, Op, Revision, Store, StoreError, Txn, WatchEvent, conformance::CASES,
    testing::EtcdServer,
};
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(60);

async fn put(store: &dyn Store, key: &str, value: &str) -> Commit {
    store.commit(Txn::put(key, value.to_owned()).unwrap()).await
}

async fn suite(members: usize) {
    let server = EtcdServer::start(members).await.unwrap();
    for case in CASES {
        eprintln!("etcd x {members}: {}", case.name);
        let store = EtcdStore::connect(&server.endpoints(), &format!("test/{}", case.name)).await.unwrap();
        case.run(Arc::new(store)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conformance_one_member() {
    suite(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conformance_three_members() {
    suite(3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_are_apart() {
    let server = EtcdServer::start(1).await.unwrap();
    let one = EtcdStore::connect(&server.endpoints(), "region/a").await.unwrap();
    let other = EtcdStore::connect(&server.endpoints(), "/region/ab/").await.unwrap();
    let mut watch = other.watch("", other.list("").await.unwrap().revision);
    assert!(put(&one, "k", "one").await.committed().is_some());
    assert!(put(&other, "k", "other").await.committed().is_some());
    assert_eq!(one.list("").await.unwrap().entries.len(), 1);
    assert_eq!(&*one.get("k").await.unwrap().unwrap().value, b"one");
    assert!(matches!(watch.next().await, Some(WatchEvent::Put { entry }) if &*entry.value == b"other"));
    assert!(other.size_bytes().await.unwrap() > 0);
    assert!(matches!(EtcdStore::connect(&[""; 0], "x").await, Err(StoreError::Refused { .. })));
    assert!(matches!(EtcdStore::connect(&["http://[bad"], "x").await, Err(StoreError::Refused { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_answer_the_outcome_is_unknown_and_the_lease_is_lost() {
    let server = EtcdServer::start(1).await.unwrap();
    let store = EtcdStore::connect(&server.endpoints(), "test").await.unwrap();
    let lease = store.grant_lease(Duration::from_secs(2)).await.unwrap();
    let leased = Txn::new(Vec::new(), vec![Op::put_leased("leased", "x", lease.id())]).unwrap();
    assert!(store.commit(leased).await.committed().is_some());
    let mut watch = store.watch("", store.list("").await.unwrap().revision);
    let lost = lease.lost();
    server.pause(0).unwrap();
    let (outcome, _) = timeout(PATIENCE, async { tokio::join!(put(&store, "k", "v"), lost) }).await.unwrap();
    assert!(matches!(outcome, Commit::Unknown { .. }), "{outcome}");
    assert!(!lease.is_valid(Moment::now()));
    server.resume(0).unwrap();
    // It may be done now, later, or never. Whichever it is, a listing and the watch tell the same story.
    let listing = store.list("").await.unwrap();
    let end = loop {
        if let Some(revision) = put(&store, "end", "").await.committed() {
            break revision;
        }
    };
    let mut seen = None;
    loop {
        match timeout(PATIENCE, watch.next()).await.unwrap().expect("the watch goes on") {
            WatchEvent::Put { entry } if entry.key == "k" => seen = Some(entry.mod_revision),
            WatchEvent::Put { entry } if entry.mod_revision == end => break,
            WatchEvent::Put { .. } | WatchEvent::Delete { .. } => {}
            WatchEvent::Compacted { .. } => panic!("nobody compacted"),
        }
    }
    let listed = listing.entries.iter().find(|entry| entry.key == "k").map(|entry| entry.mod_revision);
    assert_eq!(listed, seen.filter(|revision| *revision <= listing.revision));
}

/// Writes numbered keys until told to stop; gives back those that were acknowledged.
async fn write_all_the_time(store: Arc<dyn Store>, writer: usize, stop: Arc<AtomicBool>) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let key = format!("w/{writer}/{number:06}");
        let ops = ["a", "b", "c"].map(|part| Op::put(format!("{key}/{part}"), key.clone())).to_vec();
        match store.commit(Txn::new(Vec::new(), ops).unwrap()).await {
            Commit::Committed { .. } => acknowledged.push(key),
            Commit::Unknown { .. } => sleep(Duration::from_millis(20)).await,
            Commit::Conflict(conflict) => panic!("{conflict}"),
        }
    }
    acknowledged
}

/// Checks that everything acknowledged is there, that nothing is torn, and that the watch saw the same.
async fn check(store: &dyn Store, start: Revision, mut watch: polder_store::WatchStream, acknowledged: &[String]) {
    let end = loop {
        if let Some(revision) = put(store, "w/end", "").await.committed() {
            break revision;
        }
    };
    let listing = store.list("w/").await.unwrap();
    let keys: BTreeSet<_> = listing.entries.iter().map(|entry| entry.key.clone()).collect();
    for key in acknowledged {
        assert!(keys.contains(&format!("{key}/a")), "{key} was acknowledged");
    }
    for entry in listing.entries.iter().filter(|entry| entry.key != "w/end") {
        let whole = str::from_utf8(&entry.value).unwrap();
        assert!(["a", "b", "c"].iter().all(|part| keys.contains(&format!("{whole}/{part}"))), "{whole} is torn");
    }
    let mut seen = BTreeSet::new();
    let mut last = start;
    loop {
        match timeout(PATIENCE, watch.next()).await.expect("the watch goes on").unwrap() {
            WatchEvent::Put { entry } => {
                assert!(entry.mod_revision >= last, "in order");
                last = entry.mod_revision;
                assert!(seen.insert(entry.key), "each once");
            }
            other => panic!("{other:?}"),
        }
        if last == end {
            break;
        }
    }
    assert_eq!(seen, keys);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_nothing_it_acknowledged() {
    let mut server = EtcdServer::start(1).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(EtcdStore::connect(&server.endpoints(), "test").await.unwrap());
    let start = store.list("").await.unwrap().revision;
    let watch = store.watch("w/", start);
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> =
        (0..4).map(|n| tokio::spawn(write_all_the_time(Arc::clone(&store), n, Arc::clone(&stop)))).collect();
    for round in 0..4 {
        sleep(Duration::from_millis(150 + 77 * round)).await;
        server.kill(0).unwrap();
        server.restart(0).await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(timeout(PATIENCE, writer).await.unwrap().unwrap());
    }
    assert!(!acknowledged.is_empty());
    check(&*store, start, watch, &acknowledged).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn losing_one_member_of_three_costs_no_lease_and_no_write() {
    let mut server = EtcdServer::start(3).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(EtcdStore::connect(&server.endpoints(), "test").await.unwrap());
    let start = store.list("").await.unwrap().revision;
    let watch = store.watch("w/", start);
    let lease = store.grant_lease(Duration::from_secs(15)).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> =
        (0..4).map(|n| tokio::spawn(write_all_the_time(Arc::clone(&store), n, Arc::clone(&stop)))).collect();
    for member in 0..3 {
        sleep(Duration::from_millis(300)).await;
        server.kill(member).unwrap();
        // Work goes on with two.
        let key = format!("without/{member}");
        timeout(PATIENCE, async { while put(&*store, &key, "").await.committed().is_none() {} }).await.unwrap();
        server.restart(member).await.unwrap();
        server.pause(member).unwrap();
        let key = format!("paused/{member}");
        timeout(PATIENCE, async { while put(&*store, &key, "").await.committed().is_none() {} }).await.unwrap();
        server.resume(member).unwrap();
    }
    assert!(lease.is_valid(Moment::now()), "the lease was kept");
    stop.store(true, Ordering::Relaxed);
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(timeout(PATIENCE, writer).await.unwrap().unwrap());
    }
    check(&*store, start, watch, &acknowledged).await;
}
