//! Hosts and regions that are gone, and those that only seem to be.

use polder_api::dto::{HostHealth, JobStatus, PartState, TaskPhase, TaskView};
use polder_e2e::{Cluster, Options, Task, eventually, turn};
use polder_types::Millis;
use serde_json::Value;
use std::collections::BTreeMap;

/// Long enough to see what holds before, also on a busy machine.
const REPLACE_AFTER: Millis = Millis::from_secs(10);
const TASKS: u32 = 4;

/// Two hosts of one region with a job over both, and an account that may have just as many tasks.
fn cluster_with_job() -> Cluster {
    let cluster = Cluster::start(&Options { regions: 1, ..Options::default() });
    cluster.must(&["quota", "set", "test", "--cpu", "10", "--memory", "10GiB", "--tasks", &TASKS.to_string()]);
    let job = cluster.job("web", TASKS, &format!("replace_after = \"{REPLACE_AFTER}\""), "");
    cluster.must(&["apply", "-f", &job, "--wait", "--timeout", "120s"]);
    assert_eq!(on(&cluster.tasks("web"), "r1-h1").len(), 2, "tasks are spread");
    cluster
}

fn on<'t>(tasks: &'t [Task], host: &str) -> Vec<&'t Task> {
    tasks.iter().filter(|task| task.host == host).collect()
}

fn tasks_charged(cluster: &Cluster, host: &str) -> u32 {
    cluster.host(host).map_or(0, |host| host.tasks)
}

/// What the quota counts, once the region has said it anew.
fn quota_used(cluster: &Cluster) -> u64 {
    let at = |quota: &Value| quota["regions"][0]["as_of"].as_u64().unwrap_or_default();
    let before = at(&cluster.quota());
    let quota = eventually("the region says what its accounts use", || {
        Some(cluster.quota()).filter(|quota| at(quota) > before)
    });
    quota["used"]["tasks"].as_u64().unwrap()
}

/// Waits until the tasks of a silent host run elsewhere. Before that they must have been seen as they are: unknown, with
/// the container that they had.
fn await_replacement(cluster: &Cluster, host: &str, before: &[Task]) -> Vec<Task> {
    let lost: BTreeMap<&str, &Task> = on(before, host).into_iter().map(|task| (task.id.as_str(), task)).collect();
    let of_lost = |status: &JobStatus| {
        let tasks = status.tasks.iter().filter(|task| lost.contains_key(task.task.to_string().as_str()));
        tasks.cloned().collect::<Vec<TaskView>>()
    };
    let mut seen_unknown = false;
    let status = eventually(&format!("the tasks of {host} run elsewhere"), || {
        let status = cluster.status("web")?;
        let tasks = of_lost(&status);
        let unknown = |task: &TaskView| {
            let waits = task.waiting.as_ref().is_some_and(|wait| wait.message.contains("is not heard"));
            let same = lost[task.task.to_string().as_str()].epoch == task.epoch.0;
            task.phase == TaskPhase::Unknown && waits && same
        };
        seen_unknown |= tasks.iter().all(unknown);
        let runs = |task: &TaskView| {
            task.phase == TaskPhase::Running && task.host.as_ref().is_some_and(|now| now.as_str() != host)
        };
        tasks.iter().all(runs).then_some(status)
    });
    assert!(seen_unknown, "nobody was told that the tasks are unknown before they were replaced");
    let silent = cluster.host(host).unwrap();
    assert_eq!(silent.health, HostHealth::Unknown);
    for task in of_lost(&status) {
        let (id, silence) = (task.task.to_string(), task.since.since(silent.last_heard));
        assert!(silence >= REPLACE_AFTER, "{id} was started {silence} after its host was last heard");
        assert!(task.epoch.0 > lost[id.as_str()].epoch, "{id} has an epoch of its own");
    }
    let after = cluster.tasks("web");
    let others = |tasks: &[Task]| tasks.iter().filter(|task| !lost.contains_key(task.id.as_str())).cloned().collect();
    let (were, are): (Vec<Task>, Vec<Task>) = (others(before), others(&after));
    assert_eq!(were, are, "tasks of the other host are left alone");
    after
}

