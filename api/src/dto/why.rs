//! Why a task is where it is, or what it waits for.

use super::job::{TaskPhase, Wait};
use polder_types::{HostId, RegionId, TaskId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Hosts that were ruled out for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rejection {
    /// Short and stable: `cpu`, `memory`, `constraint`, `cordoned`, `silent`.
    pub reason: String,
    /// The reason in a sentence.
    pub message: String,
    /// How many hosts.
    pub hosts: u32,
}

/// Why a task is where it is, or what it waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhyView {
    /// The task.
    #[schema(value_type = String)]
    pub task: TaskId,
    /// The region that placed it or tries to.
    #[schema(value_type = String)]
    pub region: RegionId,
    /// The host it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub host: Option<HostId>,
    /// Where it is in its life.
    pub phase: TaskPhase,
    /// The answer in a sentence: why this host, or why none.
    pub summary: String,
    /// Hosts that were looked at.
    #[serde(default)]
    pub considered: u32,
    /// Hosts that were ruled out, by reason, most first.
    #[serde(default)]
    pub rejected: Vec<Rejection>,
    /// What is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Wait>,
}
