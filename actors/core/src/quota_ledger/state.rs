//! What the quota ledger remembers.

use crate::machine::Effects;
use alloc::collections::BTreeMap;
use polder_types::{Allotment, Amounts, Quota, RegionId, Timestamp};
use serde::{Deserialize, Serialize};

/// What one region is known to believe, and may believe. Durable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// What the region has agreed to durably; none until it has agreed for the first time.
    pub agreed: Option<Allotment>,
    /// What was sent to it since; none when the last that was sent is agreed.
    pub sent: Option<Allotment>,
    /// The most that the region may believe of each amount: the largest of what is agreed and all that was sent since.
    pub ceiling: Amounts,
}

/// An account's quota as the federation holds it. Durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaRecord {
    /// What was set: the whole, and what each region is to have of it in the end.
    pub quota: Quota,
    /// Each region that has or had a part.
    pub regions: BTreeMap<RegionId, Share>,
}

/// Shares quotas out over regions.
#[derive(Debug, Default)]
pub struct QuotaLedger {}

impl QuotaLedger {
    /// Starts from its durable quotas. Regions are told of by events.
    pub fn restore(records: impl IntoIterator<Item = QuotaRecord>, now: Timestamp) -> (Self, Effects<Self>) {
        let _ = (records.into_iter().count(), now);
        (Self {}, Effects::none())
    }
}
