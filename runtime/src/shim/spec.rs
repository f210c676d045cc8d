//! The OCI spec of a container, said in full: nothing is left to a library's defaults, some of which let a container out.

use std::path::{Component, Path};

use polder_shim::cgroup::Cgroups;
use rustix::process::{Resource, getrlimit};
use serde_json::{Map, Value, json};

use super::{Bind, LaunchSpec, limits, seccomp, state_dir::StateDir};

/// What a process that is root in its container may do: change owners and users within it, bind low ports. Not among
/// them: raw packets, making devices, mounting, tracing others, loading modules, the clock, file capabilities.
const CAPABILITIES: [&str; 10] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_NET_BIND_SERVICE",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
];

/// Hidden: what tells about the host or reaches into it.
const MASKED: [&str; 12] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Where the files that name hosts are. The container shares the host's network, so it sees the host's.
const NETWORK_FILES: [&str; 2] = ["/etc/hosts", "/etc/resolv.conf"];

const DEFAULT_PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The kernel's own limit.
const HOSTNAME_BYTES_MAX: usize = 64;

/// One period of the CPU limit, in microseconds.
const CPU_PERIOD_US: u64 = 100_000;
/// The kernel takes no shorter quota.
const CPU_QUOTA_US_MIN: u64 = 1_000;
/// The kernel takes no smaller share.
const CPU_SHARES_MIN: u64 = 2;
/// The share of one core.
const CPU_SHARES_CORE: u64 = 1024;

/// What of the host decides about a spec.
#[derive(Clone, Debug)]
pub(crate) struct HostFacts {
    pub(crate) unified: bool,
    /// Whether swap is counted, so that it can be limited.
    pub(crate) swap_limit: bool,
    pub(crate) open_files_max: u64,
    pub(crate) oom_score: i64,
}

impl HostFacts {
    pub(crate) fn of(cgroups: &Cgroups) -> Self {
        let unified = cgroups.is_unified();
        let swap_limit = if unified {
            Path::new("/proc/swaps").exists()
        } else {
            cgroups.dir("memory", Path::new("/")).is_some_and(|dir| dir.join("memory.memsw.limit_in_bytes").exists())
        };
        // Raising it above the host's own would fail, in a place that no longer says why.
        let open_files_max = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX).min(limits::OPEN_FILES_MAX);
        // A host agent may be protected from the kernel's killer; its containers are not. Lowering may be forbidden.
        let own = std::fs::read_to_string("/proc/self/oom_score_adj").ok().and_then(|text| text.trim().parse().ok());
        Self { unified, swap_limit, open_files_max, oom_score: own.unwrap_or(0).max(0) }
    }
}

/// Checks what a library would refuse late, or not at all.
pub(crate) fn check(spec: &LaunchSpec) -> Result<(), String> {
    if spec.args.is_empty() {
        return Err("it has no command: neither the job nor the image has one".to_owned());
    }
    if spec.args[0].is_empty() {
        return Err("its command is empty".to_owned());
    }
    let words = spec.args.iter().chain(&spec.env);
    if spec.args.len() > limits::WORDS_MAX || spec.env.len() > limits::WORDS_MAX {
        return Err(format!("it has more than {} arguments or variables", limits::WORDS_MAX));
    }
    if words.clone().map(String::len).sum::<usize>() > limits::WORD_BYTES_MAX {
        return Err(format!("its arguments and variables are longer than {} bytes", limits::WORD_BYTES_MAX));
    }
    if words.clone().any(|word| word.contains('\0')) {
        return Err("an argument or a variable has a zero byte in it".to_owned());
    }
    if let Some(pair) = spec.env.iter().find(|pair| !pair.contains('=') || pair.starts_with('=')) {
        return Err(format!("`{pair}` is not KEY=VALUE"));
    }
    if spec.layers.is_empty() || spec.layers.len() > limits::LAYERS_MAX {
        return Err(format!("its image has {} layers, 1 to {} are possible", spec.layers.len(), limits::LAYERS_MAX));
    }
    if spec.hostname.is_empty() || spec.hostname.len() > HOSTNAME_BYTES_MAX || spec.hostname.contains('\0') {
        return Err(format!("its host name must have 1 to {HOSTNAME_BYTES_MAX} bytes"));
    }
    if spec.binds.len() > limits::BINDS_MAX {
        return Err(format!("it has {} files of the host, {} at most", spec.binds.len(), limits::BINDS_MAX));
    }
    let sources = spec.binds.iter().flat_map(|bind| [&bind.source, &bind.target]);
    for path in spec.layers.iter().chain(sources).chain([&spec.workdir, &spec.stdout, &spec.stderr]) {
        let clean = path.is_absolute() && !path.components().any(|part| matches!(part, Component::ParentDir));
        if !clean || path.to_str().is_none() {
            return Err(format!("`{}` is not an absolute path without `..`", path.display()));
        }
    }
    Ok(())
}

