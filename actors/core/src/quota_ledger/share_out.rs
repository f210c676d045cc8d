//! How the parts of a quota change: a part that shrinks is sent at once, and a part grows only into what no region
//! may believe it has. So what all regions may believe together is never raised above the quota.

use super::state::{QuotaLedger, QuotaRecord, Share};
use crate::machine::Effects;
use alloc::{collections::BTreeMap, vec::Vec};
use polder_types::{AccountId, Allotment, Amounts, Bytes, Cpu, RegionId, Timestamp};

impl QuotaLedger {
    /// Makes every allotment of an account that may be made now, and sends it. Says whether there was any.
    pub(super) fn share_out(&mut self, now: Timestamp, account: &AccountId) -> bool {
        let Some(record) = self.quotas.get_mut(account) else { return false };
        let changed = make_allotments(record);
        for region in &changed {
            let at = self.is_heard(region).then_some(now);
            self.outbox.want(region, account, at);
        }
        !changed.is_empty()
    }

    /// A region has an allotment of this version durably.
    pub(super) fn ack(
        &mut self,
        now: Timestamp,
        region: &RegionId,
        account: &AccountId,
        version: u64,
        effects: &mut Effects<Self>,
    ) {
        let record = self.quotas.get_mut(account);
        let Some(share) = record.and_then(|record| record.regions.get_mut(region)) else { return };
        let Some(sent) = share.sent.take_if(|sent| sent.version == version) else { return };
        share.ceiling = sent.limit;
        share.agreed = Some(sent);
        self.outbox.done(region, account);
        if let Some(known) = self.regions.get_mut(region) {
            known.refused.remove(account);
        }
        // What it has let go may be somebody else's now.
        self.share_out(now, account);
        self.save(account, effects);
    }
}

/// The next allotment of each region, where it differs from its newest; says whose.
fn make_allotments(record: &mut QuotaRecord) -> Vec<RegionId> {
    for region in record.quota.regions.keys() {
        record.regions.entry(region.clone()).or_default();
    }
    let mut changed = Vec::new();
    let removed = record.is_removed();
    let mut room = record.quota.limit.minus(ceilings(&record.regions));
    for (region, share) in &mut record.regions {
        let wanted = record.quota.regions.get(region).copied().unwrap_or_default();
        let limit = if removed { Amounts::UNLIMITED } else { least(wanted, share.ceiling.plus(room)) };
        if share.newest().is_some_and(|newest| newest.limit == limit) {
            continue;
        }
        let version = share.newest().map_or(0, |newest| newest.version).saturating_add(1);
        share.sent = Some(Allotment { account: record.quota.account.clone(), version, limit });
        room = room.minus(limit.minus(share.ceiling));
        share.ceiling = largest(share.ceiling, limit);
        changed.push(region.clone());
    }
    changed
}

/// What all regions may believe together.
pub(super) fn ceilings(regions: &BTreeMap<RegionId, Share>) -> Amounts {
    regions.values().fold(Amounts::default(), |sum, share| sum.plus(share.ceiling))
}

/// A whole in equal parts; what does not divide goes to the earlier ones.
pub(super) fn evenly(limit: Amounts, regions: &[RegionId]) -> BTreeMap<RegionId, Amounts> {
    let parts = u32::try_from(regions.len()).unwrap_or(u32::MAX).max(1);
    let part = |at: u32| Amounts {
        cpu: Cpu::from_centi_cores(share_u32(limit.cpu.centi_cores(), parts, at)),
        memory: Bytes::new(
            limit.memory.get() / u64::from(parts) + u64::from(u64::from(at) < limit.memory.get() % u64::from(parts)),
        ),
        tasks: share_u32(limit.tasks, parts, at),
    };
    (0..parts).zip(regions).map(|(at, region)| (region.clone(), part(at))).collect()
}

fn share_u32(whole: u32, parts: u32, at: u32) -> u32 {
    whole / parts + u32::from(at < whole % parts)
}

pub(super) fn least(a: Amounts, b: Amounts) -> Amounts {
    Amounts { cpu: a.cpu.min(b.cpu), memory: a.memory.min(b.memory), tasks: a.tasks.min(b.tasks) }
}

pub(super) fn largest(a: Amounts, b: Amounts) -> Amounts {
    Amounts { cpu: a.cpu.max(b.cpu), memory: a.memory.max(b.memory), tasks: a.tasks.max(b.tasks) }
}
