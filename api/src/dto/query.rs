//! Queries.

use crate::limits;
use serde::{Deserialize, Serialize};

/// Which part of a list is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Page {
    /// Items of a page: 1 to 1,000.
    #[serde(default = "page_default")]
    pub limit: u32,
    /// Read on behind this: the `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

const fn page_default() -> u32 {
    limits::PAGE_DEFAULT
}

/// Which logs are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LogQuery {
    /// Go on with what the task prints from now on.
    #[serde(default)]
    pub follow: bool,
    /// Begin with so many last lines; all that are kept without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<u32>,
}

/// Which version of a slice is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SliceQuery {
    /// The newest that is known: a region that has a newer one refuses.
    #[param(value_type = u64)]
    pub version: polder_types::SliceVersion,
}

impl Default for Page {
    fn default() -> Self {
        Self { limit: page_default(), after: None }
    }
}
