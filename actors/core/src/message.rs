//! What the machines of a region and its hosts say to each other: the protocol of the tree.
//!
//! Each machine wraps what it receives in its own `Event` and what it sends in its own `Effect`; the wiring between
//! them carries these values unchanged. Within one region everything here may be lost or come twice (a mailbox was
//! full, a machine was restored, a link broke), so each receiver repeats what it wants until it sees it.

use alloc::{collections::BTreeMap, string::String, sync::Arc, vec::Vec};
use core::fmt;
use polder_types::{
    AccountId, Amounts, BootId, Constraint, ContainerId, ContainerSpec, ContainerStatus, DrainVersion, Epoch, HostId,
    HostInfo, JobId, OwnerEpoch, PortBinding, PortSpec, Priority, Resources, ShardId, SliceVersion, Spread, Timestamp,
};
use serde::{Deserialize, Serialize};

/// Names one question so that its answer finds whoever asked. Made by the wiring; meaningless after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyId(pub u64);

// ---- job shard and allocator ----

/// Names a request for room. A shard that was restored has a newer owner epoch, so numbers never meet again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// The shard that asks.
    pub shard: ShardId,
    /// Its owner epoch.
    pub owner: OwnerEpoch,
    /// Its own count.
    pub number: u64,
}

/// What equal tasks of one request need: they share one search.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskShape {
    /// CPU, memory, processes.
    pub resources: Resources,
    /// Ports, in the order of the job.
    pub ports: Vec<PortSpec>,
    /// Rules on hosts.
    pub constraints: Vec<Constraint>,
    /// Limits on sharing failure domains.
    pub spread: Spread,
    /// Who goes first.
    pub priority: Priority,
}

/// One task of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskToPlace {
    /// Its slot.
    pub index: u32,
    /// The epoch that its container will have.
    pub epoch: Epoch,
    /// A host to stay away from if any other will do: where it just failed, or what is being drained.
    pub avoid: Option<HostId>,
}

/// Asks for room for equal tasks of one job. The allocator holds what it can't grant yet and tries again whenever
/// what blocks it changes, until the request is withdrawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementRequest {
    /// Its name.
    pub id: RequestId,
    /// The job.
    pub job: JobId,
    /// What each task needs.
    pub shape: Arc<TaskShape>,
    /// The tasks.
    pub tasks: Vec<TaskToPlace>,
}

/// Room on a host for one container: what a task record says, and so what capacity and quota are counted from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    /// The container.
    pub container: ContainerId,
    /// Where it is.
    pub host: HostId,
    /// What it takes.
    pub resources: Resources,
    /// Its ports.
    pub ports: Vec<PortBinding>,
}

/// Why a host can't take a task, most telling first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RejectReason {
    /// The host has not been heard.
    Silent,
    /// It is cordoned.
    Cordoned,
    /// It is being drained.
    Draining,
    /// Its labels don't match the job's constraints.
    Constraint,
    /// The job's limit per host, rack or datacenter.
    Spread,
    /// Not enough CPU.
    Cpu,
    /// Not enough memory.
    Memory,
    /// The fixed port is taken, or too few are free.
    Ports,
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Silent => "not heard from",
            Self::Cordoned => "cordoned",
            Self::Draining => "being drained",
            Self::Constraint => "labels don't match the constraints",
            Self::Spread => "the job's spread limit is reached",
            Self::Cpu => "not enough CPU",
            Self::Memory => "not enough memory",
            Self::Ports => "port taken or too few free",
        })
    }
}

/// By how much an account is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaShortfall {
    /// The account whose allotment blocks: the job's own or one above it.
    pub account: AccountId,
    /// What it may use in this region.
    pub limit: Amounts,
    /// What it uses now.
    pub used: Amounts,
    /// What the next task would add.
    pub asked: Amounts,
}

/// Why tasks wait for room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementReport {
    /// Number of hosts looked at.
    pub hosts: u32,
    /// Hosts by the first reason that ruled each out.
    pub rejected: BTreeMap<RejectReason, u32>,
    /// Set when quota, not room, is what lacks.
    pub quota: Option<QuotaShortfall>,
}

