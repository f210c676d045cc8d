//! A host for tests, checked to leave nothing.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use polder_core::message::{HostOrder, OrderOwner};
use polder_runtime::{
    agent::{self, AgentError, HostConfig},
    image::pack::{PackFile, PackSpec, pack_layout},
};
use polder_types::{
    Bytes, Capacity, ContainerId, ContainerSpec, Cpu, Generation, Millis, OwnerEpoch, PortBinding, PortRange, ShardId,
    StopSignal, StopSpec,
};
use tokio::{sync::oneshot, task::JoinHandle, time::timeout};

use crate::region::Region;

/// Nothing in a test takes this long unless it hangs.
pub(crate) const HANG: Duration = Duration::from_secs(60);

const BUSYBOX: &str = "/bin/busybox";

fn shim_program() -> Option<PathBuf> {
    let beside = || {
        let exe = std::env::current_exe().ok()?;
        Some(exe.ancestors().nth(3)?.join("release/polder-shim"))
    };
    std::env::var_os("POLDER_SHIM").map(PathBuf::from).or_else(beside).filter(|path| path.is_file())
}

/// Why the tests can't run here.
fn missing() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("not root");
    }
    if !Path::new(BUSYBOX).is_file() {
        return Some("no /bin/busybox (apt-get install busybox-static)");
    }
    shim_program().is_none().then_some("no polder-shim (runtime/shim/build.sh)")
}

/// An agent that runs in this process.
#[derive(Debug)]
pub(crate) struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), AgentError>>,
}

impl Running {
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        timeout(HANG, self.task).await.expect("the agent does not stop").unwrap().unwrap();
    }
}

#[derive(Debug)]
pub(crate) struct TestHost {
    pub(crate) root: PathBuf,
    pub(crate) config: HostConfig,
}

impl TestHost {
    /// None, after saying so, when this machine can't.
    pub(crate) fn new(region: &Region) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if let Some(reason) = missing() {
            eprintln!("SKIP {reason}");
            return None;
        }
        let name = format!("t{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let root = std::env::temp_dir().join(format!("polder-agent-{name}"));
        fs::create_dir_all(&root).unwrap();
        let image = PackSpec {
            files: vec![PackFile::program(BUSYBOX, "/bin/busybox"), PackFile::program(BUSYBOX, "/bin/sh")],
            entrypoint: vec!["/bin/sh".to_owned(), "-c".to_owned()],
            env: [("FROM_IMAGE".to_owned(), "yes".to_owned())].into(),
            ..PackSpec::default()
        };
        pack_layout(&image, &root.join("image"), "v1").unwrap();
        let config = HostConfig {
            id: name.parse().unwrap(),
            region: "west".parse().unwrap(),
            datacenter: "d1".parse().unwrap(),
            power_domain: "p1".parse().unwrap(),
            rack: "r1".parse().unwrap(),
            labels: BTreeMap::new(),
            capacity: Capacity {
                cpu: Cpu::from_centi_cores(400),
                memory: Bytes::from_mib(1024),
                ports: PortRange { first: 20_000, last: 20_100 },
            },
            address: "127.0.0.1".to_owned(),
            data_dir: root.join("data"),
            image_dir: Some(root.join("images")),
            region_addresses: vec![region.url()],
            metrics: None,
            shim: shim_program(),
        };
        Some(Self { root, config })
    }

    /// Starts the agent.
    pub(crate) fn run(&self) -> Running {
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            let _ = stopped.await;
        };
        Running { stop, task: tokio::spawn(agent::run(self.config.clone(), shutdown)) }
    }

    /// A container that runs a shell script.
    pub(crate) fn spec(&self, script: &str) -> ContainerSpec {
        ContainerSpec {
            generation: Generation(1),
            image: format!("oci:{}:v1", self.root.join("image").display()),
            command: vec![],
            args: vec![script.to_owned()],
            env: [("FROM_JOB".to_owned(), "yes".to_owned())].into(),
            user: None,
            workdir: None,
            cpu: Cpu::from_centi_cores(50),
            memory: Bytes::from_mib(32),
            pids: 20,
            ports: vec![PortBinding { name: "http".parse().unwrap(), port: 20_001 }],
            stop: StopSpec { signal: StopSignal::Sigterm, grace: Millis(60_000) },
            health: None,
        }
    }

    pub(crate) fn start(&self, id: &ContainerId, script: &str) -> HostOrder {
        start(id, self.spec(script))
    }

    /// Waits until a container has said something. As the first process of its namespace it gets only the signals that
    /// it has asked for, so it must have come that far before it is stopped.
    pub(crate) async fn says(&self, id: &ContainerId, what: &str) {
        let path = self.config.data_dir.join(format!("logs/{}/{}.log", id.task, id.epoch));
        let saying = async {
            while !fs::read_to_string(&path).unwrap_or_default().contains(what) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(HANG, saying).await.unwrap_or_else(|_| panic!("{id} never says `{what}`"));
    }

    /// Removes everything, and checks that nothing is left.
    pub(crate) async fn clean(self) {
        timeout(HANG, agent::purge(&self.config.data_dir)).await.expect("purging hangs").unwrap();
        let id = self.config.id.to_string();
        for controller in ["", "unified", "memory", "cpu", "cpu,cpuacct", "pids", "devices", "freezer"] {
            let parent = Path::new("/sys/fs/cgroup").join(controller).join("polder");
            let left = fs::read_dir(&parent).into_iter().flatten().flatten();
            let left: Vec<_> = left.filter(|entry| entry.file_name().to_string_lossy().starts_with(&id)).collect();
            assert!(left.is_empty(), "cgroups are left: {left:?}");
        }
        let run = fs::read_dir("/run/polder").into_iter().flatten().flatten();
        let run: Vec<_> = run.filter(|entry| entry.file_name().to_string_lossy().starts_with(&id)).collect();
        assert!(run.is_empty(), "state is left: {run:?}");
        let scratch = self.config.data_dir.join("scratch");
        assert_eq!(fs::read_dir(scratch).map_or(0, Iterator::count), 0, "what containers wrote is left");
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains(self.root.to_str().unwrap()), "{mounts}");
        fs::remove_dir_all(&self.root).unwrap();
    }
}

pub(crate) fn id(text: &str) -> ContainerId {
    text.parse().unwrap()
}

pub(crate) fn owner() -> OrderOwner {
    OrderOwner { shard: ShardId(1), epoch: OwnerEpoch(1) }
}

pub(crate) fn start(id: &ContainerId, spec: ContainerSpec) -> HostOrder {
    HostOrder::Start { owner: owner(), container: id.clone(), spec: Arc::new(spec) }
}

pub(crate) fn stop(id: &ContainerId) -> HostOrder {
    HostOrder::Stop { owner: owner(), container: id.clone() }
}

pub(crate) fn forget(id: &ContainerId) -> HostOrder {
    HostOrder::Forget { owner: owner(), container: id.clone() }
}

/// Whether a process is there and no zombie.
pub(crate) fn alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// When a process started, in ticks since the boot: tells it from a later one of the same number.
pub(crate) fn born(pid: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap().to_owned()
}

/// A script that runs until it is asked to stop.
pub(crate) const SERVE: &str = "trap 'echo bye; exit 7' TERM; echo ready; while true; do /bin/busybox sleep 0.1; done";
/// A script that has to be killed.
pub(crate) const STUBBORN: &str = "trap '' TERM; echo ready; while true; do /bin/busybox sleep 0.1; done";
