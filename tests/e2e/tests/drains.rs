//! Cordons and drains, and the three ways in which a drain ends.

use polder_api::dto::{DrainState, JobStatus, PartState, TaskPhase};
use polder_e2e::{Cluster, Options, Task, eventually, turn};

/// It goes on after its stop signal until it is killed.
const STUBBORN: &str = "[env]\nDEMO_IGNORE_STOP = \"1\"\n[stop]\ngrace = \"10m\"";

fn cluster() -> Cluster {
    Cluster::start(&Options { regions: 1, ..Options::default() })
}

fn apply(cluster: &Cluster, file: &str) {
    cluster.must(&["apply", "-f", file, "--wait", "--timeout", "120s"]);
}

fn on(tasks: &[Task], host: &str) -> Vec<Task> {
    tasks.iter().filter(|task| task.host == host).cloned().collect()
}

fn drain_state(cluster: &Cluster, host: &str) -> Option<DrainState> {
    cluster.host(host)?.drain.map(|drain| drain.state)
}

fn health(cluster: &Cluster, host: &str) -> String {
    let table = cluster.must(&["hosts"]).stdout;
    table.lines().find(|line| line.starts_with(&format!("{host} "))).unwrap_or_else(|| panic!("{table}")).to_owned()
}

fn waits(status: &JobStatus) -> Vec<String> {
    status.tasks.iter().filter_map(|task| task.waiting.as_ref().map(|wait| wait.message.clone())).collect()
}

#[test]
fn drained_means_gone() {
    let Some(_turn) = turn("drains::drained_means_gone") else { return };
    let cluster = cluster();
    // One that takes its time, and not all may stop at once.
    let job = cluster.job("web", 4, "", "[env]\nDEMO_STOP_SECS = \"1\"\n[update]\nmax_unavailable = 1");
    apply(&cluster, &job);
    let before = cluster.tasks("web");
    let away = on(&before, "r1-h1");
    assert_eq!(away.len(), 2);

    let answer = cluster.cli(&["drain", "r1-h1", "--deadline", "10m", "--reason", "new kernel", "--wait"]);
    let left = cluster.processes_on("r1-h1");
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(left.is_empty(), "`drained` was said while processes were left: {left:?}");
    assert!(away.iter().all(|task| !task.lives()));
    for task in &away {
        assert!(answer.stdout.contains(&format!("{} moved to r1-h2", task.id)), "{answer:?}");
    }
    assert!(answer.stdout.ends_with("r1-h1 is drained\n"), "{answer:?}");
    assert!(health(&cluster, "r1-h1").contains("ready,drained"));
    cluster.await_state("web", PartState::Healthy);
    let after = cluster.tasks("web");
    assert_eq!(on(&after, "r1-h2").len(), 4);
    assert_eq!(
        on(&before, "r1-h2"),
        after.iter().filter(|task| !away.iter().any(|old| old.id == task.id)).cloned().collect::<Vec<_>>()
    );

    // It stays empty until somebody opens it. A second drain has nothing to do.
    let more = cluster.job("more", 2, "", "");
    apply(&cluster, &more);
    assert_eq!(on(&cluster.tasks("more"), "r1-h2").len(), 2);
    assert_eq!(cluster.cli(&["drain", "r1-h1", "--deadline", "10m", "--wait"]).code, 0);
    cluster.must(&["uncordon", "r1-h1"]);
    assert!(!health(&cluster, "r1-h1").contains("drained"));
    let last = cluster.job("last", 2, "", "");
    apply(&cluster, &last);
    assert_eq!(on(&cluster.tasks("last"), "r1-h1").len(), 1, "new tasks are spread over both again");
    assert_eq!(cluster.tasks("web"), after, "nothing comes back by itself");

    // A cordon keeps new tasks away, and nothing else.
    cluster.must(&["stop", "test/more", "--wait"]);
    cluster.must(&["stop", "test/last", "--wait"]);
    let answer = cluster.must(&["cordon", "r1-h2"]);
    assert!(answer.stdout.contains("r1-h2 is cordoned") && answer.stdout.contains("4 tasks"), "{answer:?}");
    assert!(health(&cluster, "r1-h2").contains("ready,cordoned"));
    apply(&cluster, &more);
    assert_eq!(on(&cluster.tasks("more"), "r1-h1").len(), 2);
    assert_eq!(cluster.tasks("web"), after);
    cluster.must(&["uncordon", "r1-h2"]);
    assert!(!health(&cluster, "r1-h2").contains("cordoned"));

    // Misuse is told.
    for wrong in [&["cordon", "r1-h9"][..], &["drain", "r1-h9"], &["drain", "r1-h1", "--abort"]] {
        let answer = cluster.cli(wrong);
        assert_eq!(answer.code, 1, "{wrong:?}: {answer:?}");
        assert!(answer.stderr.starts_with("error:"), "{wrong:?}: {answer:?}");
    }
}

