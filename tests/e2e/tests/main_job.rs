//! The main job, end to end: on embedded stores and on a real etcd.

use polder_api::dto::{DrainState, PartState};
use polder_e2e::{Cluster, Options, StoreKind, Task, eventually, turn};
use polder_store::testing::EtcdServer;
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: task\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn main_job(store: StoreKind) {
    let mut cluster = Cluster::start(&Options { store, ..Options::default() });
    let health = "[health]\nport = \"http\"\npath = \"/health\"\ninterval = \"500ms\"";
    let job = cluster.job("web", 6, "", health);
    cluster.must(&["apply", "-f", &job, "--wait", "--timeout", "120s"]);
    let tasks = cluster.tasks("web");
    assert_eq!(tasks.len(), 6, "{tasks:?}\n{}", cluster.logs());
    let on = |tasks: &[Task], region: &str| tasks.iter().filter(|task| task.host.starts_with(region)).count();
    assert_eq!((on(&tasks, "r1"), on(&tasks, "r2")), (3, 3), "split evenly over regions");
    for task in &tasks {
        let answer = eventually(&format!("{} answers", task.id), || get(&task.address, "/"));
        assert!(answer.contains(&task.id), "{answer}");
    }

    // A killed container comes back, with a new epoch, and the others stay as they are.
    let victim = tasks[0].clone();
    let pid = rustix_pid(victim.pid);
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    eventually("the killed task comes back", || {
        let now = cluster.tasks("web");
        now.iter().find(|task| task.id == victim.id && task.epoch > victim.epoch).cloned()
    });
    cluster.await_state("web", PartState::Healthy);
    let now = cluster.tasks("web");
    let others = |tasks: &[Task]| tasks.iter().filter(|task| task.id != victim.id).cloned().collect::<Vec<_>>();
    assert_eq!(others(&tasks), others(&now));

    // Every process killed at once: nothing restarts.
    let before = cluster.tasks("web");
    for name in cluster.names() {
        cluster.kill(&name);
    }
    for name in cluster.names() {
        cluster.revive(&name);
    }
    cluster.await_state("web", PartState::Healthy);
    assert_eq!(before, cluster.tasks("web"));

    // A release goes through task by task.
    let changed = cluster.job("web", 6, "env = { DEMO_VERSION = \"2\" }", health);
    cluster.must(&["apply", "-f", &changed, "--wait", "--timeout", "180s"]);
    for task in cluster.tasks("web") {
        let answer = eventually("the new version answers", || get(&task.address, "/"));
        assert!(answer.contains("\"2\""), "{answer}");
    }

    // A drained host is empty.
    let host = cluster.tasks("web")[0].host.clone();
    let answer = cluster.must(&["drain", &host, "--deadline", "120s", "--reason", "test", "--wait", "-o", "json"]);
    assert_eq!(Cluster::drain_of(&answer).state, DrainState::Drained);
    cluster.await_state("web", PartState::Healthy);
    assert!(cluster.tasks("web").iter().all(|task| task.host != host));
    cluster.must(&["uncordon", &host]);

    let logs = cluster.must(&["logs", "test/web/0"]);
    assert!(!logs.stdout.is_empty());
    cluster.must(&["stop", "test/web", "--wait"]);
    cluster.await_state("web", PartState::Stopped);
}

fn rustix_pid(pid: u32) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

#[test]
fn on_embedded_stores() {
    let Some(_turn) = turn("main_job::on_embedded_stores") else { return };
    main_job(StoreKind::Embedded);
}

#[test]
fn on_a_real_etcd() {
    let Some(_turn) = turn("main_job::on_a_real_etcd") else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let etcd = runtime.block_on(EtcdServer::start(1)).unwrap();
    main_job(StoreKind::Etcd(etcd.endpoints().join(",")));
}
