//! A place for containers that is checked to be empty at the end.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use polder_runtime::shim::{
    Exit, LaunchSpec, Runtime as _, ShimBinary, ShimRuntime, ShimRuntimeConfig, container_name,
};
use polder_shim::cgroup::Cgroups;
use polder_types::{Bytes, ContainerId, Cpu, ExitStatus};
use tokio::sync::mpsc;

/// Nothing in a test takes this long unless it hangs.
pub(crate) const HANG: Duration = Duration::from_secs(60);

const BUSYBOX: &str = "/bin/busybox";
const APPLETS: [&str; 24] = [
    "sh", "true", "false", "sleep", "cat", "echo", "id", "ls", "env", "dd", "mknod", "mkdir", "kill", "ps", "readlink",
    "hostname", "mount", "nc", "grep", "chroot", "setsid", "unshare", "head", "touch",
];

pub(crate) struct Harness {
    pub(crate) runtime: ShimRuntime,
    pub(crate) exits: mpsc::Receiver<Exit>,
    pub(crate) root: PathBuf,
    pub(crate) config: ShimRuntimeConfig,
    pub(crate) cgroups: Cgroups,
}

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

pub(crate) fn config(root: &Path) -> ShimRuntimeConfig {
    ShimRuntimeConfig {
        state_root: root.join("state"),
        scratch_root: root.join("scratch"),
        cgroup_parent: Path::new("/polder-test").join(root.file_name().unwrap()),
    }
}

pub(crate) fn runtime(config: &ShimRuntimeConfig) -> (ShimRuntime, mpsc::Receiver<Exit>) {
    let binary = ShimBinary::load(&shim_program().unwrap()).unwrap();
    ShimRuntime::new(binary, config.clone()).unwrap()
}

impl Harness {
    /// None, after saying so, when this machine can't.
    pub(crate) fn new() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if let Some(reason) = missing() {
            eprintln!("SKIP {reason}");
            return None;
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("polder-shim-{}-{number}", std::process::id()));
        make_layer(&root.join("layers/base"));
        fs::create_dir_all(root.join("layers/top/data")).unwrap();
        fs::write(root.join("layers/top/data/which"), "top").unwrap();
        fs::create_dir_all(root.join("logs")).unwrap();
        let config = config(&root);
        let (runtime, exits) = runtime(&config);
        Some(Self { runtime, exits, root, config, cgroups: Cgroups::of_host().unwrap() })
    }

    /// A container that runs a shell script.
    pub(crate) fn spec(&self, number: u32, script: &str) -> LaunchSpec {
        spec(&self.root, number, script)
    }

    pub(crate) async fn start(&self, spec: LaunchSpec) -> u32 {
        let id = spec.id.clone();
        let created = self.runtime.create(spec).await.unwrap();
        self.runtime.start(&id).await.unwrap();
        created.pid
    }

    /// Runs a script to its end and gives how it ended and what it said.
    pub(crate) async fn run(&self, spec: LaunchSpec) -> (ExitStatus, String) {
        let (id, log) = (spec.id.clone(), spec.stdout.clone());
        self.start(spec).await;
        let exit = self.wait(&id).await;
        self.runtime.remove(&id).await.unwrap();
        (exit.status, fs::read_to_string(log).unwrap())
    }

    pub(crate) async fn wait(&self, id: &ContainerId) -> Exit {
        tokio::time::timeout(HANG, self.runtime.wait(id)).await.expect("the container doesn't end").unwrap()
    }

    /// Waits until a container has said something.
    pub(crate) async fn says(&self, spec: &LaunchSpec, what: &str) {
        let until = tokio::time::Instant::now() + HANG;
        while !fs::read_to_string(&spec.stdout).unwrap_or_default().contains(what) {
            assert!(tokio::time::Instant::now() < until, "the container doesn't say `{what}`");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) fn state(&self, id: &ContainerId) -> PathBuf {
        self.config.state_root.join(container_name(id))
    }

    pub(crate) fn cgroup(&self, id: &ContainerId) -> PathBuf {
        self.config.cgroup_parent.join(container_name(id))
    }

    /// A file of a container's cgroup.
    pub(crate) fn cgroup_file(&self, id: &ContainerId, controller: &str, file: &str) -> String {
        let dir = self.cgroups.dir(controller, &self.cgroup(id)).unwrap();
        fs::read_to_string(dir.join(file)).unwrap().trim().to_owned()
    }

    /// The shim's number.
    pub(crate) fn shim(&self, id: &ContainerId) -> i32 {
        let text = fs::read(self.state(id).join("shim.json")).unwrap();
        let record: polder_shim::ShimRecord = serde_json::from_slice(&text).unwrap();
        record.shim.pid
    }

    /// Nothing is left.
    pub(crate) fn finish(self) {
        let root = self.root.to_str().unwrap().to_owned();
        assert_eq!(fs::read_dir(&self.config.state_root).unwrap().count(), 0, "state directories are left");
        assert_eq!(fs::read_dir(&self.config.scratch_root).unwrap().count(), 0, "layers are left");
        for one in self.cgroups.hierarchies() {
            let dir = one.mount.join(self.config.cgroup_parent.strip_prefix("/").unwrap());
            assert!(!dir.exists(), "{} is left", dir.display());
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(&root), "mounts are left: {mounts}");
        let ours: Vec<_> = processes().into_iter().filter(|(_, command)| command.contains(&root)).collect();
        assert!(ours.is_empty(), "processes are left: {ours:?}");
        // The directory goes when `self` does.
    }
}

