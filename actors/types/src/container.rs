//! One start of a task, as a host sees it.

use crate::{
    ids::Generation,
    job::{HealthCheck, StopSpec},
    names::Name,
    units::{Bytes, Cpu, Timestamp},
};
use alloc::{collections::BTreeMap, string::String, vec::Vec};
use core::fmt;
use serde::{Deserialize, Serialize};

/// A named port with its number on the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortBinding {
    /// Its name in the job.
    pub name: Name,
    /// Its number.
    pub port: u16,
}

/// Everything a host needs to run one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerSpec {
    /// The job's generation that this container was made from.
    pub generation: Generation,
    /// The image reference.
    pub image: String,
    /// The command; empty means the image's own.
    pub command: Vec<String>,
    /// Arguments; appended to the command, or put in place of the image's own.
    pub args: Vec<String>,
    /// The job's environment. The host adds the ports and Polder's own variables.
    pub env: BTreeMap<String, String>,
    /// `user[:group]`, by name or number; none means the image's own.
    pub user: Option<String>,
    /// Working directory; none means the image's own.
    pub workdir: Option<String>,
    /// CPU limit.
    pub cpu: Cpu,
    /// Memory limit.
    pub memory: Bytes,
    /// Limit of processes and threads.
    pub pids: u32,
    /// Ports that were allocated.
    pub ports: Vec<PortBinding>,
    /// How to stop it.
    pub stop: StopSpec,
    /// How to see that it is well; none means that running is enough.
    pub health: Option<HealthCheck>,
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum ExitStatus {
    /// It returned a code.
    Code {
        /// The code.
        code: i32,
    },
    /// A signal ended it.
    Signal {
        /// The signal's number.
        signal: i32,
        /// Whether the kernel killed it for using more memory than its limit.
        oom: bool,
    },
    /// It never ran.
    NotStarted {
        /// Why.
        reason: String,
    },
    /// It is gone and nobody saw how.
    Unknown {
        /// What is known.
        reason: String,
    },
}

impl ExitStatus {
    /// Whether the container did what it was to do.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Code { code: 0 })
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code { code } => write!(f, "exit code {code}"),
            Self::Signal { oom: true, .. } => write!(f, "out of memory"),
            Self::Signal { signal, .. } => write!(f, "signal {signal}"),
            Self::NotStarted { reason } => write!(f, "not started: {reason}"),
            Self::Unknown { reason } => write!(f, "unknown: {reason}"),
        }
    }
}

/// Where a container is in its life, as its host reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "phase")]
pub enum ContainerPhase {
    /// Accepted; image and root are being prepared.
    Preparing,
    /// Its process runs.
    Running {
        /// Since when.
        started_at: Timestamp,
        /// The process id on the host.
        pid: u32,
        /// Whether its health check passes (true without one).
        ready: bool,
    },
    /// It was told to stop and has not ended yet.
    Stopping {
        /// When it will be killed.
        kill_at: Timestamp,
    },
    /// It has ended, and everything it held on the host is given back.
    Ended {
        /// How.
        status: ExitStatus,
        /// When.
        at: Timestamp,
    },
}

/// A container's phase and what it holds, as its host reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerStatus {
    /// The container.
    pub id: crate::ids::ContainerId,
    /// Where it is in its life.
    pub phase: ContainerPhase,
}
