//! What a host holds durably, on its own disk.

use crate::message::OrderOwner;
use alloc::{sync::Arc, vec::Vec};
use polder_types::{
    BootId, ContainerId, ContainerSpec, DrainVersion, Epoch, ExitStatus, OwnerEpoch, ShardId, TaskId, Timestamp,
};
use serde::{Deserialize, Serialize};

/// A container's process, as it was when it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launched {
    /// Its process id on the host.
    pub pid: u32,
    /// When.
    pub started_at: Timestamp,
    /// Whether it was ready when that changed last, so that a restart of the agent does not make it unready.
    pub ready: bool,
}

/// A container that was accepted, and what has happened to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerRecord {
    /// Which.
    pub id: ContainerId,
    /// Who ordered its start.
    pub owner: OrderOwner,
    /// What it is.
    pub spec: Arc<ContainerSpec>,
    /// The boot in which it was accepted: it can't outlive that.
    pub boot: BootId,
    /// Its process, once it has run.
    pub launched: Option<Launched>,
    /// When it is killed, once its stop was ordered.
    pub kill_at: Option<Timestamp>,
    /// How and when it ended.
    pub ended: Option<(ExitStatus, Timestamp)>,
}

/// The newest owner of a shard that this host has heard: older ones are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerRecord {
    /// The shard.
    pub shard: ShardId,
    /// Its owner.
    pub epoch: OwnerEpoch,
}

/// The newest container of a task that this host must never start (again), though it holds no record of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskFloor {
    /// The task.
    pub task: TaskId,
    /// The epoch; no container up to it may start.
    pub epoch: Epoch,
    /// Who ordered the stop or the forgetting.
    pub owner: OrderOwner,
    /// When.
    pub at: Timestamp,
}

/// How a drain stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum DrainState {
    /// No starts.
    Open {
        /// When the region may force it.
        deadline: Timestamp,
        /// What was killed because the deadline had passed; none until it is forced.
        forced: Option<Vec<ContainerId>>,
    },
    /// It is over or was called off.
    Over,
}

/// The newest drain that this host has heard of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainRecord {
    /// Which.
    pub version: DrainVersion,
    /// How it stands.
    pub state: DrainState,
}

/// Everything durable, for a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Containers.
    pub containers: Vec<ContainerRecord>,
    /// Owners.
    pub owners: Vec<OwnerRecord>,
    /// Tasks without containers.
    pub floors: Vec<TaskFloor>,
    /// The newest drain.
    pub drain: Option<DrainRecord>,
}
