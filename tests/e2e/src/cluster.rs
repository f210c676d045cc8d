//! A federation with its regions and hosts, as separate processes on this machine.

use crate::{
    eventually,
    facts::{Task, processes_in, tasks_of},
    leftovers,
    process::{Answer, Role, call},
    program_path,
};
use polder_api::dto::{DrainView, HostHealth, HostList, HostView, JobStatus, PartState};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// Where the cluster keeps its state.
#[derive(Clone, Debug)]
pub enum StoreKind {
    /// A folder for each role.
    Embedded,
    /// One etcd for all, a prefix for each.
    Etcd(String),
}

/// How large a cluster is and how it is tuned.
#[derive(Clone, Debug)]
pub struct Options {
    /// Regions `r1`, `r2`, ….
    pub regions: u16,
    /// Hosts of each: `r1-h1`, ….
    pub hosts: u16,
    /// The store.
    pub store: StoreKind,
    /// How long a host may be silent.
    pub silent_after: &'static str,
    /// CPU of each host.
    pub host_cpu: &'static str,
    /// Each host's data folder is a disk of its own, so large in MiB; none: all are folders of one disk.
    pub host_disk_mib: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            regions: 2,
            hosts: 2,
            store: StoreKind::Embedded,
            silent_after: "3s",
            host_cpu: "4",
            host_disk_mib: None,
        }
    }
}

/// A running cluster.
#[derive(Debug)]
pub struct Cluster {
    dir: TempDir,
    polder: PathBuf,
    roles: BTreeMap<String, Role>,
    hosts: Vec<String>,
    /// Host data folders that are mounts.
    disks: Vec<PathBuf>,
    addr: String,
}

/// Task ports begin here for tests; each host gets so many.
const PORTS_PER_HOST: u16 = 50;

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    listener.local_addr().expect("a bound socket has an address").port()
}

/// A range of ports that nothing listens on now, below those that the system hands out.
fn free_range(count: u16) -> u16 {
    let mut first = 10_000 + u16::try_from(std::process::id() % 10_000).unwrap_or(0);
    loop {
        if (first..first + count).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return first;
        }
        first = if first > 25_000 { 10_000 } else { first + count };
    }
}

/// A small file system in memory.
fn mount_disk(at: &Path, mib: u32) {
    fs::create_dir_all(at).expect("a folder for the disk");
    let size = format!("size={mib}m,mode=0700");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "polder-e2e"]).arg(at).status();
    assert!(mounted.is_ok_and(|status| status.success()), "no file system can be mounted at {}", at.display());
}

impl Cluster {
    /// Starts one, and waits until every host is heard.
    ///
    /// # Panics
    /// When it does not come up.
    #[must_use]
    pub fn start(options: &Options) -> Self {
        let dir = tempfile::Builder::new().prefix("polder-e2e-").tempdir().expect("a temporary folder");
        let polder = program_path("polder");
        let text = |part: &[&str]| part.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let store = |name: &str| match &options.store {
            StoreKind::Embedded => text(&["--data", &dir.path().join(name).display().to_string()]),
            StoreKind::Etcd(endpoint) => {
                let prefix = format!("/{}/{name}/", dir.path().file_name().unwrap_or_default().display());
                text(&["--etcd", endpoint, "--etcd-prefix", &prefix])
            }
        };
        let addr = format!("127.0.0.1:{}", free_port());
        let mut federation = text(&["federation", "--listen", &addr, "--lease", "5s", "--silent-after", "3s"]);
        federation.extend(store("federation"));
        let mut roles = BTreeMap::new();
        let mut hosts = Vec::new();
        let mut disks = Vec::new();
        let mut next_port = free_range(options.regions * options.hosts * PORTS_PER_HOST);
        for region in 1..=options.regions {
            let name = format!("r{region}");
            let listen = format!("127.0.0.1:{}", free_port());
            federation.extend(text(&["--region", &format!("{name}=http://{listen}")]));
            let mut args = text(&["region", "--region", &name, "--listen", &listen, "--lease", "5s"]);
            args.extend(text(&["--silent-after", options.silent_after, "--federation", &format!("http://{addr}")]));
            args.extend(store(&name));
            roles.insert(name.clone(), Role::new(args));
            for number in 1..=options.hosts {
                let host = format!("{name}-h{number}");
                let datacenter = format!("{name}-{}", if number % 2 == 1 { "a" } else { "b" });
                let ports = format!("{next_port}-{}", next_port + PORTS_PER_HOST - 1);
                next_port += PORTS_PER_HOST;
                let data = dir.path().join(&host);
                if let Some(mib) = options.host_disk_mib {
                    mount_disk(&data, mib);
                    disks.push(data.clone());
                }
                let (data, metrics) = (data.display().to_string(), format!("127.0.0.1:{}", free_port()));
                let args = text(&[
                    "host",
                    "--id",
                    &host,
                    "--region",
                    &name,
                    "--region-addr",
                    &format!("http://{listen}"),
                    "--datacenter",
                    &datacenter,
                    "--rack",
                    &format!("{datacenter}-1"),
                    "--cpu",
                    options.host_cpu,
                    "--memory",
                    "2GiB",
                    "--ports",
                    &ports,
                    "--address",
                    "127.0.0.1",
                    "--data",
                    &data,
                    "--metrics",
                    &metrics,
                ]);
                roles.insert(host.clone(), Role::new(args));
                hosts.push(host);
            }
        }
        roles.insert("federation".to_owned(), Role::new(federation));
        let mut cluster = Self { dir, polder, roles, hosts, disks, addr: format!("http://{addr}") };
        let names: Vec<String> = cluster.roles.keys().cloned().collect();
        for name in &names {
            cluster.revive(name);
        }
        let wanted = cluster.hosts.len();
        eventually("every host is heard", || {
            // One that can't even start never will be; the logs that a failure shows say why.
            let ended = names.iter().find(|name| cluster.role(name).has_ended());
            assert!(ended.is_none(), "{ended:?} ended by itself");
            (cluster.ready_hosts().len() == wanted).then_some(())
        });
        cluster.pack_image();
        cluster
    }

