//! One actor: the order of effects, and what survives.

mod toy;

use polder_shell::{ActorState, Commit, QueryError, RestoreError};
use polder_types::{Millis, Timestamp};
use toy::{Disk, EPOCH, Event, MENDS, add, settle, spawn, tree, until};

fn conflict() -> Commit {
    Commit::Conflict { what: "a newer epoch".to_owned() }
}

fn unknown() -> Commit {
    Commit::Unknown { what: "the connection broke".to_owned() }
}

#[actix::test]
async fn what_must_wait_waits_for_the_commit_and_the_machine_steps_on() {
    let (tree, disk) = (tree(), Disk::default());
    disk.hold();
    let toy = spawn(&tree, "toy", &disk);
    assert!(toy.ready().await);
    toy.port().try_send(add(1, 5)).unwrap();
    settle().await;
    assert_eq!(disk.log(), ["awake", "now 1+5"]);

    // These two step while the first commit is under way, and share the next one.
    toy.port().try_send(add(1, 6)).unwrap();
    toy.port().try_send(add(2, 7)).unwrap();
    toy.port().try_send(Event::Say("last")).unwrap();
    settle().await;
    assert_eq!(disk.held(), 1);
    assert_eq!(toy.query(|machine| machine.total).await.unwrap(), 18);
    assert_eq!(disk.log()[2..], ["now 1+6", "now 2+7"]);

    disk.answer(0, Commit::Committed);
    settle().await;
    assert_eq!(disk.log()[4..], ["after 1+5"]);
    disk.answer(0, Commit::Committed);
    settle().await;
    assert_eq!(disk.log()[5..], ["after 1+6", "after 2+7", "last"]);
    assert_eq!(disk.groups(), [1, 2]);
    assert_eq!(disk.durable(), [(1, 11), (2, 7)].into());
    let status = toy.status();
    assert_eq!((status.counts.commits, status.counts.restarts), (2, 0));
}

#[actix::test]
async fn commits_overlap_where_the_journal_allows_it_and_effects_keep_their_order() {
    let (tree, disk) = (tree(), Disk::default());
    disk.hold();
    disk.depth(3);
    let toy = spawn(&tree, "toy", &disk);
    for amount in 1..=3 {
        toy.port().try_send(add(1, amount)).unwrap();
        settle().await;
    }
    assert_eq!(disk.held(), 3);
    disk.answer(2, Commit::Committed);
    disk.answer(1, Commit::Committed);
    settle().await;
    assert!(!disk.log().iter().any(|said| said.starts_with("after")), "the first is not durable yet");
    disk.answer(0, Commit::Committed);
    settle().await;
    assert_eq!(disk.log()[4..], ["after 1+1", "after 1+2", "after 1+3"]);
}

#[actix::test]
async fn a_conflict_restores_and_releases_nothing() {
    restores_after(conflict(), "conflict").await;
}

#[actix::test]
async fn an_unknown_answer_restores_and_releases_nothing() {
    restores_after(unknown(), "unknown").await;
}

async fn restores_after(answer: Commit, reason: &str) {
    let (tree, disk) = (tree(), Disk::default());
    disk.script([Commit::Committed, answer]);
    let toy = spawn(&tree, "toy", &disk);
    toy.port().try_send(add(1, 5)).unwrap();
    settle().await;
    toy.port().try_send(add(1, 6)).unwrap();
    until("restored", || disk.reasons().len() == 2).await;
    assert!(toy.ready().await);
    assert_eq!(toy.query(|machine| machine.total).await.unwrap(), 5);
    toy.port().try_send(add(2, 1)).unwrap();
    settle().await;
    assert_eq!(disk.reasons(), ["started", reason]);
    assert_eq!(
        disk.log(),
        ["awake", "now 1+5", "after 1+5", "now 1+6", "awake", "now 2+1", "after 2+1"],
        "after 1+6 must never be seen"
    );
    let status = toy.status();
    assert_eq!((status.counts.restarts, status.counts.panics), (1, 0));
    assert_eq!(status.counts.conflicts + status.counts.unknowns, 1);
    assert!(status.last_error.is_some());
}

#[actix::test]
async fn nothing_is_restored_while_a_commit_is_under_way() {
    let (tree, disk) = (tree(), Disk::default());
    disk.hold();
    disk.depth(2);
    let toy = spawn(&tree, "toy", &disk);
    toy.port().try_send(add(1, 1)).unwrap();
    settle().await;
    toy.port().try_send(add(1, 2)).unwrap();
    settle().await;
    disk.answer(0, unknown());
    settle().await;
    assert_eq!(disk.reasons(), ["started"], "the second may still land");
    disk.answer(0, Commit::Committed);
    until("restored", || disk.reasons().len() == 2).await;
    assert!(toy.ready().await);
    assert_eq!(toy.query(|machine| machine.total).await.unwrap(), 2);
    assert!(!disk.log().contains(&"after 1+2".to_owned()), "what follows a failure is not released");
}

