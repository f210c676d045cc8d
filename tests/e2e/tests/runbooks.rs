//! Every command of every runbook, run against real processes and a real etcd of three members.

use polder_api::dto::PartState;
use polder_e2e::{
    Cluster, Options, StoreKind, eventually,
    observed::{Runbook, missing_program, runbooks},
    turn,
};
use polder_store::testing::EtcdServer;
use std::{collections::BTreeSet, fs, path::PathBuf, process::Command, thread};

/// Pages whose commands the tests of alerts run.
const ELSEWHERE: [&str; 2] = ["lost-host", "full-disk"];

/// A cluster, and the person on call.
struct Call {
    cluster: Cluster,
    variables: Vec<(&'static str, String)>,
    folder: PathBuf,
    done: BTreeSet<(String, String)>,
}

impl Call {
    fn set(&mut self, name: &'static str, value: &str) {
        self.variables.retain(|(other, _)| *other != name);
        self.variables.push((name, value.to_owned()));
    }

    fn run(&mut self, page: &str, section: &str) -> String {
        let runbook = Runbook::at(&format!("deploy/runbooks/{page}.md"));
        self.done.insert((page.to_owned(), section.to_owned()));
        runbook.run(section, &self.variables, &self.folder)
    }

    /// Runs a section that asks the machine's init system for a process.
    fn run_with_init(&mut self, page: &str, section: &str, starts: &str) -> String {
        let runbook = Runbook::at(&format!("deploy/runbooks/{page}.md"));
        self.done.insert((page.to_owned(), section.to_owned()));
        let start = self.folder.join("start");
        let Self { cluster, variables, folder, .. } = self;
        let said = thread::scope(|scope| {
            let init = scope.spawn(|| {
                eventually("a process is to be started", || start.exists().then_some(()));
                cluster.revive(starts);
            });
            let said = runbook.run(section, variables, folder);
            init.join().unwrap();
            said
        });
        fs::remove_file(&start).unwrap();
        said
    }
}

fn call(cluster: Cluster, etcd: &EtcdServer) -> Call {
    let folder = cluster.dir().join("call");
    fs::create_dir(&folder).unwrap();
    let programs = cluster.polder().parent().unwrap().display().to_string();
    let start = format!("touch {}", folder.join("start").display());
    let variables = vec![
        ("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap())),
        ("POLDER_ADDR", cluster.addr().to_owned()),
        ("REGION_ADDR", cluster.region_addr("r1")),
        ("HOST", "r1-h1".to_owned()),
        ("REGION", "r1".to_owned()),
        ("DATA", cluster.data_of("r1-h1").display().to_string()),
        ("ACCOUNT", "test".to_owned()),
        ("JOB", "test/web".to_owned()),
        ("TASK", "test/web/0".to_owned()),
        ("START_HOST", start.clone()),
        ("START_REGION", start.clone()),
        ("START_FEDERATION", start),
        ("ETCDCTL_API", "3".to_owned()),
        ("ETCDCTL_ENDPOINTS", etcd.endpoints().join(",")),
    ];
    Call { cluster, variables, folder, done: BTreeSet::new() }
}

#[test]
fn every_command_of_every_runbook_does_what_the_page_says() {
    const NAME: &str = "runbooks::every_command_of_every_runbook_does_what_the_page_says";
    let Some(_turn) = turn(NAME) else { return };
    if let Some(program) = missing_program(&["etcd", "etcdctl", "curl", "jq"]) {
        eprintln!("SKIP {NAME}: {program} is not installed; `make deps` installs it");
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut etcd = runtime.block_on(EtcdServer::start(3)).unwrap();
    let store = StoreKind::Etcd(etcd.endpoints().join(","));
    let cluster = Cluster::start(&Options { regions: 1, store, ..Options::default() });
    cluster.must(&["quota", "set", "test", "--cpu", "8", "--memory", "8GiB", "--tasks", "6"]);
    let job = cluster.job("web", 2, "", "");
    cluster.must(&["apply", "-f", &job, "--wait", "--timeout", "120s"]);
    let mut call = call(cluster, &etcd);

    drains(&mut call);
    waiting(&mut call);
    looking(&mut call);
    processes(&mut call);
    stores(&mut call, &mut etcd, &runtime);

    let all: BTreeSet<(String, String)> = runbooks()
        .into_iter()
        .filter(|page| !ELSEWHERE.contains(&page.name.as_str()))
        .flat_map(|page| {
            let sections = page.sections.into_iter().filter(|(_, blocks)| !blocks.is_empty());
            sections.map(move |(title, _)| (page.name.clone(), title)).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(all.difference(&call.done).collect::<Vec<_>>(), Vec::<&(String, String)>::new(), "nobody has run these");
    call.cluster.await_state("web", PartState::Healthy);
}

fn drains(call: &mut Call) {
    let said = call.run("drain", "Keep new tasks away");
    assert!(said.contains("cordoned"), "{said}");
    let said = call.run("drain", "Empty the host");
    assert!(said.contains("r1-h1 is drained"), "{said}");
    // It takes its time to stop, so its host's drain is in progress when somebody calls it off.
    let slow = call.cluster.job("slow", 2, "", "[env]\nDEMO_IGNORE_STOP = \"1\"\n[stop]\ngrace = \"12s\"");
    call.cluster.must(&["apply", "-f", &slow, "--wait", "--timeout", "120s"]);
    call.cluster.must(&["drain", "r1-h1", "--deadline", "1h"]);
    let said = call.run("drain", "Call it off");
    assert!(said.contains("aborted"), "{said}");
    call.cluster.must(&["delete", "test/slow", "--stop", "--timeout", "120s"]);
    call.run("drain", "It does not get on");
    call.run("drain", "It ended as forced or unattested");
    let host = call.cluster.host("r1-h1").unwrap();
    assert!(!host.cordoned && host.drain.is_none(), "it is open again: {host:?}");
}

fn waiting(call: &mut Call) {
    // Larger than what any host has left.
    let huge = call.cluster.job("huge", 1, "", "");
    fs::write(&huge, fs::read_to_string(&huge).unwrap().replace("cpu = 0.1", "cpu = 6")).unwrap();
    call.cluster.must(&["apply", "-f", &huge]);
    call.set("JOB", "test/huge");
    call.set("TASK", "test/huge/0");
    eventually("the task waits for room", || {
        let waiting = call.cluster.status("huge")?.tasks.first()?.waiting.clone()?;
        waiting.message.contains("not enough CPU").then_some(())
    });
    let said = call.run("stuck-placement", "What is in the way");
    assert!(said.contains("not enough CPU"), "{said}");
    call.cluster.must(&["cordon", "r1-h1"]);
    call.run("stuck-placement", "Hosts are closed");
    assert!(!call.cluster.host("r1-h1").unwrap().cordoned);
    let said = call.run("stuck-placement", "Placement is slow though there is room");
    assert!(said.contains("polder_pending_tasks{reason=\"no_room\"} 1"), "{said}");
    let said = call.run("quota", "By how much");
    assert!(said.contains("2/6") || said.contains("3/6"), "{said}");
    let said = call.run("quota", "Raise it");
    assert!(said.contains("100"), "{said}");
    call.cluster.must(&["stop", "test/huge", "--wait"]);
    call.set("JOB", "test/web");
    call.set("TASK", "test/web/0");
    call.run("stuck-placement", "It is over when");
    call.run("quota", "It is over when");
}

fn looking(call: &mut Call) {
    for (page, section) in [
        ("api", "Which process, which route"),
        ("api", "It is over when"),
        ("actors", "Look"),
        ("actors", "One job makes it panic"),
        ("task-starts", "One job, or one host"),
        ("task-starts", "One job"),
        ("task-starts", "One host"),
    ] {
        call.run(page, section);
    }
    let discovery =
        Command::new("curl").args(["-sSf", &format!("{}/v1/discovery/nodes", call.cluster.addr())]).output();
    if discovery.is_ok_and(|output| output.status.success()) {
        call.run("target-down", "What should be there");
        let said = call.run("target-down", "Does it answer");
        assert!(said.lines().filter(|line| line.ends_with("answers 200")).count() >= 4, "{said}");
    } else {
        eprintln!("SKIP runbooks target-down: this federation has no service discovery");
        for section in ["What should be there", "Does it answer"] {
            call.done.insert(("target-down".to_owned(), section.to_owned()));
        }
    }
}

fn processes(call: &mut Call) {
    call.cluster.kill("r1");
    let said = call.run("lost-region-process", "Which is it");
    assert!(said.contains("no answer"), "{said}");
    call.run_with_init("lost-region-process", "Start the region again", "r1");
    call.cluster.kill("federation");
    eventually("hosts are heard by the region again", || {
        let answer = call.cluster.cli_at(&call.cluster.region_addr("r1"), &["hosts"]);
        (answer.stdout.matches("ready").count() == 2).then_some(())
    });
    let said = call.run("lost-region-process", "Work with the region alone");
    assert!(said.contains("test/web"), "{said}");
    call.run_with_init("lost-region-process", "Start the federation again", "federation");
    call.run("lost-region-process", "It is over when");
    // One that hangs is killed by its init system before it is started anew.
    call.cluster.kill("r1");
    call.run_with_init("actors", "It hangs", "r1");
}

fn stores(call: &mut Call, etcd: &mut EtcdServer, runtime: &tokio::runtime::Runtime) {
    call.run("slow-store", "Look");
    call.run("slow-store", "etcd");
    call.run("slow-store", "The embedded store");

    etcd.kill(2).unwrap();
    let said = call.run("lost-etcd-member", "Which member");
    assert!(said.contains("not every member is healthy"), "{said}");
    runtime.block_on(etcd.restart(2)).unwrap();
    call.run("lost-etcd-member", "It comes back");
    call.cluster.look_after();
    call.run("lost-etcd-member", "It is over when");

    // Lost with its data: taken out and added anew. Two of three go on.
    etcd.kill(2).unwrap();
    let endpoints = etcd.endpoints();
    let list = Command::new("etcdctl")
        .args(["--endpoints", &endpoints[0], "member", "list"])
        .env("ETCDCTL_API", "3")
        .output()
        .unwrap();
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let line = list.lines().find(|line| line.contains(&endpoints[2])).unwrap_or_else(|| panic!("{list}"));
    let cells: Vec<&str> = line.split(", ").collect();
    call.set("MEMBER", cells[0]);
    call.set("NAME", cells[2]);
    call.set("PEER", cells[3]);
    call.set("ETCDCTL_ENDPOINTS", &endpoints[..2].join(","));
    let said = call.run("lost-etcd-member", "Its data is gone");
    assert!(said.contains("removed from cluster") && said.contains("added to cluster"), "{said}");
    call.cluster.look_after();
}
