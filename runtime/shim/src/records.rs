//! The files of a container's state directory.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

use crate::{PROTOCOL_VERSION, ProcessMark};

/// A file that says which version of its format it has.
pub trait Versioned {
    /// Its version.
    fn version(&self) -> u32;
}

macro_rules! versioned {
    ($($record:ty),*) => {
        $(impl Versioned for $record {
            fn version(&self) -> u32 {
                self.version
            }
        })*
    };
}
versioned!(Launch, ShimRecord, ExitRecord);

/// What a shim is to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// Version of this format.
    pub version: u32,
    /// The container, as Polder calls it (`account/job/3@7`). The shim only passes it on.
    pub id: String,
    /// The boot in which the order was given.
    pub boot_id: String,
    /// The container as libcontainer calls it: the name of the state directory.
    pub name: String,
    /// The image's layers, the top one first. Absolute.
    pub lower_layers: Vec<PathBuf>,
    /// What the container writes goes here. Absolute, on the same file system as `work`.
    pub upper: PathBuf,
    /// The overlay's own scratch directory.
    pub work: PathBuf,
    /// Where standard output is appended.
    pub stdout: PathBuf,
    /// Where standard error is appended.
    pub stderr: PathBuf,
    /// `user[:group]` by name or number; looked up in the image's own `/etc/passwd` and `/etc/group`. None is root.
    pub user: Option<String>,
    /// The OCI spec, complete but for `process.user` and `HOME`.
    pub spec: serde_json::Value,
}

/// The processes of a container that was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimRecord {
    /// Version of this format.
    pub version: u32,
    /// The container, as Polder calls it.
    pub id: String,
    /// The shim.
    pub shim: ProcessMark,
    /// The container's first process.
    pub init: ProcessMark,
    /// The container's cgroup: a path below each hierarchy's root.
    pub cgroup: PathBuf,
    /// When it was started, in milliseconds since 1970. Written just before the start: without it the container has
    /// surely not run.
    pub started_at_ms: Option<u64>,
}

/// How the container's first process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum Outcome {
    /// It returned a code.
    Code {
        /// The code.
        code: i32,
    },
    /// A signal ended it.
    Signal {
        /// The signal's number.
        signal: i32,
    },
    /// It never ran.
    NotStarted {
        /// Why.
        reason: String,
    },
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// Version of this format.
    pub version: u32,
    /// The container, as Polder calls it.
    pub id: String,
    /// How.
    pub outcome: Outcome,
    /// How many of its processes the kernel killed because the container had reached its memory limit.
    pub oom_kills: u64,
    /// When it started, in milliseconds since 1970.
    pub started_at_ms: Option<u64>,
    /// When its end was seen, in milliseconds since 1970.
    pub ended_at_ms: u64,
}

impl ExitRecord {
    /// For a container that never ran.
    #[must_use]
    pub fn not_started(id: &str, reason: String, ended_at_ms: u64) -> Self {
        let outcome = Outcome::NotStarted { reason };
        Self { version: PROTOCOL_VERSION, id: id.to_owned(), outcome, oom_kills: 0, started_at_ms: None, ended_at_ms }
    }

    /// Whether it was killed for reaching its memory limit.
    #[must_use]
    pub fn is_oom(&self) -> bool {
        const SIGKILL: i32 = 9;
        self.oom_kills > 0 && self.outcome == Outcome::Signal { signal: SIGKILL }
    }
}
