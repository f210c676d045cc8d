//! The cgroups of a container, by their files: version 1, version 2, and both mounted at once.
//!
//! A container's cgroup is one path (`/polder/HOST/CONTAINER`) below the root of every hierarchy. What is said here
//! about a container covers the cgroups that it made below its own, too.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    thread::sleep,
    time::Duration,
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How often a cgroup that is still busy is tried again. The kernel needs a moment after the last process has gone.
const REMOVE_TRIES_MAX: u32 = 50;
/// How often a cgroup is made again that vanished meanwhile.
const MAKE_TRIES_MAX: u32 = 100;
/// The pause between two tries.
const REMOVE_PAUSE: Duration = Duration::from_millis(10);
/// How often the processes are listed and killed; each time catches those that were forked meanwhile.
const KILL_ROUNDS_MAX: u32 = 20;
/// How deep cgroups may be nested before they are no longer followed.
const DEPTH_MAX: u32 = 32;

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where.
    pub mount: PathBuf,
    /// Its controllers; for version 2 there are none here, they are in its files.
    pub controllers: Vec<String>,
    /// Whether it is version 2.
    pub unified: bool,
}

/// The hierarchies of this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cgroups {
    hierarchies: Vec<Hierarchy>,
}

impl Cgroups {
    /// Finds what is mounted.
    ///
    /// # Errors
    /// When `/proc` can't be read.
    pub fn of_host() -> io::Result<Self> {
        Ok(Self::parse(&fs::read_to_string("/proc/self/mountinfo")?))
    }

    /// From the text of `/proc/self/mountinfo`. A hierarchy that is mounted more than once counts once.
    #[must_use]
    pub fn parse(mountinfo: &str) -> Self {
        let mut seen = BTreeSet::new();
        let mut hierarchies = Vec::new();
        for line in mountinfo.lines() {
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let left: Vec<&str> = left.split(' ').collect();
            let right: Vec<&str> = right.split(' ').collect();
            let (Some(device), Some(mount), Some(kind), Some(options)) =
                (left.get(2), left.get(4), right.first(), right.get(2))
            else {
                continue;
            };
            let unified = *kind == "cgroup2";
            if !(unified || *kind == "cgroup") || !seen.insert(*device) {
                continue;
            }
            let controllers = if unified {
                Vec::new()
            } else {
                options.split(',').filter(|option| !matches!(*option, "rw" | "ro")).map(str::to_owned).collect()
            };
            hierarchies.push(Hierarchy { mount: PathBuf::from(unescape(mount)), controllers, unified });
        }
        Self { hierarchies }
    }

    /// All of them.
    #[must_use]
    pub fn hierarchies(&self) -> &[Hierarchy] {
        &self.hierarchies
    }

    /// Whether version 2 is the one that limits things here.
    #[must_use]
    pub fn is_unified(&self) -> bool {
        self.hierarchies.iter().any(|one| one.unified) && self.hierarchies.iter().all(|one| one.unified)
    }

    /// The directory of a cgroup in the hierarchy of a version 1 controller, or in the only hierarchy of version 2.
    #[must_use]
    pub fn dir(&self, controller: &str, path: &Path) -> Option<PathBuf> {
        let unified = self.is_unified();
        let found = self
            .hierarchies
            .iter()
            .find(|one| if unified { one.unified } else { one.controllers.iter().any(|name| name == controller) })?;
        Some(below(&found.mount, path))
    }

    /// The directories of a cgroup that exist, one of each hierarchy.
    #[must_use]
    pub fn dirs(&self, path: &Path) -> Vec<PathBuf> {
        self.hierarchies.iter().map(|one| below(&one.mount, path)).filter(|dir| dir.is_dir()).collect()
    }

    /// Processes in a cgroup, as this process's pid namespace numbers them.
    ///
    /// # Errors
    /// When a list can't be read. A cgroup that isn't there has no processes.
    pub fn processes(&self, path: &Path) -> io::Result<BTreeSet<i32>> {
        let mut found = BTreeSet::new();
        for dir in self.dirs(path) {
            visit(&dir, &mut |dir| {
                match fs::read_to_string(dir.join("cgroup.procs")) {
                    Ok(text) => found.extend(text.lines().filter_map(|line| line.parse::<i32>().ok())),
                    Err(error) if is_gone(&error) => {}
                    Err(error) => return Err(error),
                }
                Ok(())
            })?;
        }
        Ok(found)
    }

    /// How many processes the kernel killed in a cgroup because it had reached its memory limit.
    #[must_use]
    pub fn oom_kills(&self, path: &Path) -> u64 {
        let Some(dir) = self.dir("memory", path) else { return 0 };
        if self.is_unified() {
            // Counts the cgroups below, too.
            return keyed(&dir.join("memory.events"), "oom_kill").unwrap_or(0);
        }
        let mut sum = 0;
        let _ = visit(&dir, &mut |dir| {
            sum += keyed(&dir.join("memory.oom_control"), "oom_kill").unwrap_or(0);
            Ok(())
        });
        sum
    }

    /// Kills everything in a cgroup, frozen or not, and gives how many processes were left when it stopped trying.
    ///
    /// # Errors
    /// When the processes can't be listed.
    pub fn kill(&self, path: &Path) -> io::Result<usize> {
        for round in 0..KILL_ROUNDS_MAX {
            let pids = self.processes(path)?;
            if pids.is_empty() {
                return Ok(0);
            }
            if round > 0 {
                sleep(REMOVE_PAUSE);
            }
            self.kill_at_once(path);
            // A number may mean another process by the time it is used; a pidfd can't, and what is still listed after
            // it was opened is what was meant.
            let held: Vec<_> = pids.iter().filter_map(|&pid| Some((pid, open(pid)?))).collect();
            let still = self.processes(path)?;
            for (_, process) in held.iter().filter(|(pid, _)| still.contains(pid)) {
                let _ = pidfd_send_signal(process, Signal::KILL);
            }
            self.thaw(path);
        }
        Ok(self.processes(path)?.len())
    }

