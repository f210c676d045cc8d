//! The process itself.

use polder_types::{RegionId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One thing that a process needs to do its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// What: `store`, `allocator`, `shards`.
    pub name: String,
    /// Whether it is there.
    pub ok: bool,
    /// More, in a sentence.
    #[serde(default)]
    pub detail: String,
}

/// An actor of a node: what decides something, and how full its mailbox is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ActorView {
    /// Its name.
    pub name: String,
    /// What it is doing, in a few words: `running`, `restoring (attempt 2)`.
    pub state: String,
    /// Since when.
    #[schema(value_type = u64)]
    pub since: Timestamp,
    /// Events that wait for it.
    pub mailbox_depth: u64,
    /// Events that can wait for it.
    pub mailbox_capacity: u64,
    /// The most that ever waited.
    pub mailbox_high_water: u64,
    /// Events that were turned away because there was no room.
    pub mailbox_refused: u64,
    /// The oldest event that waits has waited at most so many milliseconds.
    pub oldest_ms_max: u64,
    /// Steps that it has taken.
    pub steps: u64,
    /// How long the longest step took, in microseconds.
    pub step_micros_max: u64,
    /// Times that it was dropped and restored.
    pub restarts: u64,
    /// Steps that panicked.
    pub panics: u64,
    /// The last thing that went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// Every actor of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ActorList {
    /// The actors.
    pub actors: Vec<ActorView>,
}

/// Whether a process can do its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ready {
    /// Whether it can.
    pub ready: bool,
    /// `region` or `federation`.
    pub role: String,
    /// The region, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub region: Option<RegionId>,
    /// The program's version.
    pub version: String,
    /// What it needs.
    #[serde(default)]
    pub checks: Vec<Check>,
}
