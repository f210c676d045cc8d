//! Jobs, their parts in regions, and their tasks.

use super::foreign::ExitSchema;
use crate::job_file::JobFile;
use polder_types::{
    Epoch, ExitStatus, Generation, HostId, JobId, JobKind, Name, RegionId, SliceVersion, TaskId, Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a job, or the part of it in one region, does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartState {
    /// The region has not said yet that it has it.
    Pending,
    /// On its way: tasks are being placed, started, updated or replaced.
    Progressing,
    /// Some tasks can't go on: they wait for room or quota, or back off after failures. `detail` says why.
    Degraded,
    /// Every task runs the newest spec and is ready.
    Healthy,
    /// Tasks are being stopped.
    Stopping,
    /// It was stopped and nothing of it is left.
    Stopped,
    /// Every task has done its work (batch).
    Completed,
    /// Tasks have failed for good.
    Failed,
    /// The region is not heard. What it runs goes on running; the figures are as of `as_of`.
    Unknown,
    /// The region refuses it as it is; `detail` says why.
    Refused,
}

impl PartState {
    /// Its text on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Progressing => "progressing",
            Self::Degraded => "degraded",
            Self::Healthy => "healthy",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Refused => "refused",
        }
    }

    /// The state of a job whose parts are in these states: the worst, so that `healthy` means all are.
    #[must_use]
    pub fn of_parts(parts: impl IntoIterator<Item = Self>) -> Self {
        let rank = |state: &Self| match state {
            Self::Stopped => 0,
            Self::Completed => 1,
            Self::Healthy => 2,
            Self::Stopping => 3,
            Self::Progressing => 4,
            Self::Pending => 5,
            Self::Degraded => 6,
            Self::Failed => 7,
            Self::Refused => 8,
            Self::Unknown => 9,
        };
        parts.into_iter().max_by_key(rank).unwrap_or(Self::Pending)
    }

    /// The state of a slice that a region reports on.
    #[must_use]
    pub fn of_slice(slice: &SliceStatus, kind: JobKind) -> Self {
        // A task of an older spec may be well, but is not what is wanted.
        let done = slice.ready.min(slice.updated).saturating_add(slice.completed);
        match slice {
            SliceStatus { stopped: true, running: 0, leaving: 0, .. } => Self::Stopped,
            SliceStatus { stopped: true, .. } => Self::Stopping,
            SliceStatus { failed: 1.., .. } => Self::Failed,
            SliceStatus { wanted, completed, .. } if kind == JobKind::Batch && completed >= wanted => Self::Completed,
            SliceStatus { wanted, leaving: 0, .. } if done >= *wanted => Self::Healthy,
            SliceStatus { stuck: 0, .. } => Self::Progressing,
            _ => Self::Degraded,
        }
    }
}

/// The part of a job in one region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RegionPart {
    /// The region.
    #[schema(value_type = String)]
    pub region: RegionId,
    /// How it does.
    pub state: PartState,
    /// When the region said so.
    #[schema(value_type = u64)]
    pub as_of: Timestamp,
    /// The newest spec that the region has durably, in the count of the answer it stands in: a part whose generation is
    /// the job's own is about the newest spec.
    #[schema(value_type = u64)]
    pub generation: Generation,
    /// Tasks wanted here.
    pub wanted: u32,
    /// Tasks with a running process.
    pub running: u32,
    /// Tasks that are ready, of whatever spec.
    pub ready: u32,
    /// Tasks whose container is of that newest spec, ready or not.
    #[serde(default)]
    pub updated: u32,
    /// Tasks that have done their work (batch).
    #[serde(default)]
    pub completed: u32,
    /// Tasks that have failed for good.
    #[serde(default)]
    pub failed: u32,
    /// Why it is not healthy, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// A job in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobSummary {
    /// The job, `account/name`.
    #[schema(value_type = String)]
    pub job: JobId,
    /// What kind of work it is: `service` or `batch`.
    #[schema(value_type = String)]
    pub kind: JobKind,
    /// How it does over all regions.
    pub state: PartState,
    /// Counts the specs that were applied.
    #[schema(value_type = u64)]
    pub generation: Generation,
    /// Tasks wanted.
    pub wanted: u32,
    /// Tasks with a running process.
    pub running: u32,
    /// Tasks that are ready, of whatever spec.
    pub ready: u32,
    /// Tasks whose container is of the newest spec, ready or not.
    #[serde(default)]
    pub updated: u32,
    /// Its parts.
    pub regions: Vec<RegionPart>,
}

/// A page of jobs, in order of their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobList {
    /// The jobs.
    pub jobs: Vec<JobSummary>,
    /// Give it as `after` to read on; none on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Everything about a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobStatus {
    /// The job, `account/name`.
    #[schema(value_type = String)]
    pub job: JobId,
    /// How it does over all regions.
    pub state: PartState,
    /// Counts the specs that were applied.
    #[schema(value_type = u64)]
    pub generation: Generation,
    /// What was applied, with all defaults filled in.
    pub spec: JobFile,
    /// Its parts.
    pub regions: Vec<RegionPart>,
    /// Its tasks, by slot.
    pub tasks: Vec<TaskView>,
}