#[actix::test]
async fn a_commit_that_is_never_answered_counts_as_unknown() {
    let (tree, disk) = (tree(), Disk::default());
    disk.hold();
    let toy = spawn(&tree, "toy", &disk);
    toy.port().try_send(add(1, 1)).unwrap();
    until("given up", || disk.reasons().len() == 2).await;
    assert_eq!(disk.reasons()[1], "unknown");
    assert_eq!(toy.status().counts.unknowns, 1);
}

#[actix::test]
async fn a_panic_takes_the_half_change_with_it_and_nothing_else() {
    let (tree, disk) = (tree(), Disk::default());
    let toy = spawn(&tree, "toy", &disk);
    for event in [add(1, 5), Event::Poison { key: 13 }, add(2, 6)] {
        toy.port().try_send(event).unwrap();
    }
    until("all handled", || disk.durable().len() == 2).await;
    assert_eq!(disk.durable(), [(1, 5), (2, 6)].into());
    assert_eq!(toy.query(|machine| machine.sums.clone()).await.unwrap(), [(1, 5), (2, 6)].into());
    assert_eq!(disk.reasons(), ["started", "panicked"]);
    assert_eq!(disk.panics(), ["job 13 is poisoned"]);
    let status = toy.status();
    assert_eq!((status.state, status.counts.panics, status.counts.restarts), (ActorState::Running, 1, 1));
    assert!(status.last_error.unwrap().contains("job 13 is poisoned"));
}

#[actix::test]
async fn one_key_is_quarantined_while_the_others_live() {
    let (tree, disk) = (tree(), Disk::default());
    let toy = spawn(&tree, "toy", &disk);
    for event in [Event::Poison { key: 13 }, Event::Poison { key: 13 }, add(13, 1), add(1, 5)] {
        toy.port().try_send(event).unwrap();
    }
    until("the healthy one is handled", || disk.durable().contains_key(&1)).await;
    assert_eq!(disk.durable(), [(1, 5)].into());
    assert_eq!((disk.quarantined(), disk.diverted()), (vec![13], vec![13]));
    assert_eq!(toy.status().state, ActorState::Quarantined { keys: vec!["13".to_owned()] });
    assert_eq!(toy.status().counts.diverted, 1);

    tree.release("toy", "13").await.unwrap();
    toy.port().try_send(add(13, 2)).unwrap();
    until("handled again", || disk.durable().contains_key(&13)).await;
    assert_eq!(toy.status().state, ActorState::Running);
}

#[actix::test]
async fn an_event_that_mends_ends_the_quarantine() {
    let (tree, disk) = (tree(), Disk::default());
    let toy = spawn(&tree, "toy", &disk);
    for event in [Event::Poison { key: 13 }, Event::Poison { key: 13 }, add(13, 1), add(13, MENDS), add(13, 2)] {
        toy.port().try_send(event).unwrap();
    }
    until("all that came after is handled", || disk.durable().get(&13) == Some(&(MENDS + 2))).await;
    assert_eq!((disk.quarantined(), disk.diverted()), (vec![13], vec![13]));
    assert_eq!(toy.status().state, ActorState::Running);
}

#[actix::test]
async fn a_restore_knows_what_to_leave_out_and_its_effects_come_first() {
    let (tree, disk) = (tree(), Disk::default());
    disk.announce();
    let toy = spawn(&tree, "toy", &disk);
    for _ in 0..2 {
        toy.port().try_send(Event::Poison { key: 13 }).unwrap();
    }
    until("quarantined", || disk.log().len() == 6).await;
    let restored = |keys: &str| [format!("restored after {keys}"), "awake".to_owned()];
    assert_eq!(disk.log(), [restored("{}"), restored("{}"), restored("{13}")].concat());
}

#[actix::test]
async fn a_broken_rule_restores_before_any_effect_is_seen() {
    let (tree, disk) = (tree(), Disk::default());
    let toy = spawn(&tree, "toy", &disk);
    for event in [add(1, 5), Event::Corrupt, add(1, 1)] {
        toy.port().try_send(event).unwrap();
    }
    until("handled", || disk.durable() == [(1, 6)].into()).await;
    assert_eq!(disk.reasons(), ["started", "violated"]);
    assert!(!disk.log().contains(&"must not be seen".to_owned()));
    assert_eq!(toy.status().counts.violations, 1);
}

