//! Many actors: escalation, restarts of whole actors, names, shutdown.

mod toy;

use polder_shell::{ActorState, Commit, Escalation, PortError, RestoreError, SpawnError, StopError, Tree, TreeOptions};
use std::sync::{Arc, Mutex};
use toy::{Disk, Event, ToyRole, add, options, policy, settle, spawn, tree, tree_options, until};

fn recording() -> (Tree, Arc<Mutex<Vec<Escalation>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let on_escalation = {
        let seen = Arc::clone(&seen);
        Arc::new(move |escalation: &Escalation| seen.lock().unwrap().push(escalation.clone()))
    };
    (Tree::on_this_thread(TreeOptions { on_escalation, ..tree_options() }), seen)
}

#[actix::test]
async fn over_the_limit_the_actor_is_started_afresh_behind_the_same_port_and_then_given_up() {
    let (tree, escalations) = recording();
    let disk = Disk::default();
    let toy = spawn(&tree, "toy", &disk);
    let other = spawn(&tree, "other", &Disk::default());
    // The limit is 2: the third ends the actor. What waits in its inbox is for the next one.
    for _ in 0..3 {
        toy.port().try_send(Event::Crash).unwrap();
    }
    toy.port().try_send(add(1, 5)).unwrap();
    until("handled by the next actor", || disk.durable() == [(1, 5)].into()).await;
    assert_eq!(disk.reasons(), ["started", "panicked", "panicked", "restarted"]);
    assert!(escalations.lock().unwrap().is_empty());

    // The root bears one such failure; with the second it has had enough.
    for _ in 0..3 {
        toy.port().try_send(Event::Crash).unwrap();
    }
    until("given up", || !escalations.lock().unwrap().is_empty()).await;
    let escalation = escalations.lock().unwrap()[0].clone();
    assert_eq!(escalation.actor, "toy");
    assert!(escalation.error.contains("crashed"), "{}", escalation.error);
    assert_eq!(toy.status().state, ActorState::Escalated);
    assert_eq!(toy.status().counts.panics, 6);
    assert!(other.ready().await, "the others go on");
}

#[actix::test]
async fn a_group_that_has_had_enough_is_started_again_as_a_whole() {
    let (tree, escalations) = recording();
    let group = tree.root().group("region", policy(0));
    let (bad, good, outside) = (Disk::default(), Disk::default(), Disk::default());
    let start = |name: &str, disk: &Disk| {
        let disk = disk.clone();
        group.spawn(name, options(), move |_| ToyRole(disk.clone())).unwrap()
    };
    let (bad_toy, good_toy) = (start("bad", &bad), start("good", &good));
    let other = spawn(&tree, "outside", &outside);
    assert_eq!(bad_toy.name(), "region/bad");
    good_toy.port().try_send(add(1, 1)).unwrap();
    assert!(other.ready().await);
    settle().await;
    for _ in 0..3 {
        bad_toy.port().try_send(Event::Crash).unwrap();
    }
    until("both started again", || {
        [&bad, &good].iter().all(|disk| disk.reasons().last().is_some_and(|reason| reason == "restarted"))
    })
    .await;
    assert!(good_toy.ready().await);
    assert_eq!(good_toy.query(|machine| machine.total).await, Ok(1));
    assert_eq!(outside.reasons(), ["started"]);
    assert!(escalations.lock().unwrap().is_empty());
}

#[actix::test]
async fn state_that_makes_no_sense_is_not_tried_for_ever() {
    let (tree, escalations) = recording();
    let disk = Disk::default();
    disk.fail_restore((0..10).map(|_| RestoreError::Broken { what: "version 9".to_owned() }));
    let toy = spawn(&tree, "toy", &disk);
    until("given up", || !escalations.lock().unwrap().is_empty()).await;
    assert_eq!(disk.reasons(), ["started", "restarted"]);
    assert!(toy.status().last_error.unwrap().contains("version 9"));
}

#[actix::test]
async fn a_role_that_cannot_be_made_is_a_failure_like_others() {
    let (tree, escalations) = recording();
    let toy = tree.root().spawn("toy", options(), |_| -> ToyRole { panic!("no address given") }).unwrap();
    until("given up", || !escalations.lock().unwrap().is_empty()).await;
    assert!(toy.status().last_error.unwrap().contains("no address given"));
}

