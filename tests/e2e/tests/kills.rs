//! Fifty kills: `kill -9` of agents, regions and the federation, at random points of apply, update, drain and stop.
//!
//! The seed is printed; `POLDER_SEED` sets it.

use polder_api::dto::{PartState, TaskPhase};
use polder_e2e::{Cluster, Options, Task, eventually, turn};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};
use std::{collections::BTreeMap, time::Duration};

const KILLS: usize = 50;
/// Tasks of the job that is worked on, and of the one that nobody touches.
const TASKS: u32 = 6;
const UNTOUCHED: u32 = 2;

/// Kills processes at random moments, and starts each again after a random while.
struct Chaos {
    dice: StdRng,
    kills: BTreeMap<String, usize>,
}

impl Chaos {
    fn total(&self) -> usize {
        self.kills.values().sum()
    }

    fn strike(&mut self, cluster: &mut Cluster) {
        std::thread::sleep(Duration::from_millis(self.dice.random_range(0..800)));
        let name = cluster.names().choose(&mut self.dice).cloned().unwrap();
        cluster.kill(&name);
        std::thread::sleep(Duration::from_millis(self.dice.random_range(0..500)));
        cluster.revive(&name);
        *self.kills.entry(name).or_default() += 1;
    }
}

/// A command that may find its server dead is repeated, as its user would.
fn insist(cluster: &Cluster, args: &[&str]) {
    eventually(&format!("polder {args:?} gets through"), || (cluster.cli(args).code == 0).then_some(()));
}

fn settled(cluster: &Cluster, job: &str, count: u32) -> Vec<Task> {
    cluster.await_state(job, PartState::Healthy);
    eventually("every task runs", || {
        let tasks = cluster.tasks(job);
        (u32::try_from(tasks.len()) == Ok(count) && tasks.iter().all(|task| task.started.is_some())).then_some(tasks)
    })
}

/// Nothing of the job runs beside what its status says: by the environment that every container has.
fn processes_of(job: &str) -> BTreeMap<String, Vec<u32>> {
    let mut found: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let environment = String::from_utf8_lossy(&environment).into_owned();
        let of_job = environment.split('\0').any(|entry| entry == format!("POLDER_JOB=test/{job}"));
        if of_job && let Some(task) = environment.split('\0').find_map(|entry| entry.strip_prefix("POLDER_TASK=")) {
            found.entry(task.to_owned()).or_default().push(pid);
        }
    }
    found
}

#[test]
fn nothing_is_lost_doubled_or_restarted() {
    let Some(_turn) = turn("kills::nothing_is_lost_doubled_or_restarted") else { return };
    let seed = std::env::var("POLDER_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(7);
    eprintln!("seed {seed}");
    let mut chaos = Chaos { dice: StdRng::seed_from_u64(seed), kills: BTreeMap::new() };
    let mut cluster = Cluster::start(&Options { hosts: 3, ..Options::default() });
    let mut version = 1;
    let file = |cluster: &Cluster, version: u32| {
        cluster.job("web", TASKS, "", &format!("[env]\nDEMO_VERSION = \"{version}\""))
    };

    // A control: a job that nobody touches keeps every process through all of it.
    let control = cluster.job("control", UNTOUCHED, "", "");
    cluster.must(&["apply", "-f", &control, "--wait", "--timeout", "120s"]);
    let untouched = settled(&cluster, "control", UNTOUCHED);
    let by_id = |tasks: &[Task]| tasks.iter().map(|task| (task.id.clone(), task.clone())).collect::<BTreeMap<_, _>>();
    let untouched = by_id(&untouched);

    while chaos.total() < KILLS {
        // Apply.
        let job = file(&cluster, version);
        insist(&cluster, &["apply", "-f", &job]);
        for _ in 0..3 {
            chaos.strike(&mut cluster);
        }
        let before = settled(&cluster, "web", TASKS);

        // Idle: a kill of anything changes nothing.
        for _ in 0..4 {
            chaos.strike(&mut cluster);
        }
        let after = settled(&cluster, "web", TASKS);
        assert_eq!(before, after, "a kill restarted something; seed {seed}\n{}", cluster.logs());

        // Update.
        version += 1;
        let job = file(&cluster, version);
        insist(&cluster, &["apply", "-f", &job]);
        for _ in 0..3 {
            chaos.strike(&mut cluster);
        }
        settled(&cluster, "web", TASKS);

        // Drain a host without tasks of the untouched job; then open it again.
        let busy: Vec<String> = untouched.values().map(|task| task.host.clone()).collect();
        let hosts = cluster.hosts().hosts;
        let idle: Vec<String> =
            hosts.iter().map(|host| host.id.to_string()).filter(|host| !busy.contains(host)).collect();
        let host = idle.choose(&mut chaos.dice).cloned().unwrap();
        insist(&cluster, &["drain", &host, "--deadline", "120s"]);
        for _ in 0..2 {
            chaos.strike(&mut cluster);
        }
        eventually("the host is drained", || {
            (cluster.cli(&["drain", &host, "--deadline", "120s", "--wait"]).code == 0).then_some(())
        });
        insist(&cluster, &["uncordon", &host]);
        settled(&cluster, "web", TASKS);

        // Stop.
        insist(&cluster, &["stop", "test/web"]);
        chaos.strike(&mut cluster);
        cluster.await_state("web", PartState::Stopped);
        eventually("no process of the stopped job is left", || processes_of("web").is_empty().then_some(()));

        let now = by_id(&settled(&cluster, "control", UNTOUCHED));
        assert_eq!(untouched, now, "an untouched job changed; seed {seed}\n{}", cluster.logs());
        let doubled: Vec<_> = processes_of("control").into_iter().filter(|(_, pids)| pids.len() != 1).collect();
        assert!(doubled.is_empty(), "not one process each: {doubled:?}");
    }
    eprintln!("kills: {:?}", chaos.kills);
    let status = cluster.status("control").unwrap();
    assert!(status.tasks.iter().all(|task| task.phase == TaskPhase::Running && task.restarts == 0));
}