impl Drop for Harness {
    /// Also after a failed assertion nothing must be left on the machine.
    fn drop(&mut self) {
        let _ = self.cgroups.kill(&self.config.cgroup_parent);
        let root = self.root.to_str().unwrap().to_owned();
        // Shims have their state directory in their command line.
        processes_with(&root).into_iter().for_each(|pid| kill(pid, 9));
        let _ = self.cgroups.kill(&self.config.cgroup_parent);
        let _ = self.cgroups.remove(&self.config.cgroup_parent);
        self.cgroups.remove_if_empty(Path::new("/polder-test"));
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// All processes with their command lines.
fn processes() -> Vec<(i32, String)> {
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let own = i32::try_from(std::process::id()).unwrap();
    pids.filter(|pid| *pid != own)
        .filter_map(|pid: i32| {
            let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            Some((pid, String::from_utf8_lossy(&command).replace('\0', " ")))
        })
        .collect()
}

/// Those whose command line has a text in it.
pub(crate) fn processes_with(text: &str) -> Vec<i32> {
    processes().into_iter().filter(|(_, command)| command.contains(text)).map(|(pid, _)| pid).collect()
}

pub(crate) fn kill(pid: i32, signal: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::from_named_raw(signal).unwrap());
}

/// Whether a process is there and more than a zombie.
pub(crate) fn lives(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']))
}

pub(crate) async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = tokio::time::Instant::now() + HANG;
    while !done() {
        assert!(tokio::time::Instant::now() < end, "{what}: doesn't happen");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn make_layer(dir: &Path) {
    for name in ["bin", "etc", "tmp", "proc", "sys", "dev", "data"] {
        fs::create_dir_all(dir.join(name)).unwrap();
    }
    fs::copy(BUSYBOX, dir.join("bin/busybox")).unwrap();
    fs::set_permissions(dir.join("bin/busybox"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(dir.join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
    for name in APPLETS {
        symlink("busybox", dir.join("bin").join(name)).unwrap();
    }
    fs::write(dir.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\nweb:x:1000:1000::/home/web:/bin/sh\n").unwrap();
    fs::write(dir.join("etc/group"), "root:x:0:\nweb:x:1000:\nlogs:x:1001:web\n").unwrap();
    fs::write(dir.join("data/which"), "base").unwrap();
}

pub(crate) fn id(number: u32) -> ContainerId {
    format!("test/shim/{number}@1").parse().unwrap()
}

pub(crate) fn spec(root: &Path, number: u32, script: &str) -> LaunchSpec {
    LaunchSpec {
        id: id(number),
        layers: vec![root.join("layers/base"), root.join("layers/top")],
        args: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
        env: vec!["PATH=/bin".to_owned(), "GREETING=hello there".to_owned()],
        user: None,
        workdir: "/".into(),
        cpu: Cpu::from_centi_cores(100),
        memory: Bytes::from_mib(64),
        pids: 64,
        hostname: format!("task-{number}"),
        binds: Vec::new(),
        stdout: root.join(format!("logs/{number}.out")),
        stderr: root.join(format!("logs/{number}.err")),
    }
}

/// An agent in a process of its own, which a test can kill.
pub(crate) struct Agent {
    child: Child,
}

const AGENT_ROOT: &str = "POLDER_TEST_AGENT_ROOT";
const AGENT_ORDERS: &str = "POLDER_TEST_AGENT_ORDERS";

impl Agent {
    /// As [`run`](Self::run), but doesn't wait for anything.
    pub(crate) fn begin(root: &Path, orders: &[&str]) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "harness::agent_process", "--ignored", "--nocapture", "--test-threads=1"])
            .env(AGENT_ROOT, root)
            .env(AGENT_ORDERS, orders.join("\n"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child }
    }

    /// Orders are `NUMBER:start:SCRIPT` or `NUMBER:create:SCRIPT`. Comes back when all are carried out.
    pub(crate) fn run(root: &Path, orders: &[&str]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "harness::agent_process", "--ignored", "--nocapture", "--test-threads=1"])
            .env(AGENT_ROOT, root)
            .env(AGENT_ORDERS, orders.join("\n"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        let ready = lines.any(|line| line.is_ok_and(|line| line.contains("agent is ready")));
        assert!(ready, "the agent process failed");
        Self { child }
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Not a test: what [`Agent`] runs.
#[tokio::test]
#[ignore = "is run by other tests, as an agent that they can kill"]
async fn agent_process() {
    let Some(root) = std::env::var_os(AGENT_ROOT).map(PathBuf::from) else { return };
    let (runtime, _exits) = runtime(&config(&root));
    for order in std::env::var(AGENT_ORDERS).unwrap().lines() {
        let [number, what, script] = order.splitn(3, ':').collect::<Vec<_>>()[..] else { panic!("{order}") };
        let spec = spec(&root, number.parse().unwrap(), script);
        let id = spec.id.clone();
        runtime.create(spec).await.unwrap();
        if what == "start" {
            runtime.start(&id).await.unwrap();
        }
    }
    // To the parent, past the test program's own capture of what is printed.
    std::io::Write::write_all(&mut std::io::stdout(), b"agent is ready\n").unwrap();
    // Until the test kills us.
    tokio::time::sleep(HANG).await;
}
