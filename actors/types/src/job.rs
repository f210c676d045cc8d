//! What a person asks for: a job, and the part of it that one region runs.

use crate::{
    ids::{ShardId, SliceVersion, TaskId},
    names::{JobId, Label, Name, RegionId},
    units::{Bytes, Cpu, Millis},
};
use alloc::{collections::BTreeMap, string::String, vec::Vec};
use serde::{Deserialize, Serialize};

/// What kind of work a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Runs until it is stopped.
    Service,
    /// Each task runs until it succeeds.
    Batch,
}

/// Higher goes first. 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Priority(pub u8);

impl Default for Priority {
    fn default() -> Self {
        Self(50)
    }
}

/// A role that an image can play: its command and what belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entrypoint {
    /// The command; empty means the image's own.
    pub command: Vec<String>,
    /// Arguments.
    pub args: Vec<String>,
    /// Environment.
    pub env: BTreeMap<String, String>,
    /// `user[:group]`.
    pub user: Option<String>,
    /// Working directory.
    pub workdir: Option<String>,
}

/// What one task needs of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Resources {
    /// CPU.
    pub cpu: Cpu,
    /// Memory.
    pub memory: Bytes,
    /// Processes and threads.
    pub pids: u32,
}

/// A port of a task on its host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PortSpec {
    /// Its name: the task sees its number as `PORT_<NAME>`.
    pub name: Name,
    /// The number it must have; none means any that is free.
    pub fixed: Option<u16>,
}

/// How a label is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConstraintOp {
    /// The label has one of the values.
    In,
    /// The label has none of the values, or is absent.
    NotIn,
}

/// A rule on a host's labels that a task can't do without. The labels `host`, `rack`, `power_domain` and
/// `datacenter` exist on each host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Constraint {
    /// The label.
    pub label: Label,
    /// How it is compared.
    pub op: ConstraintOp,
    /// With what.
    pub values: Vec<String>,
}

/// Hard limits on how many tasks of the job may share a failure domain. Without limits tasks are still spread
/// over datacenters, racks and hosts as evenly as room allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Spread {
    /// At most so many on a host.
    pub max_per_host: Option<u32>,
    /// At most so many in a rack.
    pub max_per_rack: Option<u32>,
    /// At most so many in a datacenter.
    pub max_per_datacenter: Option<u32>,
}

/// How a changed job reaches its tasks, and what may be done to them at all: one budget over releases and drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateSpec {
    /// How many tasks of this region's slice may be unavailable at a time because of Polder.
    pub max_unavailable: u32,
    /// How long a task must have been ready before the next one may be touched.
    pub min_healthy: Millis,
}

/// A signal that asks a process to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum StopSignal {
    /// SIGTERM
    Sigterm,
    /// SIGINT
    Sigint,
    /// SIGQUIT
    Sigquit,
    /// SIGHUP
    Sighup,
    /// SIGUSR1
    Sigusr1,
    /// SIGUSR2
    Sigusr2,
}

impl StopSignal {
    /// Its number on Linux.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::Sighup => 1,
            Self::Sigint => 2,
            Self::Sigquit => 3,
            Self::Sigusr1 => 10,
            Self::Sigusr2 => 12,
            Self::Sigterm => 15,
        }
    }
}

/// How a task is stopped: the signal, then SIGKILL after the grace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopSpec {
    /// The signal.
    pub signal: StopSignal,
    /// How long it has.
    pub grace: Millis,
}

/// Which ends of a task are followed by a new start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestartPolicy {
    /// Each.
    Always,
    /// Those that were not a success.
    OnFailure,
    /// None.
    Never,
}

/// When and how fast a task that ended is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartSpec {
    /// Which ends count.
    pub policy: RestartPolicy,
    /// Wait before the first restart; doubles with each until `backoff_max`.
    pub backoff: Millis,
    /// The longest wait.
    pub backoff_max: Millis,
    /// Running this long makes the next wait the first again.
    pub reset_after: Millis,
    /// How many failures in a row end the task for good; none means never.
    pub max_failures: Option<u32>,
}

/// An HTTP request that a task answers with 2xx or 3xx when it is well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthCheck {
    /// The name of the port.
    pub port: Name,
    /// The path.
    pub path: String,
    /// Time between requests.
    pub interval: Millis,
    /// How long an answer may take.
    pub timeout: Millis,
    /// How many failures in a row make a task that was ready not ready.
    pub failures: u32,
}

/// How tasks are split over regions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum RegionSplit {
    /// As evenly as possible; earlier names get the remainder.
    Even,
    /// In these proportions.
    Weights {
        /// Weight of each region.
        weights: BTreeMap<RegionId, u32>,
    },
    /// Exactly so many; they must add up to the job's tasks.
    Counts {
        /// Tasks of each region.
        counts: BTreeMap<RegionId, u32>,
    },
}

/// Where a job may run. Without names: every region the federation knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Regions {
    /// Names, in order of preference; empty means any.
    pub names: Vec<RegionId>,
    /// How tasks are split over them.
    pub split: RegionSplit,
}

