//! Watches.

use super::{commit, committed, event, put, soon};
use crate::{
    follow::{Followed, Follower},
    store::{Entry, Revision, Store},
    txn::Op,
    watch::WatchEvent,
};
use futures::future::join_all;
use std::{collections::BTreeMap, sync::Arc};

pub(super) async fn watch_sees_everything_in_order(store: Arc<dyn Store>) {
    let start = store.list("w/").await.unwrap().revision;
    let mut watch = store.watch("w/", start);
    let mut expected = Vec::new();
    for round in 0..50 {
        let (key, other) = (format!("w/{}", round % 5), format!("x/{round}"));
        let revision = put(&*store, &key, &round.to_string()).await;
        put(&*store, &other, "not watched").await;
        let entry = Entry { key, value: round.to_string().into(), mod_revision: revision };
        expected.push(WatchEvent::Put { entry });
    }
    let revision = committed(commit(&*store, Vec::new(), vec![Op::delete("w/0"), Op::delete("w/none")]).await);
    expected.push(WatchEvent::Delete { key: "w/0".to_owned(), revision });
    for expected in expected {
        assert_eq!(event(&mut watch).await, expected);
    }
}

pub(super) async fn watch_resumes_from_a_revision(store: Arc<dyn Store>) {
    let mut revisions = Vec::new();
    for round in 0..10 {
        revisions.push(put(&*store, "r/k", &round.to_string()).await);
    }
    for (index, after) in revisions.iter().enumerate() {
        let mut watch = store.watch("r/", *after);
        for revision in &revisions[index + 1..] {
            assert_eq!(event(&mut watch).await.revision(), *revision);
        }
        let last = put(&*store, "r/last", "").await;
        // Writes of the rounds before come first.
        while event(&mut watch).await.revision() < last {}
    }
}

pub(super) async fn watch_keeps_transactions_together(store: Arc<dyn Store>) {
    let start = store.list("").await.unwrap().revision;
    let ops = (0..100).map(|n| Op::put(format!("t/{n:03}"), "v")).collect();
    let revision = committed(commit(&*store, Vec::new(), ops).await);
    let last = put(&*store, "t/last", "").await;
    let mut watch = store.watch("t/", start);
    let mut keys = Vec::new();
    loop {
        match event(&mut watch).await {
            WatchEvent::Put { entry } if entry.mod_revision == revision => keys.push(entry.key),
            other => {
                assert_eq!(other.revision(), last);
                break;
            }
        }
    }
    keys.sort();
    assert_eq!(keys, (0..100).map(|n| format!("t/{n:03}")).collect::<Vec<_>>());
}

pub(super) async fn compaction_asks_to_list_again(store: Arc<dyn Store>) {
    let first = put(&*store, "c/1", "old").await;
    let mut last = first;
    for round in 0..5 {
        last = put(&*store, "c/1", &round.to_string()).await;
    }
    store.compact(last).await.unwrap();
    store.compact(last).await.expect("compacting again is harmless");
    store.compact(Revision(last.0 + 1_000_000)).await.expect_err("the future can't be compacted");
    let mut watch = store.watch("c/", first);
    assert!(matches!(event(&mut watch).await, WatchEvent::Compacted { revision } if revision > first));
    assert_eq!(soon("the end of the watch", watch.next()).await, None);
    // The keys are still there, and watching goes on from the listing.
    let listing = store.list("c/").await.unwrap();
    assert_eq!((&*listing.entries[0].value, listing.entries[0].mod_revision), (&b"4"[..], last));
    let mut watch = store.watch("c/", listing.revision);
    let next = put(&*store, "c/2", "").await;
    assert_eq!(event(&mut watch).await.revision(), next);
}

pub(super) async fn many_watchers(store: Arc<dyn Store>) {
    const WATCHERS: usize = 100;
    const WRITES: usize = 50;
    let start = store.list("").await.unwrap().revision;
    let watchers: Vec<_> = (0..WATCHERS)
        .map(|index| {
            let mut watch = store.watch(if index % 2 == 0 { "m/" } else { "m/1" }, start);
            let expected =
                if index % 2 == 0 { WRITES } else { (0..WRITES).filter(|n| n.to_string().starts_with('1')).count() };
            tokio::spawn(async move {
                let mut last = Revision(0);
                for _ in 0..expected {
                    let revision = event(&mut watch).await.revision();
                    assert!(revision > last, "in order");
                    last = revision;
                }
            })
        })
        .collect();
    for round in 0..WRITES {
        put(&*store, &format!("m/{round}"), "v").await;
    }
    for watcher in join_all(watchers).await {
        watcher.unwrap();
    }
}

pub(super) async fn follower_stays_true(store: Arc<dyn Store>) {
    put(&*store, "f/before", "").await;
    let mut follower = Follower::new(Arc::clone(&store), "f/");
    let mut copy = BTreeMap::new();
    let writes = async {
        for round in 0..60 {
            let key = format!("f/{}", round % 7);
            if round % 5 == 4 {
                committed(commit(&*store, Vec::new(), vec![Op::delete(key)]).await);
            } else {
                let revision = put(&*store, &key, &round.to_string()).await;
                if round % 20 == 19 {
                    store.compact(revision).await.unwrap();
                }
            }
        }
        put(&*store, "f/end", "").await
    };
    let follow = async {
        while !copy.contains_key("f/end") {
            match soon("a change", follower.next()).await.unwrap() {
                Followed::Reset(listing) => {
                    copy = listing.entries.into_iter().map(|entry| (entry.key.clone(), entry)).collect();
                }
                Followed::Put(entry) => drop(copy.insert(entry.key.clone(), entry)),
                Followed::Delete { key, .. } => drop(copy.remove(&key)),
            }
        }
    };
    futures::join!(writes, follow);
    let truth = store.list("f/").await.unwrap();
    assert_eq!(copy.into_values().collect::<Vec<_>>(), truth.entries);
}

pub(super) async fn slow_watcher(store: Arc<dyn Store>) {
    // It looks only when much has happened; it hears all of it, in order, or is told to list again.
    let mut watch = store.watch("s/", store.list("").await.unwrap().revision);
    let mut last = Revision(0);
    for round in 0..30 {
        let ops = (0..100).map(|n| Op::put(format!("s/{n}"), vec![0; 100 + round])).collect();
        last = committed(commit(&*store, Vec::new(), ops).await);
    }
    let mut seen = 0;
    loop {
        let event = event(&mut watch).await;
        if matches!(event, WatchEvent::Compacted { .. }) {
            return;
        }
        seen += 1;
        if event.revision() == last && seen == 3000 {
            return;
        }
    }
}
