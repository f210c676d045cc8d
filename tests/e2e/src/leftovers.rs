//! What a cluster must not leave behind.

use std::{fs, path::Path};

/// Everything on the machine that belongs to a cluster in `dir` with these hosts.
pub(crate) fn find(dir: &Path, hosts: &[String]) -> Vec<String> {
    let mut left = Vec::new();
    let needle = dir.display().to_string();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    left.extend(mounts.lines().filter(|line| line.contains(&needle)).map(|line| format!("mount: {line}")));
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        if pid == std::process::id() {
            continue;
        }
        let of = |file: &str| fs::read(entry.path().join(file)).unwrap_or_default();
        let text = String::from_utf8_lossy(&of("cmdline")).replace('\0', " ");
        let environment = String::from_utf8_lossy(&of("environ")).into_owned();
        let root = fs::read_link(entry.path().join("root")).map(|path| path.display().to_string()).unwrap_or_default();
        if text.contains(&needle) || root.contains(&needle) || environment.contains(&needle) {
            left.push(format!("process {pid}: {text}"));
        }
    }
    let names: Vec<String> = hosts.iter().map(|host| format!("{host}-{:08x}", mark(&dir.join(host)))).collect();
    let hierarchies = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten().map(|entry| entry.path());
    let parents =
        hierarchies.map(|path| path.join("polder")).chain(["/sys/fs/cgroup/polder".into(), "/run/polder".into()]);
    for parent in parents {
        let found = names.iter().map(|name| parent.join(name)).filter(|path| path.exists());
        left.extend(found.map(|path| format!("left on the machine: {}", path.display())));
    }
    left
}

/// The mark of a host's folder in the names of its cgroup and its run directory: FNV-1a over the path.
fn mark(path: &Path) -> u32 {
    use std::os::unix::ffi::OsStrExt as _;
    let hash = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    path.as_os_str().as_bytes().iter().fold(0x811c_9dc5, hash)
}
