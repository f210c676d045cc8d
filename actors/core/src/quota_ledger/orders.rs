//! What people order: a quota and its parts.

use super::{
    QUOTAS_MAX,
    event::{Answer, Effect, Problem},
    share_out,
    state::{QuotaLedger, QuotaRecord},
};
use crate::{machine::Effects, message::ReplyId};
use alloc::{collections::BTreeMap, vec::Vec};
use polder_types::{AccountId, Amounts, Quota, RegionId, Timestamp};

impl QuotaLedger {
    pub(super) fn set(
        &mut self,
        now: Timestamp,
        reply: ReplyId,
        account: AccountId,
        limit: Amounts,
        regions: Option<BTreeMap<RegionId, Amounts>>,
        effects: &mut Effects<Self>,
    ) {
        let answer = match self.parts(&account, limit, regions) {
            Err(problem) => Answer::Refused(problem),
            Ok(regions) => {
                let quota = Quota { account: account.clone(), limit, regions };
                let changed = self.quotas.get(&account).is_none_or(|record| record.quota != quota);
                if changed {
                    self.quotas
                        .entry(account.clone())
                        .and_modify(|record| record.quota = quota.clone())
                        .or_insert_with(|| QuotaRecord { quota: quota.clone(), regions: BTreeMap::new() });
                    self.cover_all_regions(&account);
                    self.share_out(now, &account);
                    self.save(&account, effects);
                }
                Answer::Done { quota, changed }
            }
        };
        effects.after(Effect::Reply { reply, answer });
    }

    /// Has an account use what there is. Its record stays: regions must hear of it under a newer version than what they
    /// hold, and a quota that is set later must be newer still.
    pub(super) fn remove(&mut self, now: Timestamp, reply: ReplyId, account: &AccountId, effects: &mut Effects<Self>) {
        let answer = match self.quotas.get_mut(account).filter(|record| !record.is_removed()) {
            None => Answer::Refused(Problem::NotFound { account: account.clone() }),
            Some(record) => {
                record.quota.limit = Amounts::UNLIMITED;
                record.quota.regions.clear();
                let quota = record.quota.clone();
                self.share_out(now, account);
                self.save(account, effects);
                Answer::Done { quota, changed: true }
            }
        };
        effects.after(Effect::Reply { reply, answer });
    }

    /// Each region's part, as asked for.
    fn parts(
        &self,
        account: &AccountId,
        limit: Amounts,
        regions: Option<BTreeMap<RegionId, Amounts>>,
    ) -> Result<BTreeMap<RegionId, Amounts>, Problem> {
        let full = self.quotas.len() >= usize::try_from(QUOTAS_MAX).unwrap_or(usize::MAX);
        if full && !self.quotas.contains_key(account) {
            return Err(Problem::TooManyQuotas { account: account.clone(), max: QUOTAS_MAX });
        }
        let known: Vec<RegionId> = self.regions.keys().cloned().collect();
        let Some(regions) = regions else {
            return Ok(share_out::evenly(limit, &known));
        };
        let unknown: Vec<RegionId> = regions.keys().filter(|region| !known.contains(region)).cloned().collect();
        if !unknown.is_empty() {
            return Err(Problem::UnknownRegions { account: account.clone(), unknown, known });
        }
        let sum = regions.values().fold(Amounts::default(), |sum, part| sum.plus(*part));
        if !sum.within(limit) {
            return Err(Problem::AboveLimit { account: account.clone(), over: sum.minus(limit) });
        }
        Ok(regions)
    }

    /// Gives each known region a share, be it nothing: a region without an allotment admits without limit.
    pub(super) fn cover_all_regions(&mut self, account: &AccountId) -> bool {
        let Some(record) = self.quotas.get_mut(account) else { return false };
        let before = record.regions.len();
        for region in self.regions.keys() {
            record.regions.entry(region.clone()).or_default();
        }
        record.regions.len() > before
    }
}
