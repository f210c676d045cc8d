//! What others may read of the quota ledger.

use super::state::Share;
use alloc::vec::Vec;
use polder_types::{Amounts, Quota, RegionId, Timestamp};

/// One region's part of a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareView {
    /// The region.
    pub region: RegionId,
    /// What it is to have in the end.
    pub wanted: Amounts,
    /// What it has agreed to, and what is under way.
    pub share: Share,
    /// What it uses, as it said last; none if it has said nothing since the ledger started.
    pub used: Option<Amounts>,
    /// When it said so.
    pub as_of: Option<Timestamp>,
    /// Whether it is heard now.
    pub heard: bool,
}

/// A quota with what is known of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaView<'a> {
    /// What was set.
    pub quota: &'a Quota,
    /// What is used, over all regions, as far as they have said.
    pub used: Amounts,
    /// Its parts, in order of region.
    pub regions: Vec<ShareView>,
}
