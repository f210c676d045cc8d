//! Machines and what they hold.

use crate::{
    names::{DatacenterId, HostId, Label, PowerDomainId, RackId},
    units::{Bytes, Cpu},
};
use alloc::{collections::BTreeMap, string::String};
use serde::{Deserialize, Serialize};

/// Ports of a host that Polder hands out, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortRange {
    /// The lowest.
    pub first: u16,
    /// The highest.
    pub last: u16,
}

/// What a host offers to tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// CPU.
    pub cpu: Cpu,
    /// Memory.
    pub memory: Bytes,
    /// Ports.
    pub ports: PortRange,
}

/// What is charged on a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU.
    pub cpu: Cpu,
    /// Memory.
    pub memory: Bytes,
    /// Containers.
    pub containers: u32,
}

/// What a host says of itself when it registers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostInfo {
    /// Its name, unique in the region.
    pub id: HostId,
    /// Where it stands.
    pub datacenter: DatacenterId,
    /// Its power domain.
    pub power_domain: PowerDomainId,
    /// Its rack.
    pub rack: RackId,
    /// What it offers.
    pub capacity: Capacity,
    /// What else is known of it.
    pub labels: BTreeMap<Label, String>,
    /// The address at which its tasks' ports can be reached.
    pub address: String,
    /// The agent's version.
    pub agent: String,
}