/// The spec, complete but for the user's numbers and `HOME`, which only the image knows.
pub(crate) fn oci(spec: &LaunchSpec, facts: &HostFacts, dir: &StateDir, cgroup: &Path) -> Value {
    let mut env = spec.env.clone();
    if !env.iter().any(|pair| pair.starts_with("PATH=")) {
        env.push(DEFAULT_PATH.to_owned());
    }
    json!({
        "ociVersion": "1.0.2",
        "root": { "path": polder_shim::ROOTFS_DIR, "readonly": false },
        "hostname": spec.hostname,
        "mounts": mounts(spec, facts, dir),
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "args": spec.args,
            "env": env,
            "cwd": spec.workdir,
            // None that survives an exec of a program that isn't root's.
            "capabilities": {
                "bounding": CAPABILITIES,
                "effective": CAPABILITIES,
                "permitted": CAPABILITIES,
                "inheritable": [],
                "ambient": [],
            },
            "noNewPrivileges": true,
            "oomScoreAdj": facts.oom_score,
            "rlimits": [{ "type": "RLIMIT_NOFILE", "hard": facts.open_files_max, "soft": facts.open_files_max }],
        },
        "linux": {
            // No network namespace: the host's network, with ports that were allocated.
            "namespaces": namespaces(facts),
            "cgroupsPath": cgroup,
            "resources": resources(spec, facts),
            "seccomp": seccomp::profile(),
            "maskedPaths": MASKED,
            "readonlyPaths": READ_ONLY,
        },
    })
}

fn namespaces(facts: &HostFacts) -> Value {
    let mut kinds = vec!["pid", "mount", "ipc", "uts"];
    if facts.unified {
        // The read-only cgroup mount then shows the container its own part only.
        kinds.push("cgroup");
    }
    kinds.iter().map(|kind| json!({ "type": kind })).collect()
}