impl Default for Regions {
    fn default() -> Self {
        Self { names: Vec::new(), split: RegionSplit::Even }
    }
}

/// A job as it was submitted, checked and with all defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Its id.
    pub id: JobId,
    /// What kind of work it is.
    pub kind: JobKind,
    /// Number of tasks, over all regions.
    pub tasks: u32,
    /// Who goes first when room is short.
    pub priority: Priority,
    /// The image reference (`oci:PATH[:TAG]` or `oci-archive:PATH[:TAG]`).
    pub image: String,
    /// Roles of the image, by name.
    pub entrypoints: BTreeMap<Name, Entrypoint>,
    /// The role that this job's tasks play; none means `process` alone.
    pub entrypoint: Option<Name>,
    /// Command, environment and user; what is set here goes before the role's.
    pub process: Entrypoint,
    /// What each task needs.
    pub resources: Resources,
    /// Its ports.
    pub ports: Vec<PortSpec>,
    /// Rules on hosts.
    pub constraints: Vec<Constraint>,
    /// Limits on sharing failure domains.
    pub spread: Spread,
    /// How changes reach tasks.
    pub update: UpdateSpec,
    /// How tasks are stopped.
    pub stop: StopSpec,
    /// How tasks are restarted.
    pub restart: RestartSpec,
    /// How long a silent host may keep its task before it is replaced elsewhere.
    pub replace_after: Millis,
    /// How to see that a task is well.
    pub health: Option<HealthCheck>,
    /// Over which regions.
    pub regions: Regions,
}

impl JobSpec {
    /// The command, environment and user that tasks run with: the chosen role, overlaid with the job's own.
    #[must_use]
    pub fn resolved_process(&self) -> Entrypoint {
        let role = self.entrypoint.as_ref().and_then(|name| self.entrypoints.get(name));
        let Some(role) = role else { return self.process.clone() };
        let own = &self.process;
        let mut env = role.env.clone();
        env.extend(own.env.iter().map(|(key, value)| (key.clone(), value.clone())));
        let pick = |own: &Vec<String>, role: &Vec<String>| if own.is_empty() { role.clone() } else { own.clone() };
        Entrypoint {
            command: pick(&own.command, &role.command),
            args: pick(&own.args, &role.args),
            env,
            user: own.user.clone().or_else(|| role.user.clone()),
            workdir: own.workdir.clone().or_else(|| role.workdir.clone()),
        }
    }
}

/// Slots `first .. first + count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRange {
    /// The first slot.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// A set of slots of a job, as ascending ranges that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slots(Vec<SlotRange>);

impl Slots {
    /// Slots `0 .. count`.
    #[must_use]
    pub fn first(count: u32) -> Self {
        (0..count).collect()
    }

    /// These ranges, if they are ascending, not empty, and do not touch.
    #[must_use]
    pub fn from_ranges(ranges: Vec<SlotRange>) -> Option<Self> {
        let mut free_from = Some(0_u32);
        for range in &ranges {
            if range.count == 0 || free_from.is_none_or(|free| range.first < free) {
                return None;
            }
            let end = range.first.checked_add(range.count)?;
            // The slot after a range is not in the next one: they would touch.
            free_from = end.checked_add(1);
        }
        Some(Self(ranges))
    }

    /// Whether the set has this slot.
    #[must_use]
    pub fn contains(&self, slot: u32) -> bool {
        self.0.iter().any(|range| slot >= range.first && slot - range.first < range.count)
    }

    /// All slots, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().flat_map(|range| (0..range.count).map(move |offset| range.first + offset))
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.iter().fold(0, |sum, range| sum.saturating_add(range.count))
    }

    /// The ranges.
    #[must_use]
    pub fn ranges(&self) -> &[SlotRange] {
        &self.0
    }
}

impl FromIterator<u32> for Slots {
    /// Takes slots in any order.
    fn from_iter<I: IntoIterator<Item = u32>>(slots: I) -> Self {
        let mut sorted: Vec<u32> = slots.into_iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        let mut ranges: Vec<SlotRange> = Vec::new();
        for slot in sorted {
            match ranges.last_mut() {
                Some(range) if range.first + range.count == slot => range.count += 1,
                _ => ranges.push(SlotRange { first: slot, count: 1 }),
            }
        }
        Self(ranges)
    }
}

/// The part of a job that one region runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// The job.
    pub spec: JobSpec,
    /// The slots that are this region's.
    pub slots: Slots,
    /// Counts the changes of this slice; a region ignores an older one.
    pub version: SliceVersion,
    /// Whether the job is to be stopped: an explicit order, never inferred.
    pub stopped: bool,
}

impl Slice {
    /// The ids of its tasks.
    pub fn tasks(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.slots.iter().map(|index| TaskId { job: self.spec.id.clone(), index })
    }

    /// The shard that owns it.
    #[must_use]
    pub fn shard(&self, shards: u16) -> ShardId {
        ShardId::of(&self.spec.id, shards)
    }
}
