//! One container, as the agent holds it.

use std::{path::PathBuf, sync::Mutex};

use polder_shim::{ExitRecord, Outcome};
use polder_types::{ContainerId, ExitStatus, Timestamp};
use tokio::{net::UnixStream, sync::watch};

use super::{Exit, process::Process, state_dir::StateDir};

/// How far the agent has taken it.
#[derive(Debug)]
pub(crate) enum Stage {
    /// It waits for its go, which goes over this socket. Closing it undoes the container.
    Created(UnixStream),
    /// Somebody is sending the go.
    Starting,
    /// It was started.
    Started,
}

/// A container that exists.
#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) id: ContainerId,
    pub(crate) dir: StateDir,
    pub(crate) cgroup: PathBuf,
    /// Its first process. None if that had gone before this agent came.
    pub(crate) init: Option<Process>,
    /// Its shim. None if that had gone before this agent came.
    pub(crate) shim: Option<Process>,
    pub(crate) stage: Mutex<Stage>,
    /// Its end, once it has ended.
    pub(crate) ended: watch::Sender<Option<Exit>>,
}

impl Container {
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// Takes the socket if the container is still to be started.
    pub(crate) fn take_created(&self) -> Option<UnixStream> {
        let mut stage = self.stage.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match std::mem::replace(&mut *stage, Stage::Starting) {
            Stage::Created(socket) => Some(socket),
            other => {
                *stage = other;
                None
            }
        }
    }

    pub(crate) fn set_started(&self) {
        *self.stage.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Stage::Started;
    }
}

/// The end of a container as its shim wrote it down.
pub(crate) fn exit_of(id: &ContainerId, record: &ExitRecord) -> Exit {
    let oom = record.is_oom();
    let status = match &record.outcome {
        Outcome::Code { code } => ExitStatus::Code { code: *code },
        Outcome::Signal { signal } => ExitStatus::Signal { signal: *signal, oom },
        Outcome::NotStarted { reason } => ExitStatus::NotStarted { reason: reason.clone() },
    };
    Exit {
        id: id.clone(),
        status,
        started_at: record.started_at_ms.map(Timestamp),
        at: Timestamp(record.ended_at_ms),
        oom_kills: record.oom_kills,
    }
}