fn mounts(spec: &LaunchSpec, facts: &HostFacts, dir: &StateDir) -> Value {
    let mount = |to: &str, kind: &str, options: &[&str]| json!({ "destination": to, "type": kind, "source": kind, "options": options });
    let mut all = vec![
        mount("/proc", "proc", &["nosuid", "noexec", "nodev"]),
        mount("/dev", "tmpfs", &["nosuid", "noexec", "strictatime", "mode=755", "size=65536k"]),
        mount("/dev/pts", "devpts", &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]),
        mount("/dev/shm", "tmpfs", &["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]),
        mount("/dev/mqueue", "mqueue", &["nosuid", "noexec", "nodev"]),
        mount("/sys", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
    ];
    if facts.unified {
        all.push(mount("/sys/fs/cgroup", "cgroup", &["nosuid", "noexec", "nodev", "relatime", "ro"]));
    }
    // On version 1 there is none: libcontainer mounts it writable whatever the options say, and a container that can
    // write there sets its own limits.

    let host_file =
        |source: &Path, target: &str| Bind { source: source.to_owned(), target: target.into(), read_only: true };
    let network =
        NETWORK_FILES.iter().filter(|file| Path::new(file).is_file()).map(|file| host_file(Path::new(file), file));
    let given = |target: &Path| spec.binds.iter().any(|bind| bind.target == target);
    let own = network.chain([host_file(&dir.hostname(), "/etc/hostname")]).filter(|bind| !given(&bind.target));
    let binds: Vec<Bind> = own.chain(spec.binds.iter().cloned()).collect();
    all.extend(binds.iter().map(|bind| {
        let mut options = vec!["bind", "nosuid", "nodev"];
        options.push(if bind.read_only { "ro" } else { "rw" });
        json!({ "destination": bind.target, "type": "bind", "source": bind.source, "options": options })
    }));
    Value::Array(all)
}

fn resources(spec: &LaunchSpec, facts: &HostFacts) -> Value {
    let mut all = Map::new();
    // Everything is denied first; libcontainer then allows the few devices that it makes.
    all.insert("devices".to_owned(), json!([{ "allow": false, "access": "rwm" }]));
    let cores = u64::from(spec.cpu.centi_cores());
    if cores > 0 {
        all.insert(
            "cpu".to_owned(),
            json!({
                "period": CPU_PERIOD_US,
                "quota": (cores * CPU_PERIOD_US / 100).max(CPU_QUOTA_US_MIN),
                "shares": (cores * CPU_SHARES_CORE / 100).max(CPU_SHARES_MIN),
            }),
        );
    }
    let memory = i64::try_from(spec.memory.get()).unwrap_or(i64::MAX);
    if memory > 0 {
        let mut limit = json!({ "limit": memory });
        if facts.swap_limit && !facts.unified {
            // Memory and swap together: no swap.
            limit["swap"] = memory.into();
        }
        all.insert("memory".to_owned(), limit);
        if facts.swap_limit && facts.unified {
            // libcontainer skips a swap limit of zero, so it is said by the kernel's own name.
            all.insert("unified".to_owned(), json!({ "memory.swap.max": "0" }));
        }
    }
    if spec.pids > 0 {
        all.insert("pids".to_owned(), json!({ "limit": spec.pids }));
    }
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use polder_types::{Bytes, Cpu};

    fn launch() -> LaunchSpec {
        LaunchSpec {
            id: "shop/web/1@2".parse().unwrap(),
            layers: vec!["/layers/a".into()],
            args: vec!["/bin/true".into()],
            env: vec!["A=b".into()],
            user: None,
            workdir: "/".into(),
            cpu: Cpu::from_centi_cores(50),
            memory: Bytes::from_mib(32),
            pids: 20,
            hostname: "web-1".into(),
            binds: Vec::new(),
            stdout: "/logs/out".into(),
            stderr: "/logs/err".into(),
        }
    }

    fn made(unified: bool, spec: &LaunchSpec) -> Value {
        let facts = HostFacts { unified, swap_limit: true, open_files_max: 1000, oom_score: 0 };
        let dir = StateDir::new(Path::new("/state"), Path::new("/scratch"), "x");
        oci(spec, &facts, &dir, Path::new("/polder/h/x"))
    }

    fn destinations(spec: &Value) -> Vec<&str> {
        spec["mounts"].as_array().unwrap().iter().filter_map(|mount| mount["destination"].as_str()).collect()
    }

    #[test]
    fn every_word_is_one_that_oci_knows() {
        for unified in [false, true] {
            let spec = made(unified, &launch());
            let parsed: oci_spec::runtime::Spec = serde_json::from_value(spec.clone()).unwrap();
            let back = serde_json::to_value(&parsed).unwrap();
            assert_contains(&back, &spec, "spec");
        }
    }

    /// Everything that was said is still there after a round through the types: no word was misspelt.
    fn assert_contains(back: &Value, said: &Value, at: &str) {
        match (back, said) {
            (Value::Object(back), Value::Object(said)) => {
                for (key, value) in said {
                    let found = back.get(key).unwrap_or_else(|| panic!("{at}.{key} is not known"));
                    assert_contains(found, value, &format!("{at}.{key}"));
                }
            }
            (Value::Array(back), Value::Array(said)) => {
                let text =
                    |values: &[Value]| values.iter().map(Value::to_string).collect::<std::collections::BTreeSet<_>>();
                if said.iter().all(Value::is_string) {
                    assert_eq!(text(back), text(said), "{at}");
                } else {
                    assert_eq!(back.len(), said.len(), "{at}");
                    back.iter().zip(said).for_each(|(back, said)| assert_contains(back, said, at));
                }
            }
            _ => assert_eq!(back, said, "{at}"),
        }
    }

    #[test]
    fn the_cgroup_file_system_is_seen_only_on_version_2() {
        assert!(!destinations(&made(false, &launch())).contains(&"/sys/fs/cgroup"));
        let spec = made(true, &launch());
        assert!(destinations(&spec).contains(&"/sys/fs/cgroup"));
        let cgroup = spec["mounts"].as_array().unwrap().iter().find(|mount| mount["type"] == "cgroup").unwrap();
        assert!(cgroup["options"].as_array().unwrap().contains(&"ro".into()));
    }

    #[test]
    fn pitfall_8_there_is_no_swap_on_either_version() {
        let old = made(false, &launch());
        assert_eq!(old["linux"]["resources"]["memory"], json!({ "limit": 32 << 20, "swap": 32 << 20 }));
        let new = made(true, &launch());
        assert_eq!(new["linux"]["resources"]["memory"], json!({ "limit": 32 << 20 }));
        assert_eq!(new["linux"]["resources"]["unified"], json!({ "memory.swap.max": "0" }));
    }

    #[test]
    fn limits_are_what_was_asked_for() {
        let spec = made(false, &launch());
        let resources = &spec["linux"]["resources"];
        assert_eq!(resources["cpu"], json!({ "period": 100_000, "quota": 50_000, "shares": 512 }));
        assert_eq!(resources["pids"]["limit"], 20);
        assert_eq!(resources["devices"][0]["allow"], false);
        let none = LaunchSpec { cpu: Cpu::ZERO, memory: Bytes::ZERO, pids: 0, ..launch() };
        let spec = made(true, &none);
        assert_eq!(spec["linux"]["resources"].as_object().unwrap().keys().collect::<Vec<_>>(), ["devices"]);
    }

    #[test]
    fn nobody_gains_privileges() {
        let spec = made(false, &launch());
        assert_eq!(spec["process"]["noNewPrivileges"], true);
        for set in ["inheritable", "ambient"] {
            assert_eq!(spec["process"]["capabilities"][set], json!([]));
        }
        let bounding = spec["process"]["capabilities"]["bounding"].to_string();
        for dangerous in ["SYS_ADMIN", "NET_RAW", "MKNOD", "SYS_PTRACE", "NET_ADMIN", "SYS_MODULE", "SETFCAP"] {
            assert!(!bounding.contains(dangerous), "{dangerous}");
        }
    }

    #[test]
    fn a_file_of_the_job_goes_before_the_hosts() {
        let own = Bind { source: "/x/hosts".into(), target: "/etc/hosts".into(), read_only: true };
        let spec = made(false, &LaunchSpec { binds: vec![own], ..launch() });
        let hosts: Vec<_> = destinations(&spec).into_iter().filter(|to| *to == "/etc/hosts").collect();
        assert_eq!(hosts.len(), 1);
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        let refused = |spec: LaunchSpec| check(&spec).unwrap_err();
        assert!(check(&launch()).is_ok());
        assert!(refused(LaunchSpec { args: vec![], ..launch() }).contains("no command"));
        assert!(refused(LaunchSpec { env: vec!["NOPE".into()], ..launch() }).contains("KEY=VALUE"));
        assert!(refused(LaunchSpec { args: vec!["a\0b".into()], ..launch() }).contains("zero byte"));
        assert!(refused(LaunchSpec { layers: vec![], ..launch() }).contains("layers"));
        assert!(refused(LaunchSpec { workdir: "a".into(), ..launch() }).contains("absolute"));
        assert!(refused(LaunchSpec { stdout: "/a/../b".into(), ..launch() }).contains("absolute"));
        assert!(refused(LaunchSpec { args: vec!["x".repeat(2 << 20)], ..launch() }).contains("bytes"));
    }
}
