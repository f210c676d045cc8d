//! A job that fits nowhere shows why, by reason and count of hosts.

use polder_api::dto::{PartState, TaskPhase, WhyView};
use polder_e2e::{Cluster, Options, eventually, turn};

/// Applies a job that will not become healthy, and gives what was said on stderr.
fn apply_in_vain(cluster: &Cluster, file: &str) -> String {
    let answer = cluster.cli(&["apply", "-f", file, "--wait", "--timeout", "4s"]);
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(answer.stdout.contains("applied, generation"), "{answer:?}");
    assert!(answer.stderr.contains("is not healthy after 4s"), "{answer:?}");
    assert!(answer.stderr.contains("`polder status"), "says what to do next: {answer:?}");
    answer.stderr
}

fn why(cluster: &Cluster, task: &str) -> WhyView {
    serde_json::from_str(&cluster.must(&["why", task, "-o", "json"]).stdout).unwrap()
}

fn rejected(why: &WhyView) -> Vec<(&str, u32)> {
    why.rejected.iter().map(|rejection| (rejection.reason.as_str(), rejection.hosts)).collect()
}

#[test]
fn a_job_that_fits_nowhere_shows_why() {
    let Some(_turn) = turn("explain::a_job_that_fits_nowhere_shows_why") else { return };
    let cluster = Cluster::start(&Options { regions: 1, hosts: 3, ..Options::default() });
    // Too large for every host.
    let huge = cluster.job("huge", 2, "", "");
    let text = std::fs::read_to_string(&huge).unwrap().replace("cpu = 0.1", "cpu = 64");
    std::fs::write(&huge, text).unwrap();
    let reason = "none of 3 hosts can take it: 3 not enough CPU";
    let said = apply_in_vain(&cluster, &huge);
    assert!(said.contains("r1: degraded, 0 of 2 ready: 2 waiting: no room"), "{said}");
    assert!(said.contains(&format!("test/huge/0: {reason}")) && said.contains("test/huge/1: "), "{said}");
    let status = cluster.status("huge").unwrap();
    assert_eq!(status.state, PartState::Degraded);
    assert!(status.tasks.iter().all(|task| task.phase == TaskPhase::Waiting));
    let text = cluster.must(&["status", "test/huge"]).stdout;
    assert_eq!(text.lines().filter(|line| line.contains(reason)).count(), 2, "{text}");
    assert!(text.contains("2 waiting: no room"), "{text}");
    let one = why(&cluster, "test/huge/1");
    assert_eq!((one.considered, rejected(&one)), (3, vec![("cpu", 3)]));
    assert!(one.summary.contains(reason), "{one:?}");
    let text = cluster.must(&["why", "test/huge/1"]).stdout;
    assert!(text.contains("looked at 3 hosts") && text.contains("3      not enough CPU"), "{text}");

    // Each host for a reason of its own.
    cluster.must(&["cordon", "r1-h1"]);
    cluster.must(&["drain", "r1-h2", "--deadline", "10m", "--wait"]);
    let mixed = cluster.job("mixed", 1, "constraints = { rack = \"r1-b-1\" }", "");
    let said = apply_in_vain(&cluster, &mixed);
    for part in ["none of 3 hosts can take it", "1 cordoned", "1 being drained", "1 labels don't match the constraints"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    let one = why(&cluster, "test/mixed/0");
    assert_eq!(one.considered, 3);
    let mut reasons = rejected(&one);
    reasons.sort_unstable();
    assert_eq!(reasons, [("constraint", 1), ("cordoned", 1), ("draining", 1)]);

    // What is in the way goes away: the task goes, and says why it is where it is.
    cluster.must(&["uncordon", "r1-h2"]);
    cluster.await_state("mixed", PartState::Healthy);
    let one = why(&cluster, "test/mixed/0");
    assert_eq!(one.host.as_ref().map(ToString::to_string).as_deref(), Some("r1-h2"));
    assert!(one.summary.starts_with("on r1-h2: "), "{one:?}");
    assert!(one.waiting.is_none());

    // A silent host counts too.
    let answer = cluster.cli(&["why", "test/mixed/7"]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.stderr.contains("has tasks 0 to 0"), "{answer:?}");
}

#[test]
fn a_region_without_hosts_says_so() {
    let Some(_turn) = turn("explain::a_region_without_hosts_says_so") else { return };
    let cluster = Cluster::start(&Options { regions: 1, hosts: 0, ..Options::default() });
    let job = cluster.job("web", 1, "", "");
    eventually("the job is accepted", || (cluster.cli(&["apply", "-f", &job]).code == 0).then_some(()));
    eventually("the reason is known", || {
        let status = cluster.status("web")?;
        status
            .tasks
            .first()?
            .waiting
            .as_ref()
            .filter(|wait| wait.message.starts_with("the region has no host; then: "))
            .map(|_| ())
    });
    let answer = cluster.cli(&["apply", "-f", &job, "--wait", "--timeout", "2s"]);
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(answer.stderr.contains("test/web/0: the region has no host; then: "), "{answer:?}");
    let text = cluster.must(&["why", "test/web/0"]).stdout;
    assert!(text.contains("the region has no host") && !text.contains("of 0"), "{text}");
    let hosts = cluster.must(&["hosts"]);
    assert!(hosts.stdout.starts_with("HOST"), "{hosts:?}");
}
