//! What a broker keeps durably: one record for each host.

use alloc::{string::String, vec::Vec};
use core::fmt;
use polder_types::{BootId, ContainerId, DrainVersion, HomeId, HostInfo, Timestamp};
use serde::{Deserialize, Serialize};

use crate::message::DrainOrder;

/// A host of the datacenter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRecord {
    /// What it says it is.
    pub info: HostInfo,
    /// The boot that was last heard.
    pub boot: BootId,
    /// The data folder that its name belongs to: no other agent may speak for it. None until one is heard.
    #[serde(default)]
    pub home: Option<HomeId>,
    /// When it was first heard.
    pub registered_at: Timestamp,
    /// Set while new tasks are kept away by a person's order.
    #[serde(default)]
    pub cordon: Option<Cordon>,
    /// The newest drain, also when it has ended.
    #[serde(default)]
    pub drain: Option<DrainRecord>,
    /// The number of the newest drain.
    #[serde(default)]
    pub drains: DrainVersion,
}

impl HostRecord {
    /// The drain that keeps tasks away, in progress or ended, as the host and the shards are told.
    #[must_use]
    pub fn closing_drain(&self) -> Option<DrainOrder> {
        self.drain
            .as_ref()
            .filter(|drain| drain.closes())
            .map(|drain| DrainOrder { version: drain.version, deadline: drain.deadline })
    }
}

/// That a host was cordoned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cordon {
    /// Since when.
    pub since: Timestamp,
    /// By whom.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// One drain of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainRecord {
    /// Which.
    pub version: DrainVersion,
    /// When what is left is stopped by force.
    pub deadline: Timestamp,
    /// Why.
    pub reason: String,
    /// By whom.
    pub by: String,
    /// When it was ordered.
    pub started_at: Timestamp,
    /// How far it is.
    pub state: DrainState,
    /// Containers that were killed because the deadline passed.
    #[serde(default)]
    pub forced: Vec<ContainerId>,
    /// Containers that were left when it ended without success.
    #[serde(default)]
    pub left: Vec<ContainerId>,
    /// When it ended.
    #[serde(default)]
    pub ended_at: Option<Timestamp>,
    /// When a host that was too late to attest said after all that nothing is left. Does not make it a success.
    #[serde(default)]
    pub attested_late_at: Option<Timestamp>,
    /// When the host was opened again.
    #[serde(default)]
    pub lifted_at: Option<Timestamp>,
}

impl DrainRecord {
    /// Whether it keeps tasks away: from its order until it is lifted, also after it has ended.
    #[must_use]
    pub const fn closes(&self) -> bool {
        self.lifted_at.is_none()
    }
}

/// How far a drain is. Only `Drained` is success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrainState {
    /// In progress.
    Draining,
    /// The host attested that nothing is left, and nothing was killed for it.
    Drained,
    /// The host attested that nothing is left; some containers were killed at the deadline.
    Forced,
    /// The deadline passed without the host's word that nothing is left.
    Unattested,
    /// Called off.
    Aborted,
}

impl fmt::Display for DrainState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Draining => "draining",
            Self::Drained => "drained",
            Self::Forced => "forced",
            Self::Unattested => "unattested",
            Self::Aborted => "aborted",
        })
    }
}
