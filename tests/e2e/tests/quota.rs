//! What an account may use: refused at the door, waited for inside, and shared out over regions.

use polder_api::{
    Code,
    client::Client,
    dto::PartState,
    job_file::{Format, parse},
};
use polder_e2e::{Cluster, Options, eventually, turn};
use serde_json::Value;
use std::fs;

fn set(cluster: &Cluster, account: &str, tasks: u32, more: &[&str]) {
    let tasks = tasks.to_string();
    let args = ["quota", "set", account, "--cpu", "8", "--memory", "8GiB", "--tasks", &tasks];
    cluster.must(&[&args[..], more].concat());
}

/// The code that a program gets for a job file.
fn code_of(cluster: &Cluster, file: &str) -> Option<Code> {
    let parsed = parse(&fs::read(file).unwrap(), Format::Toml).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = runtime.block_on(async { Client::new(cluster.addr()).unwrap().apply(&parsed.file).await });
    answer.err().and_then(|error| error.problem().map(|problem| problem.code.clone()))
}

fn used(quota: &Value) -> (u64, Vec<u64>) {
    let tasks = |part: &Value| part["used"]["tasks"].as_u64().unwrap_or_default();
    (tasks(quota), quota["regions"].as_array().into_iter().flatten().map(tasks).collect())
}

/// Waits until the quota counts so many tasks, in all and in each region.
fn await_used(cluster: &Cluster, all: u64, parts: &[u64]) {
    eventually(&format!("{all} tasks are counted, {parts:?}"), || {
        (used(&cluster.quota()) == (all, parts.to_vec())).then_some(())
    });
}

fn allotments(cluster: &Cluster) -> Vec<u64> {
    let quota = cluster.quota();
    let parts = quota["regions"].as_array().into_iter().flatten();
    parts.map(|part| part["allotment"]["tasks"].as_u64().unwrap_or_default()).collect()
}