#[test]
fn what_does_not_stop_is_forced_at_the_deadline() {
    let Some(_turn) = turn("drains::what_does_not_stop_is_forced_at_the_deadline") else { return };
    let cluster = cluster();
    let job = cluster.job("web", 2, "", STUBBORN);
    apply(&cluster, &job);
    let before = on(&cluster.tasks("web"), "r1-h1");
    assert_eq!((before.len(), cluster.processes_on("r1-h1")), (1, vec![before[0].pid]));
    let answer = cluster.cli(&["drain", "r1-h1", "--deadline", "6s", "--wait"]);
    let left = cluster.processes_on("r1-h1");
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(left.is_empty(), "{left:?}");
    let forced = format!("{}@{}", before[0].id, before[0].epoch);
    assert!(answer.stderr.contains(&forced), "{answer:?}");
    assert!(answer.stderr.contains("stopped by force"), "{answer:?}");
    assert!(answer.stderr.contains("`forced`, not `drained`"), "{answer:?}");
    let drain = cluster.host("r1-h1").unwrap().drain.unwrap();
    assert_eq!(drain.state, DrainState::Forced);
    assert_eq!(drain.forced.iter().map(ToString::to_string).collect::<Vec<_>>(), [forced]);
    cluster.await_state("web", PartState::Healthy);
    assert_eq!(on(&cluster.tasks("web"), "r1-h2").len(), 2);
}

#[test]
fn a_silent_host_is_never_drained() {
    let Some(_turn) = turn("drains::a_silent_host_is_never_drained") else { return };
    let mut cluster = cluster();
    let job = cluster.job("web", 2, "replace_after = \"10m\"", "");
    apply(&cluster, &job);
    let before = on(&cluster.tasks("web"), "r1-h1");
    cluster.kill("r1-h1");
    eventually("the host is silent", || health(&cluster, "r1-h1").contains("silent").then_some(()));
    let answer = cluster.cli(&["drain", "r1-h1", "--deadline", "2s", "--wait"]);
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(answer.stderr.contains("nobody knows whether these still run there"), "{answer:?}");
    assert!(answer.stderr.contains(&before[0].id), "{answer:?}");
    assert!(answer.stderr.contains("`unattested`, not `drained`"), "{answer:?}");
    assert!(before[0].lives(), "a drain that nobody hears kills nothing");
    assert_eq!(drain_state(&cluster, "r1-h1"), Some(DrainState::Unattested));

    // Heard again, it is emptied, but that word came too late to make the drain a success.
    cluster.revive("r1-h1");
    eventually("the host is emptied", || cluster.processes_on("r1-h1").is_empty().then_some(()));
    cluster.await_state("web", PartState::Healthy);
    assert_eq!(on(&cluster.tasks("web"), "r1-h2").len(), 2);
    assert_eq!(drain_state(&cluster, "r1-h1"), Some(DrainState::Unattested));
    // A new drain is a new question.
    assert_eq!(cluster.cli(&["drain", "r1-h1", "--deadline", "10m", "--wait"]).code, 0);
    assert_eq!(drain_state(&cluster, "r1-h1"), Some(DrainState::Drained));
}

