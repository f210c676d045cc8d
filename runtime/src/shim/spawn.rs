//! Starting a shim, and getting rid of one that failed.

use std::{
    fs::{self, File},
    io,
    os::fd::OwnedFd,
    os::unix::net::UnixStream,
    path::Path,
    process::Stdio,
};

use polder_shim::{LOCK_FILE, LOG_FILE, Launch, ProcessMark, Survives, cgroup::Cgroups, write_record};
use rustix::process::Signal;

use super::{ShimBinary, process::Process, state_dir::StateDir};

/// A shim that was just started, and our end of the handshake.
pub(crate) struct Spawned {
    pub(crate) shim: Process,
    pub(crate) socket: UnixStream,
}

/// Makes the state directory and starts the shim. Blocks: files are written and a program is executed.
pub(crate) fn spawn(binary: &ShimBinary, dir: &StateDir, launch: &Launch, hostname: &str) -> io::Result<Spawned> {
    dir.make()?;
    fs::write(dir.hostname(), format!("{hostname}\n"))?;
    write_record(&dir.launch(), launch, Survives::ThisBoot)?;
    let lock = dir.lock()?.ok_or_else(|| io::Error::other("another shim holds its lock"))?;
    let log = File::options().create(true).append(true).open(dir.state.join(LOG_FILE))?;
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;

    let mut command = binary.command();
    command.arg("create").arg(&dir.state);
    command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(lock).stderr(log);
    let mut child = command.spawn()?;
    // It holds the shim's ends of everything open, the lock too.
    drop(command);
    // A child that nobody has waited for keeps its number, so this is the right process even if it has ended.
    let opened = i32::try_from(child.id()).map_err(io::Error::other).and_then(ProcessMark::of).and_then(Process::open);
    match opened {
        Ok(shim) => Ok(Spawned { shim, socket: ours }),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(error)
        }
    }
}

/// Kills whatever is left of a shim and its container, and removes everything of it. Blocks.
pub(crate) fn clear(cgroups: &Cgroups, cgroup: &Path, dir: &StateDir) -> io::Result<()> {
    kill_lock_holders(dir);
    let left = cgroups.kill(cgroup)?;
    if left > 0 {
        return Err(io::Error::other(format!("{left} processes in {} don't die", cgroup.display())));
    }
    cgroups.remove(cgroup)?;
    dir.remove()
}

/// A shim that is killed while libcontainer is at work may leave a process that is not in the container's cgroup yet.
/// It has the shim's standard output, which is the lock.
fn kill_lock_holders(dir: &StateDir) {
    // Looking at every process of the host is for when something went wrong.
    if !dir.lock().is_ok_and(|lock| lock.is_none()) {
        return;
    }
    let lock = dir.state.join(LOCK_FILE);
    let Ok(entries) = fs::read_dir("/proc") else { return };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let holds = || fs::read_link(format!("/proc/{pid}/fd/1")).is_ok_and(|target| target == lock);
        if !holds() {
            continue;
        }
        let Ok(process) = ProcessMark::of(pid).and_then(Process::open) else { continue };
        // Looked at again, now that the number can't come to mean another.
        if holds() {
            let _ = process.signal(Signal::KILL);
        }
    }
}
