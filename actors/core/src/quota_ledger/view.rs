//! What others may read of the quota ledger.

use super::state::{QuotaLedger, QuotaRecord, Share};
use alloc::{string::String, vec::Vec};
use polder_types::{AccountId, Amounts, Quota, RegionId, Timestamp};

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
    /// Why it refused what was sent last, if it did.
    pub refused: Option<String>,
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

impl QuotaLedger {
    /// Every quota, in order of account; those that were removed are none.
    pub fn quotas(&self) -> impl Iterator<Item = QuotaView<'_>> + '_ {
        self.quotas.values().filter(|record| !record.is_removed()).map(|record| self.quota_view(record))
    }

    /// One quota.
    #[must_use]
    pub fn quota(&self, account: &AccountId) -> Option<QuotaView<'_>> {
        self.quotas.get(account).filter(|record| !record.is_removed()).map(|record| self.quota_view(record))
    }

    /// How many allotments are not known to have reached their regions.
    #[must_use]
    pub fn puts_pending(&self) -> usize {
        self.outbox.len()
    }

    fn quota_view<'a>(&'a self, record: &'a QuotaRecord) -> QuotaView<'a> {
        let account = &record.quota.account;
        let share_view = |(region, share): (&RegionId, &Share)| {
            let known = self.regions.get(region);
            let as_of = known.and_then(|known| known.as_of);
            let said = known.filter(|_| as_of.is_some());
            let refused = known.and_then(|known| known.refused.get(account));
            ShareView {
                region: region.clone(),
                wanted: record.quota.regions.get(region).copied().unwrap_or_default(),
                share: share.clone(),
                used: said.map(|known| known.used.get(account).copied().unwrap_or_default()),
                as_of,
                heard: known.is_some_and(|known| known.heard),
                refused: refused.map(|(_, why)| why.clone()),
            }
        };
        let regions: Vec<ShareView> = record.regions.iter().map(share_view).collect();
        let used = regions.iter().filter_map(|share| share.used).fold(Amounts::default(), Amounts::plus);
        QuotaView { quota: &record.quota, used, regions }
    }
}
