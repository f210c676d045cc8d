//! What a job shard shows people: every job and task, and for what is not as wanted, why and until when.

use alloc::{string::String, vec::Vec};
use core::fmt;
use polder_types::{
    ContainerId, ContainerPhase, Epoch, Generation, HostId, JobId, JobKind, PortBinding, SliceVersion, TaskId,
    Timestamp,
};
use serde::{Deserialize, Serialize};

use super::state::{LastExit, Origin, Outcome, Quarantine, StopOrdered};
use crate::message::{PlacementReport, SliceStatus};

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobView {
    /// Its id.
    pub job: JobId,
    /// What kind of work it is.
    pub kind: JobKind,
    /// Who may change it.
    pub origin: Origin,
    /// The version of the slice in force.
    pub version: SliceVersion,
    /// The newest generation.
    pub generation: Generation,
    /// When it was first applied.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub changed_at: Timestamp,
    /// Set when nothing is done for it.
    pub quarantine: Option<Quarantine>,
    /// Its counts.
    pub status: SliceStatus,
    /// The release in progress, if one is.
    pub update: Option<UpdateView>,
    /// Containers that are not known to be gone.
    pub containers: u32,
}

/// A release in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateView {
    /// To which generation.
    pub to: Generation,
    /// Tasks that run it and are settled.
    pub done: u32,
    /// Tasks on their way.
    pub under_way: u32,
    /// Tasks still to come.
    pub to_come: u32,
    /// What it waits for.
    pub wait: Option<Wait>,
}

/// Where a task is, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Waits for room on a host.
    Pending,
    /// Waits out its back-off.
    BackingOff,
    /// Ordered to start; its host has not said that its process runs.
    Starting,
    /// Its process runs, and is not ready.
    Running,
    /// Its process runs and is ready.
    Ready,
    /// Ordered to stop.
    Stopping,
    /// Has a container on a host that is not heard.
    Unknown,
    /// Did its work.
    Completed,
    /// Failed for good.
    Failed,
    /// Not wanted, and gone.
    Stopped,
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pending => "pending",
            Self::BackingOff => "backing off",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Ready => "ready",
            Self::Stopping => "stopping",
            Self::Unknown => "unknown",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        })
    }
}

/// What a pending task waits for, as far as such tasks are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PendingReason {
    /// No host can take it.
    NoRoom,
    /// Its account may use no more.
    Quota,
    /// The allocator has not said anything yet.
    Searching,
    /// An older container is not known to be gone.
    OlderContainer,
    /// Its job was set aside.
    SetAside,
}

/// A wait: why, and what happens when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Why, in a few words that many tasks share: what waiting tasks are counted by.
    pub reason: String,
    /// The same with all that is known.
    pub detail: String,
    /// When something will be done about it if nothing else happens.
    pub deadline: Timestamp,
    /// What that is.
    pub then: String,
}

/// A container of a task, or room for one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerView {
    /// Its id.
    pub container: ContainerId,
    /// Where.
    pub host: HostId,
    /// What it is made from.
    pub generation: Generation,
    /// Its ports.
    pub ports: Vec<PortBinding>,
    /// When it was granted.
    pub placed_at: Timestamp,
    /// Set once it is to stop.
    pub stop: Option<StopOrdered>,
    /// What its host said last, since this owner began.
    pub phase: Option<ContainerPhase>,
    /// Why this host, if this owner placed it.
    pub why: Option<String>,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskView {
    /// Its id.
    pub task: TaskId,
    /// Where it is.
    pub state: TaskState,
    /// Whether it is one of the tasks that the job should have.
    pub wanted: bool,
    /// The highest epoch that any container of it has had: also while it has none.
    pub epoch: Epoch,
    /// The generation that it is to run.
    pub generation: Generation,
    /// Its container.
    pub current: Option<ContainerView>,
    /// Room that waits for the current container to be gone.
    pub next: Option<ContainerView>,
    /// Older containers on hosts that were silent.
    pub lingering: Vec<ContainerView>,
    /// Failures in a row.
    pub failures: u32,
    /// New starts after an end that nobody asked for.
    pub restarts: u32,
    /// How its last container ended.
    pub last_exit: Option<LastExit>,
    /// Set when it is not started again.
    pub outcome: Option<Outcome>,
    /// What it waits for, if anything.
    pub wait: Option<Wait>,
    /// What the allocator said, if it waits for room.
    pub report: Option<PlacementReport>,
}
