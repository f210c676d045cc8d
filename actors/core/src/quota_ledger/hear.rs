//! What the quota ledger does when regions join, are heard, and are not.

use super::{
    ACCOUNTS_PER_REGION_MAX, REFUSED_RETRY,
    event::AccountHeard,
    share_out,
    state::{QuotaLedger, Region},
};
use crate::machine::Effects;
use alloc::{collections::BTreeMap, vec::Vec};
use polder_types::{AccountId, Allotment, RegionId, Timestamp};

impl QuotaLedger {
    /// Takes a region in. It gets nothing of the quotas that were shared out before, and is told so: a region without
    /// an allotment admits without limit.
    pub(super) fn know(&mut self, now: Timestamp, region: &RegionId, effects: &mut Effects<Self>) {
        if self.regions.contains_key(region) {
            return;
        }
        self.regions.insert(region.clone(), Region::default());
        let accounts: Vec<AccountId> = self.quotas.keys().cloned().collect();
        for account in accounts {
            if self.cover_all_regions(&account) {
                self.share_out(now, &account);
                self.save(&account, effects);
            }
        }
    }

    pub(super) fn hear(
        &mut self,
        now: Timestamp,
        region: &RegionId,
        at: Timestamp,
        accounts: Vec<AccountHeard>,
        effects: &mut Effects<Self>,
    ) {
        self.know(now, region, effects);
        let Some(known) = self.regions.get_mut(region) else { return };
        let was_heard = core::mem::replace(&mut known.heard, true);
        known.as_of = known.as_of.max(Some(at));
        known.used = accounts
            .iter()
            .take(ACCOUNTS_PER_REGION_MAX)
            .map(|heard| (heard.account.clone(), heard.used))
            .collect::<BTreeMap<_, _>>();
        for heard in accounts {
            if let Some(allotment) = heard.allotment {
                self.hear_allotment(now, region, &allotment, effects);
            }
        }
        if !was_heard {
            self.outbox.postpone_all(region, Some(now));
        }
    }

    /// Compares what a region has with what it should have.
    pub(super) fn hear_allotment(
        &mut self,
        now: Timestamp,
        region: &RegionId,
        heard: &Allotment,
        effects: &mut Effects<Self>,
    ) {
        let account = &heard.account;
        let record = self.quotas.get_mut(account);
        let Some(share) = record.and_then(|record| record.regions.get_mut(region)) else { return };
        let Some(newest) = share.newest().cloned() else { return };
        if *heard == newest {
            self.ack(now, region, account, heard.version, effects);
            return;
        }
        let older_than_agreed = share.agreed.as_ref().is_some_and(|agreed| heard.version < agreed.version);
        if heard.version < newest.version && !older_than_agreed {
            return;
        }
        let version = heard.version.max(newest.version).saturating_add(1);
        let partly = heard.version == newest.version;
        if partly {
            // It agreed, but to something else. That holds, and it is asked again later.
            share.agreed = Some(heard.clone());
            share.ceiling = heard.limit;
        } else {
            // Either side was restored from a copy: what the region believes counts until it has agreed anew.
            share.ceiling = share_out::largest(share.ceiling, heard.limit);
        }
        share.ceiling = share_out::largest(share.ceiling, newest.limit);
        share.sent = Some(Allotment { version, ..newest });
        let at = if partly { now + REFUSED_RETRY } else { now };
        let at = self.is_heard(region).then_some(at);
        self.outbox.want(region, account, at);
        self.share_out(now, account);
        self.save(account, effects);
    }

    pub(super) fn fall_silent(&mut self, region: &RegionId) {
        let Some(known) = self.regions.get_mut(region) else { return };
        if core::mem::replace(&mut known.heard, false) {
            self.outbox.postpone_all(region, None);
        }
    }
}
