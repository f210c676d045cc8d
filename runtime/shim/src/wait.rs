//! Waiting for the container's first process, and writing down how it ended.

use std::path::Path;

use libcontainer::container::Container;
use nix::sys::signal::{SigSet, Signal};
use polder_shim::{
    EXIT_FILE, ExitRecord, LAUNCH_FILE, LIBCONTAINER_DIR, Launch, Outcome, PROTOCOL_VERSION, SHIM_FILE, ShimRecord,
    Survives, cgroup::Cgroups, read_record, write_record,
};

use rustix::{
    io::Errno,
    process::{WaitOptions, wait},
};

use crate::{
    create::{chain, now_ms},
    log,
};

/// What somebody may send to every process they see. The exit status of the container would be lost with the waiter.
const NOT_FOR_US: [Signal; 6] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];

/// `__WALL`.
const WAIT_ALL: u32 = 0x4000_0000;

/// Waits for `init`, records its end, and gives back everything but the state directory.
pub(crate) fn run(dir: &Path, init: i32) -> Result<(), String> {
    let mask: SigSet = NOT_FOR_US.into_iter().collect();
    // Fails for no signal that exists.
    let _ = mask.thread_set_mask();
    let outcome = wait_for(init)?;
    let ended_at_ms = now_ms();

    log::install();
    let shim: ShimRecord = read_record(&dir.join(SHIM_FILE)).map_err(|error| error.to_string())?;
    let cgroups = Cgroups::of_host().map_err(|error| format!("the cgroups can't be found: {error}"))?;
    let exit = ExitRecord {
        version: PROTOCOL_VERSION,
        id: shim.id,
        outcome,
        // Gone with the cgroup.
        oom_kills: cgroups.oom_kills(&shim.cgroup),
        started_at_ms: shim.started_at_ms,
        ended_at_ms,
    };
    write_record(&dir.join(EXIT_FILE), &exit, Survives::Reboot).map_err(|error| error.to_string())?;

    // Its pid namespace ended with the first process; others can have joined only its cgroup.
    let _ = cgroups.kill(&shim.cgroup);
    // libcontainer doesn't delete a container that made cgroups below its own.
    cgroups.remove_children(&shim.cgroup).map_err(|error| error.to_string())?;
    if let Err(reason) = delete(dir) {
        log::line(&reason);
        let _ = std::fs::remove_dir_all(dir.join(LIBCONTAINER_DIR));
    }
    cgroups.remove(&shim.cgroup).map_err(|error| error.to_string())
}

fn wait_for(init: i32) -> Result<Outcome, String> {
    // Also what was cloned with another signal than SIGCHLD.
    let any = WaitOptions::from_bits_retain(WAIT_ALL);
    loop {
        let (pid, status) = match wait(any) {
            Ok(Some(ended)) => ended,
            Ok(None) | Err(Errno::INTR) => continue,
            Err(error) => return Err(format!("how the container ended can't be known: {error}")),
        };
        // Anything else is an orphan that came to us, and is reaped now.
        if pid.as_raw_nonzero().get() == init {
            match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => return Ok(Outcome::Code { code }),
                (None, Some(signal)) => return Ok(Outcome::Signal { signal }),
                (None, None) => {}
            }
        }
    }
}

fn delete(dir: &Path) -> Result<(), String> {
    let launch: Launch = read_record(&dir.join(LAUNCH_FILE)).map_err(|error| error.to_string())?;
    let mut container = Container::load(dir.join(LIBCONTAINER_DIR).join(&launch.name))
        .map_err(|error| chain("libcontainer's state can't be read", &error))?;
    container.delete(true).map_err(|error| chain("libcontainer could not delete the container", &error))
}
