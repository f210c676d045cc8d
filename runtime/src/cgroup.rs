//! What a container uses, read from its cgroup's files.

use std::{fs, path::Path};

use polder_shim::cgroup::{Cgroups, keyed};
use polder_types::Bytes;

use crate::shim::ContainerUsage;

/// What the processes in a cgroup use. A file that isn't there counts as nothing: the container has just gone, or the
/// host doesn't count that.
#[must_use]
pub fn usage(cgroups: &Cgroups, path: &Path) -> ContainerUsage {
    let number = |controller: &str, file: &str| {
        let text = fs::read_to_string(cgroups.dir(controller, path)?.join(file)).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let (memory, cpu_us) = if cgroups.is_unified() {
        let cpu = cgroups.dir("cpu", path).and_then(|dir| keyed(&dir.join("cpu.stat"), "usage_usec"));
        (number("memory", "memory.current"), cpu)
    } else {
        let nanoseconds = number("cpuacct", "cpuacct.usage");
        (number("memory", "memory.usage_in_bytes"), nanoseconds.map(|count| count / 1000))
    };
    ContainerUsage {
        memory: Bytes::new(memory.unwrap_or(0)),
        cpu_us: cpu_us.unwrap_or(0),
        pids: number("pids", "pids.current").and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
        oom_kills: cgroups.oom_kills(path),
    }
}
