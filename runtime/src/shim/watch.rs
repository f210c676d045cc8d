//! Waiting for the end of a container.

use std::{fs, path::Path, sync::Arc};

use polder_shim::{ExitRecord, ShimRecord, read_record};
use polder_types::{ContainerId, ExitStatus, Timestamp};
use rustix::process::Signal;
use tokio::{sync::mpsc, task::spawn_blocking, time::sleep};

use super::{
    Exit,
    container::{Container, exit_of},
    limits::SETTLE_PAUSE,
    process::{Ended, Process},
    runtime::Host,
};

/// Waits for the end of a container and tells it to whoever asked.
pub(crate) async fn watch(host: Arc<Host>, container: Arc<Container>, exits: mpsc::Sender<Exit>) {
    if let Some(shim) = &container.shim
        && let Err(error) = shim.ended().await
    {
        tracing::error!(id = %container.id, %error, "the shim can't be waited for");
    }
    let exit = match recorded(&container) {
        Some(exit) => exit,
        None => without_shim(&host, &container).await,
    };
    tracing::debug!(id = %exit.id, status = %exit.status, "container ended");
    // What still lives in its cgroup after a shim that could not clean up must not outlive the report.
    let (cgroups, cgroup) = (host.cgroups.clone(), container.cgroup.clone());
    let _ = spawn_blocking(move || cgroups.kill(&cgroup)).await;
    container.ended.send_replace(Some(exit.clone()));
    // Nobody listens any more when the agent is shutting down.
    let _ = exits.send(exit).await;
}

fn recorded(container: &Container) -> Option<Exit> {
    match read_record::<ExitRecord>(&container.dir.exit()) {
        Ok(record) => Some(exit_of(&container.id, &record)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => Some(unknown(&container.id, format!("what its shim wrote down can't be read: {error}"))),
    }
}

/// The shim died before it could write down anything.
async fn without_shim(host: &Host, container: &Container) -> Exit {
    let started_at = read_record::<ShimRecord>(&container.dir.shim()).ok().and_then(|record| record.started_at_ms);
    let Some(init) = &container.init else {
        return ended_unseen(container, started_at);
    };
    if started_at.is_none() || !is_executed(init).await {
        let _ = init.signal(Signal::KILL);
        let _ = init.ended().await;
        let status = ExitStatus::NotStarted { reason: "its shim died before the container was started".to_owned() };
        return Exit { id: container.id.clone(), status, started_at: None, at: now(), oom_kills: 0 };
    }
    tracing::warn!(id = %container.id, "the shim died; the container is watched without it");
    let ended = match init.ended().await {
        Ok(Some(ended)) => Some(ended),
        Ok(None) => init.status_from_kernel().await,
        Err(_) => None,
    };
    let oom_kills = host.cgroups.oom_kills(&container.cgroup);
    let status = match ended {
        Some(Ended::Code(code)) => ExitStatus::Code { code },
        Some(Ended::Signal(signal)) => {
            let oom = oom_kills > 0 && signal == Signal::KILL.as_raw();
            ExitStatus::Signal { signal, oom }
        }
        None => {
            ExitStatus::Unknown { reason: "its shim had died, and this kernel doesn't say how it ended".to_owned() }
        }
    };
    let started_at = started_at.map(Timestamp);
    Exit { id: container.id.clone(), status, started_at, at: now(), oom_kills }
}

fn ended_unseen(container: &Container, started_at: Option<u64>) -> Exit {
    let mut exit = unknown(&container.id, "it ended while neither its shim nor an agent was there".to_owned());
    exit.started_at = started_at.map(Timestamp);
    exit
}

/// Whether the container's first process has become the container's program. Until then it is the shim's own, waiting
/// for a start that will not come. A start that is under way takes a moment.
async fn is_executed(init: &Process) -> bool {
    let exe = format!("/proc/{}/exe", init.pid());
    let is_shim =
        || fs::read_link(&exe).is_ok_and(|target| target.starts_with(Path::new("/memfd:polder-shim (deleted)")));
    for _ in 0..EXEC_LOOKS {
        if !is_shim() {
            return true;
        }
        sleep(SETTLE_PAUSE).await;
    }
    !is_shim()
}

/// How often it is looked at: a second in all.
const EXEC_LOOKS: u32 = 50;

pub(crate) fn unknown(id: &ContainerId, reason: String) -> Exit {
    Exit { id: id.clone(), status: ExitStatus::Unknown { reason }, started_at: None, at: now(), oom_kills: 0 }
}

pub(crate) fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