#[actix::test]
async fn an_actor_that_owns_nothing_any_more_stops_and_its_name_is_free() {
    let (tree, disk) = (tree(), Disk::default());
    disk.script([Commit::Conflict { what: "a newer epoch".to_owned() }]);
    let toy = spawn(&tree, "shard-1", &disk);
    assert!(toy.ready().await);
    disk.fail_restore([RestoreError::NotOwner { what: "node b".to_owned() }]);
    toy.port().try_send(add(1, 1)).unwrap();
    until("stopped", || toy.status().state == ActorState::Stopped).await;
    assert!(!toy.ready().await);
    assert!(matches!(toy.port().try_send(add(1, 1)), Err(PortError::Closed { .. })));

    let again = spawn(&tree, "shard-1", &disk);
    assert!(again.ready().await);
    assert_eq!(tree.status().len(), 1);
    let taken = tree.root().spawn("shard-1", options(), move |_| ToyRole(disk.clone()));
    assert!(matches!(taken, Err(SpawnError::NameTaken { .. })));
}

#[actix::test]
async fn shutdown_goes_backwards_and_finishes_commits() {
    let (tree, first, second) = (tree(), Disk::default(), Disk::default());
    first.hold();
    let (a, b) = (spawn(&tree, "a", &first), spawn(&tree, "b", &second));
    a.port().try_send(add(1, 5)).unwrap();
    settle().await;
    a.port().try_send(add(1, 6)).unwrap();
    settle().await;
    let closing = actix::spawn({
        let tree = tree.clone();
        async move { tree.shutdown().await }
    });
    settle().await;
    assert_eq!(b.status().state, ActorState::Stopped);
    assert_eq!(a.status().state, ActorState::Stopping);
    first.answer(0, Commit::Committed);
    settle().await;
    first.answer(0, Commit::Committed);
    let report = closing.await.unwrap();
    assert_eq!(report.stopped, ["b", "a"]);
    assert!(report.abandoned.is_empty());
    assert_eq!(first.durable(), [(1, 11)].into());
    assert_eq!(first.log().last().unwrap(), "after 1+6");
    assert!(a.port().is_closed() && b.port().is_closed());
    assert!(matches!(tree.root().spawn("c", options(), |_| ToyRole(Disk::default())), Err(SpawnError::Down)));
    assert_eq!(tree.stop("d").await, Err(StopError::Unknown { name: "d".to_owned() }));
}

#[actix::test]
async fn an_actor_that_does_not_finish_is_named() {
    let (tree, disk) = (tree(), Disk::default());
    disk.hold();
    let toy = tree.root().spawn(
        "stuck",
        polder_shell::ActorOptions { commit_timeout: polder_types::Millis::from_secs(3600), ..options() },
        {
            let disk = disk.clone();
            move |_| ToyRole(disk.clone())
        },
    );
    toy.unwrap().port().try_send(add(1, 5)).unwrap();
    settle().await;
    let report = tree.shutdown().await;
    assert_eq!(report.abandoned, ["stuck"]);
}

#[actix::test]
async fn the_status_table_is_plain_data() {
    let (tree, disk) = (tree(), Disk::default());
    let toy = spawn(&tree, "toy", &disk);
    assert!(toy.ready().await);
    for event in [Event::Poison { key: 13 }, Event::Poison { key: 13 }, add(1, 1)] {
        toy.port().try_send(event).unwrap();
    }
    until("handled", || disk.durable().len() == 1).await;
    let line = serde_json::to_value(&tree.status()[0]).unwrap();
    assert_eq!(line["name"], "toy");
    assert_eq!(line["state"], "quarantined");
    assert_eq!(line["keys"][0], "13");
    assert_eq!(line["mailbox"]["depth"], 0);
    assert_eq!(line["panics"], 2);
    let back: polder_shell::ActorStatus = serde_json::from_value(line).unwrap();
    assert_eq!(back, tree.status()[0]);
}

/// From a plain tokio program, on threads of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_tree_brings_its_own_threads() {
    let options = TreeOptions { threads: 2.try_into().unwrap(), ..TreeOptions::default() };
    let tree = Tree::new(options).unwrap();
    let disks: Vec<Disk> = (0..4).map(|_| Disk::default()).collect();
    let actors: Vec<_> =
        disks.iter().enumerate().map(|(at, disk)| spawn(&tree, &format!("shard-{at}"), disk)).collect();
    for actor in &actors {
        for amount in 1..=1000 {
            actor.port().send(add(1, amount)).await.unwrap();
        }
        actor.port().send(Event::Crash).await.unwrap();
        actor.port().send(add(2, 1)).await.unwrap();
    }
    let report = {
        for actor in &actors {
            // A query waits for the events before it only by chance, so ask until they are in.
            while actor.query(|machine| machine.total).await != Ok(500_501) {
                tokio::task::yield_now().await;
            }
        }
        tree.shutdown().await
    };
    assert_eq!(report.stopped.len(), 4);
    for disk in &disks {
        assert_eq!(disk.durable(), [(1, 500_500), (2, 1)].into());
    }
}
