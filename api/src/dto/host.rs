//! Hosts and drains.

use super::foreign::PortRangeSchema;
use polder_types::{
    Bytes, ContainerId, Cpu, DatacenterId, DrainVersion, HostId, Label, Millis, PortRange, PowerDomainId, RackId,
    RegionId, TaskId, Timestamp,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Whether a host is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostHealth {
    /// Heard lately.
    Ready,
    /// Not heard. That says nothing about its containers.
    Unknown,
}

/// An amount of what a host has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostRoom {
    /// CPU in hundredths of a core.
    #[schema(value_type = u32)]
    pub cpu: Cpu,
    /// Memory in bytes.
    #[schema(value_type = u64)]
    pub memory: Bytes,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostView {
    /// Its name, unique in its region.
    #[schema(value_type = String)]
    pub id: HostId,
    /// Its region.
    #[schema(value_type = String)]
    pub region: RegionId,
    /// Its datacenter.
    #[schema(value_type = String)]
    pub datacenter: DatacenterId,
    /// Its power domain.
    #[schema(value_type = String)]
    pub power_domain: PowerDomainId,
    /// Its rack.
    #[schema(value_type = String)]
    pub rack: RackId,
    /// The address at which its tasks' ports are reached.
    pub address: String,
    /// Whether it is heard.
    pub health: HostHealth,
    /// When it was heard last.
    #[schema(value_type = u64)]
    pub last_heard: Timestamp,
    /// Whether new tasks are kept away.
    pub cordoned: bool,
    /// Its drain, in progress or ended; none when it has none or it was aborted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<DrainView>,
    /// What it offers.
    pub capacity: HostRoom,
    /// What is charged on it.
    pub used: HostRoom,
    /// Ports that it hands out.
    #[schema(value_type = PortRangeSchema)]
    pub ports: PortRange,
    /// Tasks charged on it.
    pub tasks: u32,
    /// What else is known of it.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: BTreeMap<Label, String>,
    /// The version of its agent.
    pub agent: String,
}

/// How old one region's part of an answer is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PartAge {
    /// The region.
    #[schema(value_type = String)]
    pub region: RegionId,
    /// When the region said so.
    #[schema(value_type = u64)]
    pub as_of: Timestamp,
    /// Whether the region could be reached for this answer.
    pub reached: bool,
}

/// A page of hosts, in order of region and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostList {
    /// The hosts.
    pub hosts: Vec<HostView>,
    /// How old each region's part is.
    #[serde(default)]
    pub parts: Vec<PartAge>,
    /// Give it as `after` to read on; none on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Asks for a host to be emptied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// How many milliseconds the tasks have to move; what is left then is stopped by force.
    #[schema(value_type = u64)]
    pub deadline: Millis,
    /// Why, for those who look later.
    #[serde(default)]
    pub reason: String,
    /// Who asks.
    #[serde(default)]
    pub owner: String,
}

/// Who asks for something, and why, for those who look later.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// Why.
    #[serde(default)]
    pub reason: String,
    /// Who asks.
    #[serde(default)]
    pub owner: String,
}

/// How a drain goes, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DrainState {
    /// Tasks are moving away.
    Draining,
    /// Success: the host has attested that no process is left.
    Drained,
    /// The deadline passed and what was left was stopped by force; `forced` lists it.
    Forced,
    /// The deadline passed and the host is not heard: nobody knows what is left.
    Unattested,
    /// It was called off.
    Aborted,
}

impl DrainState {
    /// Its text on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::Drained => "drained",
            Self::Forced => "forced",
            Self::Unattested => "unattested",
            Self::Aborted => "aborted",
        }
    }
}

/// Where a task went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MovedTask {
    /// The task.
    #[schema(value_type = String)]
    pub task: TaskId,
    /// Its new host.
    #[schema(value_type = String)]
    pub host: HostId,
}

/// A drain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DrainView {
    /// The host.
    #[schema(value_type = String)]
    pub host: HostId,
    /// Counts the drains of this host.
    #[schema(value_type = u64)]
    pub version: DrainVersion,
    /// How it goes.
    pub state: DrainState,
    /// When what is left is stopped by force.
    #[schema(value_type = u64)]
    pub deadline: Timestamp,
    /// Why it was asked for.
    #[serde(default)]
    pub reason: String,
    /// Who asked.
    #[serde(default)]
    pub owner: String,
    /// Tasks of which something is left on the host.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub remaining: Vec<TaskId>,
    /// Where tasks went.
    #[serde(default)]
    pub moved: Vec<MovedTask>,
    /// Containers that were stopped by force.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub forced: Vec<ContainerId>,
}