    /// Version 2 has a file for it.
    fn kill_at_once(&self, path: &Path) {
        for one in self.hierarchies.iter().filter(|one| one.unified) {
            let file = below(&one.mount, path).join("cgroup.kill");
            if file.exists() {
                let _ = fs::write(file, "1");
            }
        }
    }

    /// A frozen process of version 1 doesn't die before it is thawed.
    fn thaw(&self, path: &Path) {
        for dir in self.dirs(path) {
            let _ = visit(&dir, &mut |dir| {
                let state = dir.join("freezer.state");
                if state.exists() {
                    let _ = fs::write(state, "THAWED");
                }
                Ok(())
            });
        }
    }

    /// Makes a cgroup in every hierarchy that limits things. Others may be removing the ones above it at the same time.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn make(&self, path: &Path) -> io::Result<()> {
        let unified = self.is_unified();
        let limiting = self.hierarchies.iter().filter(|one| {
            if unified { one.unified } else { one.controllers.iter().any(|name| !name.starts_with("name=")) }
        });
        for one in limiting {
            let dir = below(&one.mount, path);
            let mut tries = 0;
            while let Err(error) = fs::create_dir_all(&dir) {
                tries += 1;
                if error.kind() != ErrorKind::NotFound || tries == MAKE_TRIES_MAX {
                    let text = format!("cgroup {} can't be made: {error}", dir.display());
                    return Err(io::Error::new(error.kind(), text));
                }
            }
        }
        Ok(())
    }

    /// Removes a cgroup and everything below it from every hierarchy. It must have no processes.
    ///
    /// # Errors
    /// When one stays busy.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        self.dirs(path).iter().try_for_each(|dir| remove_tree(dir, true))
    }

    /// Removes everything below a cgroup, but not the cgroup itself.
    ///
    /// # Errors
    /// When one stays busy.
    pub fn remove_children(&self, path: &Path) -> io::Result<()> {
        self.dirs(path).iter().try_for_each(|dir| remove_tree(dir, false))
    }

    /// Removes a cgroup where it is empty, and doesn't mind where it isn't.
    pub fn remove_if_empty(&self, path: &Path) {
        for dir in self.dirs(path) {
            let _ = fs::remove_dir(dir);
        }
    }
}

fn open(pid: i32) -> Option<std::os::fd::OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

fn below(mount: &Path, path: &Path) -> PathBuf {
    mount.join(path.strip_prefix("/").unwrap_or(path))
}

/// Spaces and their like are octal in the kernel's tables.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

/// `ENODEV` is what a file of a cgroup says that was removed while it was open.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error())
}

/// One value of a file with lines of `key value`.
#[must_use]
pub fn keyed(file: &Path, key: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

/// A cgroup and all below it, the deepest first.
fn visit(dir: &Path, act: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    fn walk(dir: &Path, depth: u32, act: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
        if depth > 0 {
            for child in children(dir)? {
                walk(&child, depth - 1, act)?;
            }
        }
        act(dir)
    }
    walk(dir, DEPTH_MAX, act)
}

fn children(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let Ok(entry) = entry else { continue };
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn remove_tree(dir: &Path, with_itself: bool) -> io::Result<()> {
    visit(dir, &mut |one| if with_itself || one != dir { remove_one(one) } else { Ok(()) })
}

fn remove_one(dir: &Path) -> io::Result<()> {
    let mut tries = 0;
    loop {
        match fs::remove_dir(dir) {
            Ok(()) => return Ok(()),
            Err(error) if is_gone(&error) => return Ok(()),
            Err(error) if tries == REMOVE_TRIES_MAX || error.kind() != ErrorKind::ResourceBusy => {
                return Err(io::Error::new(
                    error.kind(),
                    format!("cgroup {} can't be removed: {error}", dir.display()),
                ));
            }
            Err(_) => {
                tries += 1;
                sleep(REMOVE_PAUSE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
22 1 0:20 / /sys rw - sysfs sysfs rw
30 22 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/memory rw,relatime shared:4 - cgroup cgroup rw,memory
33 30 0:28 / /mnt/again rw,relatime - cgroup cgroup rw,memory
34 30 0:29 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
35 30 0:30 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup rw
";

    #[test]
    fn hybrid_hosts_are_limited_by_version_1() {
        let cgroups = Cgroups::parse(HYBRID);
        assert_eq!(cgroups.hierarchies().len(), 4, "{cgroups:?}");
        assert!(!cgroups.is_unified());
        let dir = cgroups.dir("memory", Path::new("/polder/h/c")).unwrap();
        assert_eq!(dir, Path::new("/sys/fs/cgroup/memory/polder/h/c"));
        assert_eq!(cgroups.dir("cpuacct", Path::new("/x")).unwrap(), Path::new("/sys/fs/cgroup/cpu/x"));
        assert_eq!(cgroups.dir("pids", Path::new("/x")), None);
    }

    #[test]
    fn version_2_has_one_directory_for_everything() {
        let cgroups = Cgroups::parse("35 30 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n");
        assert!(cgroups.is_unified());
        assert_eq!(cgroups.dir("memory", Path::new("/x")).unwrap(), Path::new("/sys/fs/cgroup/x"));
    }

    #[test]
    fn garbage_is_no_hierarchy() {
        assert_eq!(Cgroups::parse("a b c\n - cgroup\n1 2 3 - cgroup x\n"), Cgroups::default());
        assert!(!Cgroups::default().is_unified());
    }
}