#[test]
fn an_account_over_its_quota_is_refused_by_how_much() {
    let Some(_turn) = turn("quota::an_account_over_its_quota_is_refused_by_how_much") else { return };
    let cluster = Cluster::start(&Options { hosts: 1, ..Options::default() });
    assert_eq!(cluster.cli(&["quota", "get", "test"]).code, 1, "nobody has set one");
    set(&cluster, "test", 6, &[]);
    eventually("both regions have their part", || (allotments(&cluster) == [3, 3]).then_some(()));
    let table = cluster.must(&["quota", "get", "test"]).stdout;
    let line = |region: &str| {
        table.lines().find(|line| line.contains(&format!(" {region} "))).unwrap_or_else(|| panic!("{table}"))
    };
    assert!(line("all").contains("0/6") && line("all").contains("0/8"), "{table}");
    assert!(line("r1").contains("0/3") && line("r2").contains("0/3"), "{table}");

    // The job as a whole can never be admitted.
    let big = cluster.job("big", 7, "", "");
    let answer = cluster.cli(&["apply", "-f", &big, "--wait"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (1, ""), "{answer:?}");
    let wanted = "account test may use 8 CPU, 8GiB memory and 6 tasks; its other jobs ask for 0 CPU, 0B memory and 0 tasks, and \
                  test/big asks for 0.7 CPU, 448MiB memory and 7 tasks: that is 1 task too much";
    assert!(answer.stderr.contains(wanted), "{answer:?}");
    assert!(answer.stderr.contains("polder quota get test"), "{answer:?}");
    assert_eq!(code_of(&cluster, &big), Some(Code::QuotaExceeded));
    assert!(cluster.status("big").is_none(), "nothing of it was taken in");

    // With another job beside it. A stopped one asks for nothing.
    let web = cluster.job("web", 4, "", "");
    cluster.must(&["apply", "-f", &web, "--wait", "--timeout", "120s"]);
    let before = cluster.tasks("web");
    await_used(&cluster, 4, &[2, 2]);
    let second = cluster.job("second", 3, "", "");
    let answer = cluster.cli(&["apply", "-f", &second]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.stderr.contains("its other jobs ask for 0.4 CPU, 256MiB memory and 4 tasks"), "{answer:?}");
    assert!(answer.stderr.contains("that is 1 task too much"), "{answer:?}");
    let grown = cluster.job("web", 7, "", "");
    assert_eq!(code_of(&cluster, &grown), Some(Code::QuotaExceeded), "its own older spec is replaced, not added");
    let web = cluster.job("web", 6, "", "");
    cluster.must(&["apply", "-f", &web, "--wait", "--timeout", "120s"]);
    await_used(&cluster, 6, &[3, 3]);

    // A quota that shrinks stops nothing, and what was asked for before may be asked for again; more may not.
    set(&cluster, "test", 2, &[]);
    eventually("both regions have agreed to less", || (allotments(&cluster) == [1, 1]).then_some(()));
    let same = cluster.must(&["apply", "-f", &web, "--wait", "--timeout", "120s"]);
    assert!(same.stdout.contains("unchanged"), "{same:?}");
    let smaller = cluster.job("web", 5, "", "");
    cluster.must(&["apply", "-f", &smaller, "--wait", "--timeout", "120s"]);
    let kept = cluster.tasks("web");
    assert!(before.iter().all(|task| kept.contains(task)), "{before:?} {kept:?}");
    let answer = cluster.cli(&["apply", "-f", &cluster.job("web", 6, "", "")]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.stderr.contains("that is 4 tasks too much"), "{answer:?}");

    // Stopped, it asks for nothing.
    cluster.must(&["stop", "test/web", "--wait"]);
    await_used(&cluster, 0, &[0, 0]);
    let second = cluster.job("second", 2, "", "");
    cluster.must(&["apply", "-f", &second, "--wait", "--timeout", "120s"]);

    // An account above may have less.
    set(&cluster, "test", 100, &[]);
    let file = cluster.job("below", 99, "", "");
    let text = fs::read_to_string(&file).unwrap().replace("account = \"test\"", "account = \"test/sub\"");
    fs::write(&file, text).unwrap();
    let answer = cluster.cli(&["apply", "-f", &file]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.stderr.contains("account test may use"), "{answer:?}");
    assert!(answer.stderr.contains("test/sub/below asks for 9.9 CPU"), "{answer:?}");
    assert!(answer.stderr.contains("2.1 CPU and 1 task too much"), "{answer:?}");

    // A region that is asked itself holds its own part against the job.
    let local = cluster.job("local", 51, "", "");
    let text = fs::read_to_string(&local).unwrap().replace("cpu = 0.1", "cpu = 0.01");
    fs::write(&local, text).unwrap();
    eventually("both regions have more again", || (allotments(&cluster) == [50, 50]).then_some(()));
    let answer = cluster.cli_at(&cluster.region_addr("r1"), &["apply", "-f", &local]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.stderr.contains("in region r1: account test may use 4 CPU, 4GiB memory and 50 tasks"), "{answer:?}");
    assert!(answer.stderr.contains("2 tasks too much"), "{answer:?}");
}

#[test]
fn tasks_wait_for_quota_and_go_when_it_grows() {
    let Some(_turn) = turn("quota::tasks_wait_for_quota_and_go_when_it_grows") else { return };
    let cluster = Cluster::start(&Options { hosts: 1, ..Options::default() });
    set(&cluster, "test", 6, &["--region", "r1=cpu:4,memory:4GiB,tasks:2", "--region", "r2=cpu:4,memory:4GiB,tasks:4"]);
    eventually("both regions have their part", || (allotments(&cluster) == [2, 4]).then_some(()));
    let answer = cluster.cli(&[
        "quota",
        "set",
        "test",
        "--cpu",
        "1",
        "--memory",
        "1GiB",
        "--tasks",
        "3",
        "--region",
        "r1=cpu:1,memory:1GiB,tasks:4",
    ]);
    assert_eq!(answer.code, 1, "parts may not be more than the whole: {answer:?}");

    // It fits as a whole, but not as it is split: a region admits within its own part only.
    let job = cluster.job("web", 6, "", "[regions]\ncounts = { r1 = 5, r2 = 1 }");
    let answer = cluster.cli(&["apply", "-f", &job, "--wait", "--timeout", "5s"]);
    assert_eq!(answer.code, 2, "{answer:?}");
    let wanted = "account test may use 4 CPU, 4GiB memory and 2 tasks here and uses 0.2 CPU, 128MiB memory and 2 tasks; one \
                  more task would be 1 task too much";
    assert!(answer.stderr.contains(wanted), "{answer:?}");
    assert!(answer.stderr.contains("r1: degraded, 2 of 5 ready: 3 waiting: over quota"), "{answer:?}");
    await_used(&cluster, 3, &[2, 1]);
    let status = cluster.await_state("web", PartState::Degraded);
    let waiting: Vec<String> =
        status.tasks.iter().filter(|task| task.waiting.is_some()).map(|task| task.task.to_string()).collect();
    assert_eq!(waiting.len(), 3);
    let text = cluster.must(&["status", "test/web"]).stdout;
    assert_eq!(text.lines().filter(|line| line.contains(wanted)).count(), 3, "{text}");
    let why = cluster.must(&["why", &waiting[0]]).stdout;
    assert!(why.contains("over quota") && why.contains(wanted), "{why}");
    let before = cluster.tasks("web");
    assert_eq!(before.len(), 3);

    // The whole as it was, shared out otherwise: what one region lets go the other gets.
    set(&cluster, "test", 6, &["--region", "r1=cpu:4,memory:4GiB,tasks:5", "--region", "r2=cpu:4,memory:4GiB,tasks:1"]);
    cluster.await_state("web", PartState::Healthy);
    await_used(&cluster, 6, &[5, 1]);
    let after = cluster.tasks("web");
    assert!(before.iter().all(|task| after.contains(task)), "those that ran were left alone");

    // More for all: raised, what waits goes.
    set(&cluster, "test", 8, &["--region", "r1=cpu:4,memory:4GiB,tasks:5", "--region", "r2=cpu:4,memory:4GiB,tasks:3"]);
    let job = cluster.job("web", 8, "", "[regions]\ncounts = { r1 = 7, r2 = 1 }");
    cluster.must(&["apply", "-f", &job]);
    eventually("two wait", || {
        let status = cluster.status("web")?;
        (status.tasks.iter().filter(|task| task.waiting.is_some()).count() == 2 && status.tasks.len() == 8)
            .then_some(())
    });
    set(
        &cluster,
        "test",
        12,
        &["--region", "r1=cpu:4,memory:4GiB,tasks:9", "--region", "r2=cpu:4,memory:4GiB,tasks:3"],
    );
    cluster.await_state("web", PartState::Healthy);
    await_used(&cluster, 8, &[7, 1]);
    let now = cluster.tasks("web");
    assert!(after.iter().all(|task| now.contains(task)));
}
