//! Limits: in the kernel's files, and in effect.

use polder_runtime::shim::Runtime as _;
use polder_types::{Bytes, Cpu, ExitStatus};

use super::harness::Harness;

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_in_the_cgroups_files() {
    let Some(harness) = Harness::new() else { return };
    let mut spec = harness.spec(1, "echo ready; sleep 1000");
    (spec.cpu, spec.memory, spec.pids) = (Cpu::from_centi_cores(50), Bytes::from_mib(32), 20);
    harness.start(spec.clone()).await;
    harness.says(&spec, "ready").await;
    let file = |controller: &str, name: &str| harness.cgroup_file(&spec.id, controller, name);
    if harness.cgroups.is_unified() {
        assert_eq!(file("memory", "memory.max"), (32 << 20).to_string());
        assert_eq!(file("memory", "memory.swap.max"), "0");
        assert_eq!(file("cpu", "cpu.max"), "50000 100000");
        assert_eq!(file("pids", "pids.max"), "20");
    } else {
        assert_eq!(file("memory", "memory.limit_in_bytes"), (32 << 20).to_string());
        assert_eq!(file("cpu", "cpu.cfs_quota_us"), "50000");
        assert_eq!(file("cpu", "cpu.cfs_period_us"), "100000");
        assert_eq!(file("cpu", "cpu.shares"), "512");
        assert_eq!(file("pids", "pids.max"), "20");
    }
    let usage = harness.runtime.usage(&spec.id).await.unwrap();
    assert!(usage.memory > Bytes::ZERO && usage.cpu_us > 0 && usage.pids >= 1, "{usage:?}");
    harness.runtime.kill(&spec.id).await.unwrap();
    harness.wait(&spec.id).await;
    harness.runtime.remove(&spec.id).await.unwrap();
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn too_much_memory_ends_the_container_and_says_so() {
    let Some(harness) = Harness::new() else { return };
    let mut spec = harness.spec(1, "exec dd if=/dev/zero of=/dev/null bs=200M count=1");
    spec.memory = Bytes::from_mib(32);
    harness.start(spec.clone()).await;
    let exit = harness.wait(&spec.id).await;
    assert_eq!(exit.status, ExitStatus::Signal { signal: 9, oom: true });
    assert!(exit.oom_kills >= 1);
    harness.runtime.remove(&spec.id).await.unwrap();
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_killed_for_memory_is_counted_but_is_not_the_end() {
    let Some(harness) = Harness::new() else { return };
    let mut spec = harness.spec(1, "dd if=/dev/zero of=/dev/null bs=200M count=1; echo child $?; exit 5");
    spec.memory = Bytes::from_mib(32);
    harness.start(spec.clone()).await;
    let exit = harness.wait(&spec.id).await;
    assert_eq!(exit.status, ExitStatus::Code { code: 5 });
    assert_eq!(exit.oom_kills, 1);
    assert!(std::fs::read_to_string(&spec.stdout).unwrap().contains("child 137"));
    harness.runtime.remove(&spec.id).await.unwrap();
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_processes_are_refused() {
    let Some(harness) = Harness::new() else { return };
    let mut spec = harness.spec(1, "for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; wait");
    spec.pids = 5;
    let stderr = spec.stderr.clone();
    let (status, _) = harness.run(spec).await;
    assert!(!status.is_success(), "{status:?}");
    assert!(std::fs::read_to_string(stderr).unwrap().contains("can't fork"));
    harness.finish();
}

#[tokio::test(flavor = "multi_thread")]
async fn open_files_stay_within_the_hosts_own_limit() {
    let Some(harness) = Harness::new() else { return };
    let (_, said) = harness.run(harness.spec(1, "ulimit -Hn")).await;
    let limit: u64 = said.trim().parse().unwrap();
    let own = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(u64::MAX);
    assert_eq!(limit, own.min(polder_runtime::shim::limits::OPEN_FILES_MAX));
    harness.finish();
}