#[test]
fn an_agent_of_the_same_name_can_not_swear() {
    let Some(_turn) = turn("drains::an_agent_of_the_same_name_can_not_swear") else { return };
    let mut cluster = cluster();
    let job = cluster.job("web", 2, "replace_after = \"10m\"", "");
    apply(&cluster, &job);
    let before = cluster.tasks("web");
    let impostor = cluster.add_impostor("r1-h1");
    let refused = |cluster: &Cluster, why: &str| {
        let log = cluster.dir().join(format!("{impostor}.log"));
        eventually("the other agent is refused", || std::fs::read_to_string(&log).ok()?.contains(why).then_some(()));
    };
    refused(&cluster, "another agent");
    // Also when the first one is gone. It has nothing to list, and would swear to anything.
    cluster.kill("r1-h1");
    eventually("the host is silent", || health(&cluster, "r1-h1").contains("silent").then_some(()));
    refused(&cluster, "belongs to the agent with data folder");
    let answer = cluster.cli(&["drain", "r1-h1", "--deadline", "2s", "--wait"]);
    assert_eq!(answer.code, 2, "{answer:?}");
    assert_eq!(drain_state(&cluster, "r1-h1"), Some(DrainState::Unattested));
    assert!(before.iter().all(Task::lives), "nothing was moved or stopped");

    // Once a person has vouched for the old one, the name is free, and the old one does not get it back.
    let old = on(&before, "r1-h1");
    let data = cluster.dir().join("r1-h1").display().to_string();
    cluster.must(&["host", "purge", "--data", &data]);
    cluster.must(&["readmit", "r1-h1", "--reason", "new disk"]);
    eventually("the host is heard", || health(&cluster, "r1-h1").contains("ready").then_some(()));
    cluster.must(&["uncordon", "r1-h1"]);
    cluster.await_state("web", PartState::Healthy);
    assert!(!old[0].lives());
    cluster.revive("r1-h1");
    let log = cluster.dir().join("r1-h1.log");
    eventually("the old agent is refused", || {
        std::fs::read_to_string(&log).ok()?.contains("another agent").then_some(())
    });
}

#[test]
fn without_room_elsewhere_tasks_stay_until_the_deadline() {
    let Some(_turn) = turn("drains::without_room_elsewhere_tasks_stay_until_the_deadline") else { return };
    let cluster = Cluster::start(&Options { regions: 1, host_cpu: "0.2", ..Options::default() });
    let job = cluster.job("web", 4, "", "");
    apply(&cluster, &job);
    let before = cluster.tasks("web");
    let visible = |cluster: &Cluster| {
        eventually("the reason is shown", || {
            let status = cluster.status("web")?;
            let reasons = waits(&status);
            let shown = |text: &String| text.contains("1 being drained") && text.contains("1 not enough CPU");
            (reasons.iter().filter(|reason| shown(reason)).count() == 2).then_some(status)
        })
    };

    // Called off, nothing has happened.
    cluster.must(&["drain", "r1-h1", "--deadline", "10m"]);
    visible(&cluster);
    let why = cluster.must(&["why", &on(&before, "r1-h1")[0].id]).stdout;
    assert!(why.contains("waits for room to move to") && why.contains("not enough CPU"), "{why}");
    let answer = cluster.must(&["drain", "r1-h1", "--abort"]);
    assert!(answer.stdout.contains("aborted"), "{answer:?}");
    eventually("nothing waits any more", || waits(&cluster.status("web")?).is_empty().then_some(()));
    assert_eq!(cluster.tasks("web"), before);
    assert!(!health(&cluster, "r1-h1").contains("drain"));

    // At the deadline they have to go.
    let answer = cluster.cli(&["drain", "r1-h1", "--deadline", "5s", "--wait"]);
    assert_eq!(answer.code, 2, "{answer:?}");
    for task in on(&before, "r1-h1") {
        assert!(answer.stderr.contains(&format!("{}@{}", task.id, task.epoch)), "{answer:?}");
    }
    assert!(cluster.processes_on("r1-h1").is_empty());
    let status = visible(&cluster);
    assert_eq!(status.tasks.iter().filter(|task| task.phase == TaskPhase::Running).count(), 2);
    assert_eq!(on(&cluster.tasks("web"), "r1-h2"), on(&before, "r1-h2"));
    cluster.must(&["uncordon", "r1-h1"]);
    cluster.await_state("web", PartState::Healthy);
}