/// One granted task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its slot.
    pub index: u32,
    /// Its epoch.
    pub epoch: Epoch,
    /// Where.
    pub host: HostId,
    /// Its ports.
    pub ports: Vec<PortBinding>,
    /// Why this host: the score's parts, for people.
    pub why: String,
}

/// What the allocator answers a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacementAnswer {
    /// Room was found. The grant holds until it is placed or withdrawn.
    Granted {
        /// The request.
        request: RequestId,
        /// The allocator's epoch: the shard's commit compares it, so that the grant of a dead allocator never lands.
        allocator: OwnerEpoch,
        /// The tasks.
        grants: Vec<Grant>,
    },
    /// These tasks still wait, and why.
    Waiting {
        /// The request.
        request: RequestId,
        /// Their slots.
        tasks: Vec<u32>,
        /// Why.
        report: PlacementReport,
    },
    /// A new allocator is in charge: ask again for whatever is still wanted.
    Started {
        /// Its epoch.
        allocator: OwnerEpoch,
    },
}

/// What a shard tells the allocator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacementNote {
    /// Wants room.
    Request(PlacementRequest),
    /// Does not want these tasks of a request any more, granted or not.
    Withdraw {
        /// The request.
        request: RequestId,
        /// Their slots; empty means all.
        tasks: Vec<u32>,
    },
    /// These task records are durable.
    Placed {
        /// The request they came from.
        request: RequestId,
        /// The records.
        charges: Vec<Charge>,
    },
    /// These containers are gone, durably.
    Released {
        /// The containers.
        containers: Vec<ContainerId>,
    },
    /// The shard was restored: this is all it holds. Older requests and grants of it are void.
    Restored {
        /// The shard.
        shard: ShardId,
        /// Its owner epoch.
        owner: OwnerEpoch,
        /// Everything that its task records charge.
        charges: Vec<Charge>,
    },
}

// ---- broker to allocator and shards ----

/// A drain of a host, as ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainOrder {
    /// Which drain of the host.
    pub version: DrainVersion,
    /// When what is left is stopped by force.
    pub deadline: Timestamp,
}

/// Whether a host is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "health")]
pub enum HostHealth {
    /// Heard lately.
    Ready,
    /// Not heard. That says nothing about its containers.
    Unknown {
        /// Since when, moved back by earlier silence that was never made up for: flapping can't reset it.
        since: Timestamp,
    },
}

/// What is known of a host and asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCondition {
    /// The host.
    pub host: HostId,
    /// Whether it is heard.
    pub health: HostHealth,
    /// Whether new tasks are kept away.
    pub cordoned: bool,
    /// The drain in progress, or the one that ended and still keeps the host empty.
    pub drain: Option<DrainOrder>,
}

impl HostCondition {
    /// Why new tasks can't go there, if they can't.
    #[must_use]
    pub const fn closed(&self) -> Option<RejectReason> {
        match self {
            Self { drain: Some(_), .. } => Some(RejectReason::Draining),
            Self { cordoned: true, .. } => Some(RejectReason::Cordoned),
            Self { health: HostHealth::Unknown { .. }, .. } => Some(RejectReason::Silent),
            _ => None,
        }
    }
}

/// What a broker tells the allocator and the shards about a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostNotice {
    /// What the host is.
    pub info: Arc<HostInfo>,
    /// How it is.
    pub condition: HostCondition,
}

// ---- region and host ----

/// Who gives an order about a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OrderOwner {
    /// The shard.
    pub shard: ShardId,
    /// Its owner epoch: a host refuses an older one than it has seen of this shard.
    pub epoch: OwnerEpoch,
}

/// What a region tells a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostOrder {
    /// Run this container. Repeating the order changes nothing.
    Start {
        /// Who says so.
        owner: OrderOwner,
        /// Which.
        container: ContainerId,
        /// What it is.
        spec: Arc<ContainerSpec>,
    },
    /// End this container: its stop signal, then SIGKILL after its grace. A container the host does not know is
    /// reported as ended, and may never start afterwards.
    Stop {
        /// Who says so.
        owner: OrderOwner,
        /// Which.
        container: ContainerId,
    },
    /// The end of this container is on record: the host may forget it.
    Forget {
        /// Who says so.
        owner: OrderOwner,
        /// Which.
        container: ContainerId,
    },
    /// Have this image ready, so that this container can start at once when it is ordered. Starts nothing and promises
    /// nothing; answered each time with [`HostReport::Prepared`].
    Prepare {
        /// Who says so.
        owner: OrderOwner,
        /// For which container.
        container: ContainerId,
        /// The image reference.
        image: String,
    },
    /// Take no more starts, and say when nothing is left.
    Drain(DrainOrder),
    /// The deadline of this drain has passed: kill what is left, and say what that was.
    ForceDrain {
        /// Which drain.
        version: DrainVersion,
    },
    /// The drain is over or called off: starts are welcome again.
    EndDrain {
        /// Which drain.
        version: DrainVersion,
    },
}

