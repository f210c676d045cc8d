//! What happened.

use polder_types::{RegionId, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How much an event matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// It went as it should.
    #[default]
    Info,
    /// Somebody may want to look.
    Warning,
    /// Somebody should look.
    Error,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventView {
    /// When.
    #[schema(value_type = u64)]
    pub at: Timestamp,
    /// Where; none for what concerns the federation as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub region: Option<RegionId>,
    /// How much it matters.
    #[serde(default)]
    pub level: Level,
    /// Short, stable, in the past tense: `task_started`, `host_silent`.
    pub kind: String,
    /// What it is about: a job, task or host.
    pub subject: String,
    /// What happened, in a sentence.
    pub message: String,
}

/// The latest events, newest last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventList {
    /// The events.
    pub events: Vec<EventView>,
}