#[test]
fn a_lost_host_is_replaced_after_its_time() {
    let Some(_turn) = turn("host_loss::a_lost_host_is_replaced_after_its_time") else { return };
    let mut cluster = cluster_with_job();
    let before = cluster.tasks("web");
    cluster.kill_host("r1-h1");
    assert!(on(&before, "r1-h1").iter().all(|task| !task.lives()), "the whole host is gone");

    let after = await_replacement(&cluster, "r1-h1", &before);
    assert_eq!(on(&after, "r1-h2").len(), 4);
    // Nobody can know that they are gone: they stay charged to their host, and the quota counts each task once.
    assert_eq!((tasks_charged(&cluster, "r1-h1"), tasks_charged(&cluster, "r1-h2")), (2, 4));
    assert_eq!(quota_used(&cluster), u64::from(TASKS));

    // It comes back with nothing: what was charged to it is let go, and nothing else happens.
    cluster.revive("r1-h1");
    eventually("the host's charges are let go", || (tasks_charged(&cluster, "r1-h1") == 0).then_some(()));
    cluster.await_state("web", PartState::Healthy);
    assert_eq!(cluster.tasks("web"), after);
    assert_eq!(quota_used(&cluster), u64::from(TASKS));
}

#[test]
fn a_silent_host_keeps_its_containers_until_it_is_heard() {
    let Some(_turn) = turn("host_loss::a_silent_host_keeps_its_containers_until_it_is_heard") else { return };
    let mut cluster = cluster_with_job();
    let before = cluster.tasks("web");
    cluster.pause("r1-h1");

    let after = await_replacement(&cluster, "r1-h1", &before);
    let old = on(&before, "r1-h1");
    assert!(old.iter().all(|task| task.lives()), "nobody touched what runs on the silent host");
    assert_eq!((tasks_charged(&cluster, "r1-h1"), tasks_charged(&cluster, "r1-h2")), (2, 4));
    assert_eq!(quota_used(&cluster), u64::from(TASKS));
    let table = cluster.must(&["hosts"]).stdout;
    assert!(table.lines().any(|line| line.starts_with("r1-h1") && line.contains("silent")), "{table}");

    cluster.resume("r1-h1");
    eventually("the old containers are stopped", || old.iter().all(|task| !task.lives()).then_some(()));
    eventually("their charges are let go", || (tasks_charged(&cluster, "r1-h1") == 0).then_some(()));
    cluster.await_state("web", PartState::Healthy);
    assert_eq!(cluster.tasks("web"), after, "the newer containers run on");
    assert_eq!(quota_used(&cluster), u64::from(TASKS));
    cluster.must(&["stop", "test/web", "--wait"]);
    eventually("nothing is charged any more", || (quota_used(&cluster) == 0).then_some(()));
}

#[test]
fn containers_outlive_their_region() {
    let Some(_turn) = turn("host_loss::containers_outlive_their_region") else { return };
    let mut cluster = Cluster::start(&Options { hosts: 1, ..Options::default() });
    let job = cluster.job("web", TASKS, "", "");
    cluster.must(&["apply", "-f", &job, "--wait", "--timeout", "120s"]);
    let before = cluster.tasks("web");
    assert_eq!((on(&before, "r1-h1").len(), on(&before, "r2-h1").len()), (2, 2));

    cluster.kill("r2");
    let status = eventually("the region is unknown", || {
        let status = cluster.status("web")?;
        let part = status.regions.iter().find(|part| part.region.as_str() == "r2")?;
        (part.state == PartState::Unknown).then_some(status)
    });
    assert_eq!(status.regions[0].state, PartState::Healthy, "the other region is what it was");
    assert!(status.regions[1].as_of.0 > 0, "the answer says how old it is");
    assert_eq!(status.regions[1].wanted, 2, "it keeps its share");
    for task in status.tasks.iter().filter(|task| task.region.as_str() == "r2") {
        assert_eq!(task.phase, TaskPhase::Unknown);
    }
    assert_eq!(status.tasks.len(), 4);
    let text = cluster.must(&["status", "test/web"]).stdout;
    let line = text.lines().find(|line| line.starts_with("r2 ")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("unknown") && line.contains(" ago") && line.contains("r2 is not heard"), "{line}");
    let answer = cluster.must(&["hosts"]);
    assert!(answer.stderr.contains("r2 is not heard"), "{answer:?}");
    // What needs the region says so; what does not goes on.
    let answer = cluster.cli(&["drain", "r2-h1"]);
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(answer.stderr.contains("region r2"), "{answer:?}");
    assert!(before.iter().all(Task::lives), "containers need no region");

    cluster.revive("r2");
    cluster.await_state("web", PartState::Healthy);
    assert_eq!(cluster.tasks("web"), before);
}
