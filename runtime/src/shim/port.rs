//! What the agent may ask of whatever runs containers.

use std::{fmt, path::PathBuf};

use async_trait::async_trait;
use polder_types::{Bytes, ContainerId, Cpu, ExitStatus, Timestamp};

use super::RuntimeError;

/// A file or directory of the host, seen inside a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// On the host. Absolute.
    pub source: PathBuf,
    /// In the container. Absolute; made if it is missing.
    pub target: PathBuf,
    /// Whether the container may only read it.
    pub read_only: bool,
}

/// Everything that is needed to run one container: all choices made, all defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchSpec {
    /// The container.
    pub id: ContainerId,
    /// Directories of the image's layers, the lowest first (the order of the image's manifest). Absolute. They are
    /// never written to, and must stay until the container is removed.
    pub layers: Vec<PathBuf>,
    /// The command and its arguments. A name without `/` is searched in the `PATH` of `env`.
    pub args: Vec<String>,
    /// `KEY=VALUE`. `HOME` is added if it is missing, and a `PATH`.
    pub env: Vec<String>,
    /// `user[:group]`, by name or number, looked up in the image's own files. None is root.
    pub user: Option<String>,
    /// Where the command starts; made if the image lacks it.
    pub workdir: PathBuf,
    /// CPU limit. Zero means no limit of its own.
    pub cpu: Cpu,
    /// Memory limit. Zero means no limit of its own.
    pub memory: Bytes,
    /// Limit of processes and threads. Zero means no limit of its own.
    pub pids: u32,
    /// The container's own host name.
    pub hostname: String,
    /// Files of the host that the container sees.
    pub binds: Vec<Bind>,
    /// Standard output is appended to this file.
    pub stdout: PathBuf,
    /// Standard error is appended to this file; it may be the same.
    pub stderr: PathBuf,
}

/// A container that exists and waits for its start: root mounted, limits set, first process waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// The container's first process, as the host numbers it.
    pub pid: u32,
}

/// The end of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The container.
    pub id: ContainerId,
    /// How: as it was, or [`ExitStatus::Unknown`], never invented.
    pub status: ExitStatus,
    /// When it had started, if it had and that is known.
    pub started_at: Option<Timestamp>,
    /// When its end was seen.
    pub at: Timestamp,
    /// How many of its processes the kernel killed because it had reached its memory limit, also when the first
    /// process survived that.
    pub oom_kills: u64,
}

/// A container that an earlier agent had begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adopted {
    /// It runs. Its end will come as an [`Exit`].
    Running {
        /// The container.
        id: ContainerId,
        /// Its first process.
        pid: u32,
        /// When it started.
        started_at: Timestamp,
        /// Whether its shim lives. Without it an exit status can be known only from the kernel (6.15 or later).
        shim_alive: bool,
    },
    /// It ended meanwhile. It is still there until it is removed.
    Ended(Exit),
    /// It was never started, or only remains of its removal were there; nothing is left of it.
    Cleaned {
        /// The container, if that could still be read.
        id: Option<ContainerId>,
        /// What was found.
        reason: String,
    },
    /// Something is there that can't be understood or cleaned up, perhaps of a newer version; it was left as it is.
    Unreadable {
        /// The state directory.
        dir: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// What a container uses now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerUsage {
    /// Memory, its page cache included.
    pub memory: Bytes,
    /// Processor time since its start, in microseconds.
    pub cpu_us: u64,
    /// Processes and threads.
    pub pids: u32,
    /// Processes killed for the memory limit.
    pub oom_kills: u64,
}

/// Runs containers. The real one is [`ShimRuntime`](super::ShimRuntime).
///
/// A container is *created*, *started*, *ends* and is *removed*. After `create` has answered with success, exactly one
/// [`Exit`] follows, whatever happens; it comes over the channel that the implementation was made with, and is what
/// [`wait`](Self::wait) gives.
#[async_trait]
pub trait Runtime: Send + Sync + fmt::Debug {
    /// Prepares a container up to, but not including, its first instruction.
    ///
    /// # Errors
    /// When it can't be; nothing of it is left then.
    async fn create(&self, spec: LaunchSpec) -> Result<Created, RuntimeError>;

    /// Lets a created container run.
    ///
    /// # Errors
    /// When it doesn't: its [`Exit`] says why, too.
    async fn start(&self, id: &ContainerId) -> Result<(), RuntimeError>;

    /// Waits for the end of a container and gives it, as often as asked until it is removed.
    ///
    /// # Errors
    /// When there is no such container.
    async fn wait(&self, id: &ContainerId) -> Result<Exit, RuntimeError>;

    /// Sends a signal to the first process of a container. One that has ended gets none, without an error.
    ///
    /// # Errors
    /// When there is no such container, or no such signal.
    async fn signal(&self, id: &ContainerId, signal: i32) -> Result<(), RuntimeError>;

    /// Kills everything in a container, frozen or not. It has answered when the signals are sent; the end comes as an
    /// [`Exit`].
    ///
    /// # Errors
    /// When there is no such container.
    async fn kill(&self, id: &ContainerId) -> Result<(), RuntimeError>;

    /// Removes what is left of a container that has ended: what it wrote, its cgroups, its state.
    ///
    /// # Errors
    /// When it still runs, when there is no such container, or when something could not be removed; it may be asked
    /// again.
    async fn remove(&self, id: &ContainerId) -> Result<(), RuntimeError>;

    /// Takes over everything that an earlier agent left. To be called once, before the first `create`.
    ///
    /// # Errors
    /// When the directory of all containers can't be read. What is wrong with one container never hides the others.
    async fn adopt(&self) -> Result<Vec<Adopted>, RuntimeError>;

    /// What a running container uses.
    ///
    /// # Errors
    /// When there is no such container.
    async fn usage(&self, id: &ContainerId) -> Result<ContainerUsage, RuntimeError>;

    /// The processes of a container that still live, as the host numbers them. Empty attests that none is left.
    ///
    /// # Errors
    /// When that can't be told.
    async fn processes(&self, id: &ContainerId) -> Result<Vec<u32>, RuntimeError>;
}