    /// The folder of everything.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn pack_image(&self) {
        let demo = program_path("polder-demo").display().to_string();
        let answer = self.cli(&["image", "pack", "--binary", &demo, "--output", &self.image_dir(), "--tag", "v1"]);
        assert_eq!(answer.code, 0, "{answer:?}");
    }

    fn image_dir(&self) -> String {
        self.dir.path().join("image").display().to_string()
    }

    /// A job of the demo workload as a job file; `extra` is TOML that goes before the first table, `tables` after.
    #[must_use]
    pub fn job(&self, name: &str, tasks: u32, extra: &str, tables: &str) -> String {
        let image = self.image_dir();
        let path = self.dir.path().join(format!("{name}.toml"));
        let text = format!(
            "account = \"test\"\nname = \"{name}\"\nkind = \"service\"\ntasks = {tasks}\nimage = \"oci:{image}:v1\"\nports = [\"http\"]\n{extra}\n[resources]\ncpu = 0.1\nmemory = \"64MiB\"\n{tables}\n"
        );
        fs::write(&path, text).expect("the job file can be written");
        path.display().to_string()
    }

    /// Where the federation listens.
    #[must_use]
    pub fn addr(&self) -> &str {
        &self.addr
    }

    /// What Prometheus is to scrape, as YAML: address and labels of every process, as service discovery gives them.
    #[must_use]
    pub fn targets(&self) -> String {
        let target = |addr: &str, labels: &str| {
            format!("      - targets: [\"{}\"]\n        labels: {{{labels}}}\n", addr.trim_start_matches("http://"))
        };
        let of = |(name, role): (&String, &Role)| {
            let metrics = role.args.iter().position(|word| word == "--metrics").map(|at| &role.args[at + 1]);
            match metrics {
                Some(addr) => {
                    let region = name.split('-').next().unwrap_or_default();
                    target(addr, &format!("job: polder-host, region: {region}, host: {name}"))
                }
                None if name == "federation" => target(&self.addr, "job: polder-federation, node: node-1"),
                None => target(&self.region_addr(name), &format!("job: polder-region, region: {name}, node: node-1")),
            }
        };
        self.roles.iter().map(of).collect()
    }

    /// The program under test.
    #[must_use]
    pub fn polder(&self) -> &Path {
        &self.polder
    }

    /// A host's data folder.
    #[must_use]
    pub fn data_of(&self, host: &str) -> PathBuf {
        self.dir.path().join(host)
    }

    /// Where a region listens.
    ///
    /// # Panics
    /// When there is no such region.
    #[must_use]
    pub fn region_addr(&self, region: &str) -> String {
        let args = &self.roles.get(region).unwrap_or_else(|| panic!("there is no region {region}")).args;
        let at = args.iter().position(|word| word == "--listen").expect("a region listens");
        format!("http://{}", args[at + 1])
    }

    /// Calls `polder` against another address than the federation's.
    #[must_use]
    pub fn cli_at(&self, addr: &str, args: &[&str]) -> Answer {
        call(&self.polder, args, addr)
    }

    /// Calls `polder` against the federation.
    #[must_use]
    pub fn cli(&self, args: &[&str]) -> Answer {
        call(&self.polder, args, &self.addr)
    }

    /// Calls `polder`, which must succeed.
    ///
    /// # Panics
    /// When it does not.
    pub fn must(&self, args: &[&str]) -> Answer {
        let answer = self.cli(args);
        assert_eq!(answer.code, 0, "polder {args:?}: {}{}\n{}", answer.stdout, answer.stderr, self.logs());
        answer
    }

    /// A job's status, if the federation answers.
    #[must_use]
    pub fn status(&self, job: &str) -> Option<JobStatus> {
        let answer = self.cli(&["status", &format!("test/{job}"), "-o", "json"]);
        serde_json::from_str(&answer.stdout).ok()
    }

    /// Waits until a job is in a state.
    pub fn await_state(&self, job: &str, state: PartState) -> JobStatus {
        eventually(&format!("{job} is {}", state.as_str()), || self.status(job).filter(|status| status.state == state))
    }

    /// A job's running tasks.
    #[must_use]
    pub fn tasks(&self, job: &str) -> Vec<Task> {
        self.status(job).map(|status| tasks_of(&status)).unwrap_or_default()
    }

    /// All hosts, if the federation answers.
    #[must_use]
    pub fn hosts(&self) -> HostList {
        serde_json::from_str(&self.cli(&["hosts", "-o", "json"]).stdout).unwrap_or_default()
    }

    /// One host, if the federation knows it.
    #[must_use]
    pub fn host(&self, name: &str) -> Option<HostView> {
        self.hosts().hosts.into_iter().find(|host| host.id.as_str() == name)
    }

    /// Processes of containers on a host, whatever Polder says.
    #[must_use]
    pub fn processes_on(&self, host: &str) -> Vec<u32> {
        processes_in(&self.dir.path().join(host))
    }

    fn ready_hosts(&self) -> Vec<String> {
        let ready = |host: HostView| (host.health == HostHealth::Ready).then(|| host.id.to_string());
        self.hosts().hosts.into_iter().filter_map(ready).collect()
    }

    /// How a drain went, by the JSON that `polder drain` prints.
    ///
    /// # Panics
    /// When it printed something else.
    #[must_use]
    pub fn drain_of(answer: &Answer) -> DrainView {
        serde_json::from_str(&answer.stdout).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
    }

    /// The quota of the test account.
    #[must_use]
    pub fn quota(&self) -> Value {
        serde_json::from_str(&self.cli(&["quota", "get", "test", "-o", "json"]).stdout).unwrap_or_default()
    }

    /// Names of all processes.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.roles.keys().cloned().collect()
    }

    fn role(&mut self, name: &str) -> &mut Role {
        self.roles.get_mut(name).unwrap_or_else(|| panic!("there is no process {name}"))
    }

    /// Starts a process, again.
    pub fn revive(&mut self, name: &str) {
        let (polder, log) = (self.polder.clone(), self.dir.path().join(format!("{name}.log")));
        self.role(name).start(&polder, &log);
    }

    /// Adds an agent that calls itself like a host, with a data folder of its own, and starts it.
    ///
    /// # Panics
    /// When there is no such host.
    pub fn add_impostor(&mut self, host: &str) -> String {
        let name = format!("{host}-impostor");
        let mut args = self.role(host).args().to_vec();
        let data = args.iter().rposition(|arg| arg == "--data").expect("a host has a folder") + 1;
        args[data] = self.dir.path().join(&name).display().to_string();
        // The one that it imitates has that address already.
        if let Some(metrics) = args.iter().position(|arg| arg == "--metrics") {
            args.drain(metrics..metrics + 2);
        }
        self.roles.insert(name.clone(), Role::new(args));
        self.hosts.push(name.clone());
        self.revive(&name);
        name
    }

    /// `kill -9`.
    pub fn kill(&mut self, name: &str) {
        self.role(name).kill();
    }

    /// SIGSTOP: it neither acts nor answers.
    pub fn pause(&mut self, name: &str) {
        self.role(name).pause();
    }

    /// SIGCONT.
    pub fn resume(&mut self, name: &str) {
        self.role(name).resume();
    }

    /// Kills a whole host: its agent, every shim, every process of a container.
    pub fn kill_host(&mut self, name: &str) {
        self.kill(name);
        self.must(&["host", "purge", "--data", &self.dir.path().join(name).display().to_string()]);
    }

    /// Starts what ended by itself, as an init system would.
    pub fn look_after(&mut self) {
        for name in self.names() {
            if self.role(&name).has_ended() {
                self.revive(&name);
            }
        }
    }

    /// The ends of all logs, for a failure's message.
    #[must_use]
    pub fn logs(&self) -> String {
        const LINES: usize = 15;
        let mut text = String::new();
        for name in self.roles.keys() {
            let log = fs::read_to_string(self.dir.path().join(format!("{name}.log"))).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            text.push_str(&format!("--- {name}\n{}\n", lines[lines.len().saturating_sub(LINES)..].join("\n")));
        }
        text
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        for role in self.roles.values_mut() {
            role.stop();
        }
        for host in &self.hosts {
            let data = self.dir.path().join(host).display().to_string();
            let answer = call(&self.polder, &["host", "purge", "--data", &data], &self.addr);
            if answer.code != 0 {
                eprintln!("purge of {host}: {answer:?}");
            }
        }
        for disk in &self.disks {
            let _ = Command::new("umount").arg(disk).status();
        }
        let left = leftovers::find(self.dir.path(), &self.hosts);
        if !std::thread::panicking() {
            assert!(left.is_empty(), "left behind:\n{}", left.join("\n"));
        }
    }
}
