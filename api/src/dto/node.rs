//! The process itself.

use polder_types::RegionId;
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