#[actix::test]
async fn an_effect_that_panics_restores_and_keeps_the_step_durable() {
    let (tree, disk) = (tree(), Disk::default());
    let toy = spawn(&tree, "toy", &disk);
    toy.port().try_send(Event::BadEffect).unwrap();
    until("restored", || disk.reasons().len() == 2).await;
    assert!(toy.ready().await);
    assert_eq!(toy.query(|machine| machine.total).await.unwrap(), 1);
}

#[actix::test]
async fn the_timer_follows_the_machine() {
    let (tree, disk) = (tree(), Disk::default());
    let toy = spawn(&tree, "toy", &disk);
    toy.port().try_send(Event::Alarm { at: EPOCH + Millis::from_secs(3600) }).unwrap();
    settle().await;
    // An earlier one takes its place.
    toy.port().try_send(Event::Alarm { at: EPOCH + Millis::from_secs(60) }).unwrap();
    settle().await;
    assert_eq!(disk.log(), ["awake"]);
    until("rung", || disk.log().len() == 2).await;
    tokio::time::sleep(std::time::Duration::from_secs(7200)).await;
    // Tokio's clock counts in whole milliseconds from some fraction of one.
    let rung = disk.log();
    assert_eq!(rung.len(), 2, "once");
    assert!(["alarm at 1060000", "alarm at 1060001"].contains(&rung[1].as_str()), "{}", rung[1]);
    // One that is over already.
    toy.port().try_send(Event::Alarm { at: Timestamp(5) }).unwrap();
    until("rung", || disk.log().len() == 3).await;
}

#[actix::test]
async fn events_wait_while_the_state_cannot_be_read() {
    let (tree, disk) = (tree(), Disk::default());
    let down = || RestoreError::Unavailable { what: "no member answers".to_owned() };
    disk.fail_restore((0..30).map(|_| down()));
    let toy = spawn(&tree, "toy", &disk);
    toy.port().try_send(add(1, 5)).unwrap();
    until("some attempts", || disk.reasons().len() > 5).await;
    let status = toy.status();
    assert!(matches!(status.state, ActorState::Restoring { attempt: 5.. }), "{:?}", status.state);
    assert_eq!(status.mailbox.depth, 1);
    assert!(status.last_error.unwrap().contains("no member answers"));
    until("handled in the end", || disk.durable() == [(1, 5)].into()).await;
    assert_eq!(toy.status().state, ActorState::Running, "an outage of the store is no reason to give up");
    assert!(toy.status().mailbox.oldest_ms_max == 0 && toy.status().mailbox.depth == 0);
}

#[actix::test]
async fn a_full_inbox_refuses_and_shows_it() {
    let (tree, disk) = (tree(), Disk::default());
    disk.fail_restore([RestoreError::Unavailable { what: "not yet".to_owned() }]);
    let small = toy::options().capacity(4);
    let toy = tree.root().spawn("small", small, {
        let disk = disk.clone();
        move |_| toy::ToyRole(disk.clone())
    });
    let toy = toy.unwrap();
    for amount in 0..4 {
        toy.port().try_send(add(1, amount)).unwrap();
    }
    let refused = toy.port().try_send(add(2, 1)).unwrap_err();
    assert!(matches!(refused.into_event(), Event::Add { key: 2, amount: 1 }));
    let full = toy.status().mailbox;
    assert_eq!((full.depth, full.capacity, full.high_water, full.refused), (4, 4, 4, 1));
    // Waiting for room works as soon as the machine is there.
    toy.port().send(add(2, 1)).await.unwrap();
    until("handled", || disk.durable().contains_key(&2)).await;
    assert_eq!(toy.status().mailbox.depth, 0);
}

#[actix::test]
async fn a_query_that_panics_harms_nobody() {
    let (tree, disk) = (tree(), Disk::default());
    let toy = spawn(&tree, "toy", &disk);
    toy.port().try_send(add(1, 5)).unwrap();
    let failed = toy.query(|_| -> u32 { panic!("a bad question") }).await;
    assert_eq!(failed, Err(QueryError::Panicked));
    assert_eq!(toy.query(|machine| machine.total).await, Ok(5));
    assert_eq!(disk.reasons(), ["started"]);
    tree.stop("toy").await.unwrap();
    assert_eq!(toy.query(|machine| machine.total).await, Err(QueryError::Closed));
}