/// How far a host is with an image that it was told to prepare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "preparation")]
pub enum Preparation {
    /// At it.
    UnderWay,
    /// The image is here, whole.
    Done,
    /// It can't be had as things are.
    Failed {
        /// Why.
        reason: String,
    },
}

/// What a host swears about a drain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainAttestation {
    /// Which drain; the host has it on disk.
    pub version: DrainVersion,
    /// The boot in which this was seen.
    pub boot: BootId,
    /// Containers of which a process is left.
    pub remaining: Vec<ContainerId>,
    /// Containers that were killed because the deadline passed.
    pub forced: Vec<ContainerId>,
}

/// What a host tells its region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostReport {
    /// Everything the host knows, said once when a link opens.
    Inventory {
        /// What it is.
        info: HostInfo,
        /// Its boot.
        boot: BootId,
        /// All its containers, ended ones that were not forgotten included.
        containers: Vec<ContainerStatus>,
        /// Its drain.
        drain: Option<DrainAttestation>,
    },
    /// Containers whose phase changed.
    Changed {
        /// The containers.
        containers: Vec<ContainerStatus>,
    },
    /// An order was refused.
    Refused {
        /// The container it was about.
        container: ContainerId,
        /// Why.
        why: Refusal,
    },
    /// How far an image is that was to be prepared.
    Prepared {
        /// The container that it is for.
        container: ContainerId,
        /// How far.
        preparation: Preparation,
    },
    /// How the drain goes.
    Drain(DrainAttestation),
    /// Nothing new: the host is there.
    Alive,
}

/// Why a host refuses an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "refusal")]
pub enum Refusal {
    /// The host has seen a newer owner of that shard.
    StaleOwner {
        /// The newest it has seen.
        seen: OwnerEpoch,
    },
    /// The host has seen a newer container of that task, or this one was stopped or has ended before.
    StaleContainer {
        /// The newest epoch it has seen.
        seen: Epoch,
    },
    /// The host is being drained.
    Draining {
        /// Which drain.
        version: DrainVersion,
    },
}

// ---- what people are told ----

/// Something worth telling a person, kept in a bounded list and streamed to whoever watches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// Short, stable, in the past tense: `task_started`, `host_silent`.
    pub kind: &'static str,
    /// What it is about: a job, task or host.
    pub subject: String,
    /// One sentence.
    pub message: String,
}

// ---- region and federation ----

/// How a slice does: what a region tells the federation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceStatus {
    /// The job.
    pub job: JobId,
    /// The version that this is about.
    pub version: SliceVersion,
    /// Whether its tasks are being stopped.
    pub stopped: bool,
    /// Tasks wanted.
    pub wanted: u32,
    /// Tasks with a running process.
    pub running: u32,
    /// Tasks that are ready, of whatever spec.
    pub ready: u32,
    /// Tasks whose container is of the newest spec, ready or not. Those of a batch that have done their work are not
    /// among them.
    #[serde(default)]
    pub updated: u32,
    /// Tasks that have done their work (batch).
    pub completed: u32,
    /// Tasks that have failed for good.
    pub failed: u32,
    /// Tasks whose slots are no longer in the slice but that still have a container. A slot that moves to another
    /// region is added there only when this is zero here at the version that took it away.
    #[serde(default)]
    pub leaving: u32,
    /// Tasks that wait for what may not come by itself: room, quota, an end to their failures, a silent host.
    #[serde(default)]
    pub stuck: u32,
    /// Why tasks wait, by reason, with their number; most first.
    pub waiting: Vec<(String, u32)>,
}
