//! How a slot gets from one region to another: it is taken away first, and added only when the old region has said,
//! of the slice that took it away, that nothing of it is left. So it is never in two regions at once.

use super::state::{IntentRecord, IntentRouter, Region, Share};
use crate::message::SliceStatus;
use alloc::collections::{BTreeMap, BTreeSet};
use polder_types::{JobId, RegionId, SliceVersion, Slots};

impl IntentRouter {
    /// Makes new slices for every region that has anything of a job, after its spec or order changed.
    pub(super) fn renew(&mut self, job: &JobId) {
        self.remake(job, true);
    }

    /// Goes on with the moves of a job; says whether any slice changed.
    pub(super) fn go_on(&mut self, job: &JobId) -> bool {
        self.remake(job, false)
    }

    fn remake(&mut self, job: &JobId, all: bool) -> bool {
        let Some(record) = self.intents.get_mut(job) else { return false };
        let moved = move_slots(record);
        let mut any = false;
        for (region, share) in &mut record.regions {
            let concerned = share.slots.count() > 0 || share.leaving.count() > 0;
            if moved.contains(region) || (all && concerned) {
                share.version = newer(self.regions.get(region), job, share.version);
                any = true;
            }
        }
        any
    }

    /// Notes that what was taken away from a region is gone, if its status says so; says whether that is news.
    pub(super) fn let_go(&mut self, region: &RegionId, status: &SliceStatus) -> bool {
        let record = self.intents.get_mut(&status.job);
        let Some(share) = record.and_then(|record| record.regions.get_mut(region)) else { return false };
        // A version that is not ours may hold the very slots that were taken away.
        let gone = status.version == share.version && status.leaving == 0 && share.leaving.count() > 0;
        if gone {
            share.leaving = Slots::default();
        }
        gone
    }
}

/// The next version of a slice: newer than any that the region is known to have seen, also of a job that was
/// forgotten and applied again.
fn newer(region: Option<&Region>, job: &JobId, version: SliceVersion) -> SliceVersion {
    let heard = region.and_then(|region| region.statuses.get(job)).map(|status| status.version);
    let acked = region.and_then(|region| region.acked.get(job)).copied();
    heard.into_iter().chain(acked).fold(version, SliceVersion::max).next()
}

/// Takes away what is to go, and adds what no other region may hold; says whose slots changed.
fn move_slots(record: &mut IntentRecord) -> BTreeSet<RegionId> {
    let mut moved = BTreeSet::new();
    for (region, share) in &mut record.regions {
        let target = set(&share.target);
        let goes: BTreeSet<u32> = share.slots.iter().filter(|slot| !target.contains(slot)).collect();
        if !goes.is_empty() {
            share.slots = share.slots.iter().filter(|slot| !goes.contains(slot)).collect();
            share.leaving = share.leaving.iter().chain(goes).collect();
            moved.insert(region.clone());
        }
    }
    let holders = holders(&record.regions);
    for (region, share) in &mut record.regions {
        let has = set(&share.slots);
        let free = |slot: &u32| holders.get(slot).is_none_or(|holders| holders.iter().all(|holder| holder == region));
        let comes: BTreeSet<u32> =
            share.target.iter().filter(|slot| !has.contains(slot)).filter(|slot| free(slot)).collect();
        if !comes.is_empty() {
            share.leaving = share.leaving.iter().filter(|slot| !comes.contains(slot)).collect();
            share.slots = share.slots.iter().chain(comes).collect();
            moved.insert(region.clone());
        }
    }
    moved
}

/// Which regions may run each slot.
pub(super) fn holders(regions: &BTreeMap<RegionId, Share>) -> BTreeMap<u32, BTreeSet<RegionId>> {
    let mut holders: BTreeMap<u32, BTreeSet<RegionId>> = BTreeMap::new();
    for (region, share) in regions {
        for slot in share.slots.iter().chain(share.leaving.iter()) {
            holders.entry(slot).or_default().insert(region.clone());
        }
    }
    holders
}

fn set(slots: &Slots) -> BTreeSet<u32> {
    slots.iter().collect()
}
