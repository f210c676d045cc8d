//! A cluster seen through a real Prometheus: all that rules and dashboards ask for is there, and moves when it should.

use polder_api::dto::{DrainState, PartState};
use polder_e2e::{
    Cluster, Options, eventually,
    observed::{Prometheus, Setup, dashboards, missing_program, rules},
    turn,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// What stays as it is while nothing breaks that a test can't break from outside.
const STILL: [(&str, &str); 8] = [
    ("polder_actor_mailbox", "no actor is behind when it is looked at"),
    ("process_cpu_seconds_total", "counted in whole seconds, which an idle process does not use up"),
    ("polder_build_info", "the version that runs"),
    ("polder_capacity", "what hosts have"),
    ("process_max_fds", "what the system allows"),
    ("polder_actor_panics_total", "nothing panics"),
    ("polder_actor_restarts_total", "nothing panics, and no commit is in doubt"),
    ("polder_fencing_losses_total", "there is no second node that takes an actor"),
];

/// How often it is looked whether all that happened is shown.
const LOOKS_MAX: usize = 15;

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// Long enough for several scrapes.
fn linger() {
    thread::sleep(Duration::from_secs(4));
}

/// What happens to the cluster, so that everything that is shown has something to show.
fn make_things_happen(cluster: &mut Cluster) {
    cluster.must(&["quota", "set", "test", "--cpu", "8", "--memory", "8GiB", "--tasks", "12"]);
    let web = cluster.job("web", 4, "", "");
    cluster.must(&["apply", "-f", &web, "--wait", "--timeout", "120s"]);

    // Refused at the door; no room; a start that fails; a process that ends again and again.
    let large = cluster.job("large", 50, "", "");
    assert_eq!(cluster.cli(&["apply", "-f", &large]).code, 1, "over quota");
    let huge = cluster.job("huge", 1, "", "");
    fs::write(&huge, fs::read_to_string(&huge).unwrap().replace("cpu = 0.1", "cpu = 6")).unwrap();
    cluster.must(&["apply", "-f", &huge]);
    let broken = cluster.job("broken", 1, "command = [\"/no/such/program\"]", "");
    cluster.must(&["apply", "-f", &broken]);
    let ending = cluster.job("ending", 1, "", "[env]\nDEMO_EXIT_AFTER_SECS = \"1\"\nDEMO_EXIT_CODE = \"3\"");
    cluster.must(&["apply", "-f", &ending]);
    eventually("the task waits for room", || {
        let waiting = cluster.status("huge")?.tasks.first()?.waiting.clone()?;
        waiting.message.contains("not enough CPU").then_some(())
    });
    linger();
    for job in ["test/huge", "test/broken", "test/ending"] {
        cluster.must(&["stop", job, "--wait"]);
    }

    // Two drains of a host: one is forced, one is not.
    let stubborn = cluster.job("stubborn", 2, "", "[env]\nDEMO_IGNORE_STOP = \"1\"\n[stop]\ngrace = \"12s\"");
    cluster.must(&["apply", "-f", &stubborn, "--wait", "--timeout", "120s"]);
    assert_eq!(cluster.cli(&["drain", "r1-h1", "--deadline", "5s", "--wait"]).code, 2, "forced");
    cluster.must(&["uncordon", "r1-h1"]);
    cluster.must(&["delete", "test/stubborn", "--stop", "--timeout", "120s"]);
    assert_eq!(cluster.cli(&["drain", "r1-h1", "--deadline", "2m", "--wait"]).code, 0, "drained");
    cluster.must(&["cordon", "r1-h2"]);
    linger();
    cluster.must(&["uncordon", "r1-h1"]);
    cluster.must(&["uncordon", "r1-h2"]);

    // The federation is gone for a while; then the region: its hosts have no link, the federation does not hear it.
    cluster.kill("federation");
    linger();
    cluster.revive("federation");
    cluster.await_state("web", PartState::Healthy);
    cluster.must(&["quota", "set", "test", "--cpu", "9", "--memory", "9GiB", "--tasks", "14"]);
    cluster.kill("r1");
    // What needs the region fails meanwhile: of the API's promise something is broken.
    for _ in 0..2 {
        linger();
        assert_eq!(cluster.cli(&["drain", "r1-h2"]).code, 2);
    }
    linger();
    cluster.revive("r1");
    cluster.await_state("web", PartState::Healthy);
    // A host is gone.
    cluster.kill_host("r1-h1");
    eventually("the host is silent", || {
        cluster
            .must(&["hosts"])
            .stdout
            .lines()
            .any(|line| line.starts_with("r1-h1 ") && line.contains("silent"))
            .then_some(())
    });
    // Nobody can swear that it is empty, so its drain is overdue.
    cluster.must(&["drain", "r1-h1", "--deadline", "1s"]);
    linger();
    linger();
    cluster.revive("r1-h1");
    eventually("the drain has ended", || (cluster.host("r1-h1")?.drain?.state != DrainState::Draining).then_some(()));
    cluster.must(&["uncordon", "r1-h1"]);
    cluster.await_state("web", PartState::Healthy);
}

/// Waits until all that discovery should give is scraped: by job, how many targets answer.
fn await_targets(prometheus: &Prometheus, wanted: &[(&str, usize)]) {
    let wanted: BTreeMap<String, usize> = wanted.iter().map(|(job, count)| ((*job).to_owned(), *count)).collect();
    eventually(&format!("targets answer: {wanted:?}"), || {
        let mut up: BTreeMap<String, usize> = BTreeMap::new();
        for target in prometheus.targets() {
            if target["health"] == "up" {
                *up.entry(target["labels"]["job"].as_str()?.to_owned()).or_default() += 1;
            }
        }
        (up == wanted).then_some(())
    });
}

#[test]
fn every_query_of_rules_and_dashboards_answers_and_moves() {
    const NAME: &str = "observed::every_query_of_rules_and_dashboards_answers_and_moves";
    let Some(_turn) = turn(NAME) else { return };
    if let Some(program) = missing_program(&["prometheus"]) {
        eprintln!("SKIP {NAME}: {program} is not installed; `make deps` installs it");
        return;
    }
    let mut cluster = Cluster::start(&Options { regions: 1, ..Options::default() });
    let federation = cluster.addr().trim_start_matches("http://").to_owned();
    let folder = cluster.dir().join("prometheus");
    fs::create_dir(&folder).unwrap();
    let prometheus = Prometheus::start(&Setup {
        folder,
        federation: &federation,
        targets: cluster.targets(),
        alertmanager: None,
        hasty: false,
    });
    await_targets(&prometheus, &[("polder-federation", 1), ("polder-region", 1), ("polder-host", 2)]);
    let from = now();
    make_things_happen(&mut cluster);
    await_targets(&prometheus, &[("polder-federation", 1), ("polder-region", 1), ("polder-host", 2)]);

    // What is asked for: queries of dashboards, recorded series, and every series that an alert looks at.
    let mut asked: BTreeMap<String, (String, bool)> = BTreeMap::new();
    for query in dashboards().iter().flat_map(|dashboard| dashboard.queries()) {
        asked.insert(query.expr(), (query.place, true));
    }
    for rule in rules() {
        if rule.is_alert {
            for selector in rule.selectors() {
                asked.entry(selector.query()).or_insert_with(|| (rule.name.clone(), false));
            }
        } else {
            asked.insert(rule.name.clone(), (rule.name, true));
        }
    }
    // A task's port is scraped when its job asks for that, which is shown elsewhere.
    asked.remove("up{job=\"polder-task\"}");
    let still = |query: &str| STILL.iter().any(|(metric, _)| query.contains(metric));
    let mut wrong = BTreeSet::new();
    for _ in 0..LOOKS_MAX {
        let to = now();
        wrong.clear();
        for (query, (place, must_move)) in &asked {
            let history = prometheus.history(query, from, to);
            if history.iter().all(Vec::is_empty) {
                wrong.insert(format!("{place}: no data: {query}"));
            } else if *must_move && !still(query) && !history.iter().any(|series| moves(series, from, to)) {
                wrong.insert(format!("{place}: nothing moves: {query}"));
            }
        }
        if wrong.is_empty() {
            break;
        }
        // What was scraped last may not be recorded yet.
        thread::sleep(Duration::from_secs(1));
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        asked.len(),
        wrong.into_iter().collect::<Vec<_>>().join("\n")
    );

    // A rule that Prometheus could not evaluate would be silent.
    assert_eq!(prometheus.broken_rules(), [""; 0]);
}

/// Whether a series has had two values, or came or went on the way.
fn moves(series: &[(f64, f64)], from: f64, to: f64) -> bool {
    /// Longer than what is scraped takes to be seen.
    const SLACK_SECS: f64 = 8.0;
    let (Some((first, value)), Some((last, _))) = (series.first(), series.last()) else { return false };
    let changed = series.iter().any(|(_, other)| other.to_bits() != value.to_bits());
    changed || first - from > SLACK_SECS || to - last > SLACK_SECS
}
