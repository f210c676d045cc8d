//! What a job shard keeps durably. The wiring stores each value under its own key; no other copy of these facts exists.

use alloc::{string::String, vec::Vec};
use polder_types::{
    Constraint, ContainerId, Entrypoint, Epoch, ExitStatus, Generation, HealthCheck, HostId, JobId, JobSpec,
    PortBinding, PortSpec, Resources, Slice, Spread, StopSpec, TaskId, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::message::Charge;

/// Slots that share one stored chunk: slot `k` is in chunk `k / TASKS_PER_CHUNK`.
pub const TASKS_PER_CHUNK: u32 = 32;

/// Who a job belongs to. Only its owner may change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Submitted to this region.
    Local,
    /// A slice that the federation gave to this region.
    Federation,
}

/// A job as its region holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// What is wanted.
    pub slice: Slice,
    /// Counts the changes of [`Template`]; other changes need no new containers.
    pub generation: Generation,
    /// Earlier templates that some task still runs, oldest first. At most [`super::limits::OLDER_TEMPLATES_MAX`].
    #[serde(default)]
    pub older: Vec<OlderTemplate>,
    /// Who may change it.
    pub origin: Origin,
    /// When it was first applied.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub changed_at: Timestamp,
    /// Set when the job made the shard fail: nothing is done for it until a person applies or stops it.
    #[serde(default)]
    pub quarantine: Option<Quarantine>,
}

impl JobRecord {
    /// Its id.
    #[must_use]
    pub const fn id(&self) -> &JobId {
        &self.slice.spec.id
    }
}

/// Why a job was set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantine {
    /// Since when.
    pub since: Timestamp,
    /// What happened.
    pub reason: String,
}

/// The part of a spec that a container is made from. A change of it is a release; a change of anything else is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    /// The image reference.
    pub image: String,
    /// Command, environment and user, with the role resolved.
    pub process: Entrypoint,
    /// What it needs.
    pub resources: Resources,
    /// Its ports.
    pub ports: Vec<PortSpec>,
    /// Rules on hosts.
    pub constraints: Vec<Constraint>,
    /// Limits on sharing failure domains.
    pub spread: Spread,
    /// How it is stopped.
    pub stop: StopSpec,
    /// How to see that it is well.
    pub health: Option<HealthCheck>,
}

impl Template {
    /// The template of a spec.
    #[must_use]
    pub fn of(spec: &JobSpec) -> Self {
        Self {
            image: spec.image.clone(),
            process: spec.resolved_process(),
            resources: spec.resources,
            ports: spec.ports.clone(),
            constraints: spec.constraints.clone(),
            spread: spec.spread,
            stop: spec.stop,
            health: spec.health.clone(),
        }
    }
}

/// A template that is not the newest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OlderTemplate {
    /// Its number.
    pub generation: Generation,
    /// The template.
    pub template: Template,
}

/// Some tasks of one job, stored under one key. A slot without a record has never had a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskChunk {
    /// The job.
    pub job: JobId,
    /// Which chunk: `slot / TASKS_PER_CHUNK`.
    pub number: u32,
    /// The tasks, by slot.
    pub tasks: Vec<TaskRecord>,
}

/// One task. Whether its container runs or is ready is not here: the host knows, and says so again when asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// Its slot.
    pub index: u32,
    /// The highest epoch that any container of this task has had, or that a host says it has seen.
    pub epoch: Epoch,
    /// The generation that it is to run: how far a release has come.
    pub want: Generation,
    /// Its container. Ordered to start unless `stop` is set.
    #[serde(default)]
    pub current: Option<Placement>,
    /// Room that was granted for its next container, which starts when the current one is gone.
    #[serde(default)]
    pub next: Option<Placement>,
    /// Containers that were replaced while their hosts were silent. They hold their room until they are known to be gone.
    #[serde(default)]
    pub lingering: Vec<Placement>,
    /// Failures in a row.
    #[serde(default)]
    pub failures: u32,
    /// New starts after an end that nobody asked for, over the task's whole life.
    #[serde(default)]
    pub restarts: u32,
    /// Not started again before this.
    #[serde(default)]
    pub restart_at: Option<Timestamp>,
    /// How its last container ended.
    #[serde(default)]
    pub last_exit: Option<LastExit>,
    /// Set when it is not to be started again.
    #[serde(default)]
    pub outcome: Option<Outcome>,
}

impl TaskRecord {
    /// A task that has never had a container.
    #[must_use]
    pub const fn new(index: u32, want: Generation) -> Self {
        Self {
            index,
            epoch: Epoch(0),
            want,
            current: None,
            next: None,
            lingering: Vec::new(),
            failures: 0,
            restarts: 0,
            restart_at: None,
            last_exit: None,
            outcome: None,
        }
    }

    /// Everything that it holds room for.
    pub fn placements(&self) -> impl Iterator<Item = &Placement> {
        self.current.iter().chain(&self.next).chain(&self.lingering)
    }

    /// Whether it has no container and no room.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.placements().next().is_none()
    }

    /// What its record charges.
    pub fn charges<'a>(&'a self, job: &'a JobId) -> impl Iterator<Item = Charge> + 'a {
        self.placements().map(|placement| placement.charge(job, self.index))
    }
}

/// A container's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Which start of the task.
    pub epoch: Epoch,
    /// Where.
    pub host: HostId,
    /// What it is made from.
    pub generation: Generation,
    /// What it takes.
    pub resources: Resources,
    /// Its ports.
    pub ports: Vec<PortBinding>,
    /// When it was granted.
    pub placed_at: Timestamp,
    /// Set once it is to stop. Never unset.
    #[serde(default)]
    pub stop: Option<StopOrdered>,
}

impl Placement {
    /// The id of its container.
    #[must_use]
    pub fn container(&self, job: &JobId, index: u32) -> ContainerId {
        ContainerId { task: TaskId { job: job.clone(), index }, epoch: self.epoch }
    }

    /// What it charges.
    #[must_use]
    pub fn charge(&self, job: &JobId, index: u32) -> Charge {
        Charge {
            container: self.container(job, index),
            host: self.host.clone(),
            resources: self.resources,
            ports: self.ports.clone(),
        }
    }
}

/// That a container was ordered to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopOrdered {
    /// When.
    pub at: Timestamp,
    /// Why.
    pub why: StopReason,
}

/// Why a container was ordered to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The job was stopped.
    JobStopped,
    /// The job has fewer tasks now.
    SlotRemoved,
    /// A newer generation takes its place.
    Updated,
    /// Its host is being drained.
    Drained,
    /// It was replaced while its host was silent.
    Replaced,
}

/// How a task's last container ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastExit {
    /// Which start.
    pub epoch: Epoch,
    /// Where.
    pub host: HostId,
    /// How.
    pub status: ExitStatus,
    /// When.
    pub at: Timestamp,
}

/// Why a task is not started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It did its work.
    Completed,
    /// It failed for good.
    Failed,
}
