//! What the quota ledger remembers, and how it starts.

use crate::{machine::Effects, outbox::Outbox};
use alloc::{collections::BTreeMap, string::String};
use polder_types::{AccountId, Allotment, Amounts, Quota, RegionId, Timestamp};
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

impl QuotaRecord {
    /// Whether the account has no quota any more.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.quota.limit == Amounts::UNLIMITED
    }
}

impl Share {
    /// The newest allotment that was made for the region.
    #[must_use]
    pub fn newest(&self) -> Option<&Allotment> {
        self.sent.as_ref().or(self.agreed.as_ref())
    }
}

/// What is known of a region. Soft: the region says it again.
#[derive(Clone, Debug, Default)]
pub(super) struct Region {
    pub(super) heard: bool,
    pub(super) as_of: Option<Timestamp>,
    pub(super) used: BTreeMap<AccountId, Amounts>,
    /// Why it refused an allotment of this version.
    pub(super) refused: BTreeMap<AccountId, (u64, String)>,
}

/// Shares quotas out over regions.
#[derive(Debug, Default)]
pub struct QuotaLedger {
    pub(super) quotas: BTreeMap<AccountId, QuotaRecord>,
    pub(super) regions: BTreeMap<RegionId, Region>,
    /// Allotments that regions are not known to have.
    pub(super) outbox: Outbox<AccountId>,
}

impl QuotaLedger {
    /// Starts from its durable quotas. Regions are told of by events, and what they have not agreed to is sent again
    /// when they are heard.
    pub fn restore(records: impl IntoIterator<Item = QuotaRecord>, _now: Timestamp) -> (Self, Effects<Self>) {
        let mut ledger = Self::default();
        for record in records {
            for (region, share) in &record.regions {
                ledger.regions.entry(region.clone()).or_default();
                if share.sent.is_some() {
                    ledger.outbox.want(region, &record.quota.account, None);
                }
            }
            ledger.quotas.insert(record.quota.account.clone(), record);
        }
        (ledger, Effects::none())
    }
}
