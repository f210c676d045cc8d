//! The rules that always hold.

use super::{
    moves,
    state::{IntentRecord, IntentRouter},
};
use crate::machine::Violation;
use alloc::{collections::BTreeSet, format};
use polder_types::{JobId, SliceVersion};

impl IntentRouter {
    pub(super) fn recount(&self) -> Result<(), Violation> {
        for (job, record) in &self.intents {
            check_record(job, record)?;
        }
        self.check_puts()
    }

    fn check_puts(&self) -> Result<(), Violation> {
        self.outbox.check(|region| self.is_heard(region))?;
        for (job, record) in &self.intents {
            for (region, share) in &record.regions {
                let known = self.regions.get(region);
                let acked = known.and_then(|known| known.acked.get(job)).copied().unwrap_or_default();
                let put = self.outbox.contains(region, job);
                if record.deleting {
                    if (share.version > SliceVersion(0) && !self.has_dropped(region, job)) != put {
                        let found = format!("{job} in {region}: version {}, sent {put}", share.version);
                        return Err(Violation { rule: "a region is told to forget a job until it has", found });
                    }
                    continue;
                }
                if (share.version > acked) != put {
                    let found =
                        format!("{job} in {region}: version {}, acknowledged {acked}, sent {put}", share.version);
                    return Err(Violation { rule: "a slice is sent until its region has it", found });
                }
            }
        }
        Ok(())
    }
}

fn check_record(job: &JobId, record: &IntentRecord) -> Result<(), Violation> {
    for (slot, holders) in moves::holders(&record.regions) {
        if holders.len() > 1 {
            let found = format!("slot {slot} of {job} may run in {holders:?}");
            return Err(Violation { rule: "a slot is in one region at most", found });
        }
    }
    let mut targets = BTreeSet::new();
    for (region, share) in &record.regions {
        let twice = share.target.iter().find(|slot| !targets.insert(*slot));
        if let Some(slot) = twice {
            let found = format!("slot {slot} of {job} has two");
            return Err(Violation { rule: "a slot has one region in the end", found });
        }
        if share.slots.iter().any(|slot| !share.target.contains(slot) || share.leaving.contains(slot)) {
            let found = format!("{job} in {region}: {share:?}");
            return Err(Violation { rule: "a region keeps only what it is to have in the end", found });
        }
        if share.version == SliceVersion(0) && share.slots.count() > 0 {
            let found = format!("{job} in {region}: {share:?}");
            return Err(Violation { rule: "a region that has slots has a slice", found });
        }
    }
    if !targets.iter().copied().eq(0..record.spec.tasks) {
        let found = format!("{job} has {} tasks, {} of them have a region", record.spec.tasks, targets.len());
        return Err(Violation { rule: "each slot has a region in the end", found });
    }
    Ok(())
}
