//! What a broker shows people.

use alloc::{string::String, vec::Vec};
use polder_types::{BootId, ContainerId, HostInfo, Timestamp};
use serde::{Deserialize, Serialize};

use super::state::{Cordon, DrainRecord};
use crate::message::HostHealth;

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostView {
    /// What it is.
    pub info: HostInfo,
    /// The boot that was last heard.
    pub boot: BootId,
    /// Whether it is heard.
    pub health: HostHealth,
    /// Whether a link is open.
    pub linked: bool,
    /// When it was last heard, by this owner.
    pub heard_at: Option<Timestamp>,
    /// When it was first heard.
    pub registered_at: Timestamp,
    /// Set while new tasks are kept away by a person's order.
    pub cordon: Option<Cordon>,
    /// Its newest drain.
    pub drain: Option<DrainRecord>,
    /// How the drain in progress goes.
    pub progress: Option<DrainProgress>,
}

/// How a drain in progress goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainProgress {
    /// Whether the host has said that it knows of the drain.
    pub accepted: bool,
    /// Containers that the host said are left.
    pub remaining: Vec<ContainerId>,
    /// What it waits for, in a few words.
    pub reason: String,
    /// When something is done about it.
    pub deadline: Timestamp,
    /// What that is.
    pub then: String,
}