/// Where a task is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskPhase {
    /// It has no host yet; `waiting` says why.
    Waiting,
    /// It has a host, which prepares and starts it.
    Starting,
    /// Its process runs.
    Running,
    /// It was told to stop and has not ended yet.
    Stopping,
    /// It ended and will be started again; `waiting` says when.
    BackingOff,
    /// It has done its work (batch).
    Completed,
    /// It has failed for good.
    Failed,
    /// It is not wanted, because its job was stopped, and nothing of it is left.
    Stopped,
    /// Its host is not heard. It may well be running.
    Unknown,
}

impl TaskPhase {
    /// Its text on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::BackingOff => "backing_off",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Unknown => "unknown",
        }
    }
}

/// A port of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PortView {
    /// Its name in the job.
    #[schema(value_type = String)]
    pub name: Name,
    /// Its number on the host.
    pub port: u16,
    /// Where it can be reached: `10.0.0.7:20013`.
    pub address: String,
}

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Wait {
    /// Short and stable: `room`, `quota`, `backoff`, `update_turn`, `silent_host`, `drain`.
    pub reason: String,
    /// The reason in a sentence.
    pub message: String,
    /// When it is looked at again, or given up, at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub until: Option<Timestamp>,
}

/// How a task's last container ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExitView {
    /// How.
    #[schema(value_type = ExitSchema)]
    pub status: ExitStatus,
    /// When.
    #[schema(value_type = u64)]
    pub at: Timestamp,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskView {
    /// The task, `account/job/slot`.
    #[schema(value_type = String)]
    pub task: TaskId,
    /// The region whose slice it is in.
    #[schema(value_type = String)]
    pub region: RegionId,
    /// The host it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub host: Option<HostId>,
    /// Counts its starts.
    #[schema(value_type = u64)]
    pub epoch: Epoch,
    /// The spec that its container was made from.
    #[schema(value_type = u64)]
    pub generation: Generation,
    /// Where it is in its life.
    pub phase: TaskPhase,
    /// Whether it runs and its health check passes.
    pub ready: bool,
    /// Since when it has been in this phase.
    #[schema(value_type = u64)]
    pub since: Timestamp,
    /// How often it was started again after it ended by itself.
    pub restarts: u32,
    /// Its process id on the host, while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its ports.
    #[serde(default)]
    pub ports: Vec<PortView>,
    /// What it waits for, when it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Wait>,
    /// How its last container ended, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<ExitView>,
}

/// What applying a job did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApplyResponse {
    /// The job.
    #[schema(value_type = String)]
    pub job: JobId,
    /// The generation that is now wanted: durable when this is read.
    #[schema(value_type = u64)]
    pub generation: Generation,
    /// Whether anything changed.
    pub changed: bool,
}

/// What stopping a job did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StopResponse {
    /// The job.
    #[schema(value_type = String)]
    pub job: JobId,
    /// Whether it was not stopped already.
    pub changed: bool,
}

/// What deleting a job did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeleteResponse {
    /// The job.
    #[schema(value_type = String)]
    pub job: JobId,
    /// Whether it is gone everywhere and its name is free; otherwise regions are still being told.
    pub gone: bool,
}

/// Tasks that wait for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitCount {
    /// The reason in a sentence.
    pub reason: String,
    /// How many.
    pub tasks: u32,
}

/// How a slice does: what a region tells the federation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SliceStatus {
    /// The job.
    #[schema(value_type = String)]
    pub job: JobId,
    /// The newest version of the slice that the region has durably.
    #[schema(value_type = u64)]
    pub version: SliceVersion,
    /// Whether its tasks are being stopped.
    pub stopped: bool,
    /// When the region said so.
    #[schema(value_type = u64)]
    pub as_of: Timestamp,
    /// Tasks wanted.
    pub wanted: u32,
    /// Tasks with a running process.
    pub running: u32,
    /// Tasks that are ready, of whatever spec.
    pub ready: u32,
    /// Tasks whose container is of the newest spec, ready or not.
    #[serde(default)]
    pub updated: u32,
    /// Tasks that have done their work (batch).
    #[serde(default)]
    pub completed: u32,
    /// Tasks that have failed for good.
    #[serde(default)]
    pub failed: u32,
    /// Tasks whose slots are no longer in the slice but that still have a container.
    #[serde(default)]
    pub leaving: u32,
    /// Tasks that wait for what may not come by itself: room, quota, an end to their failures, a silent host.
    #[serde(default)]
    pub stuck: u32,
    /// Why tasks wait, most first.
    #[serde(default)]
    pub waiting: Vec<WaitCount>,
}

/// Every slice of a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SliceList {
    /// The region.
    #[schema(value_type = String)]
    pub region: RegionId,
    /// The slices.
    pub slices: Vec<SliceStatus>,
}
