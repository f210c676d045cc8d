//! Sends slices until their regions have them.

use super::{
    PUTS_PER_STEP_MAX, REFUSED_RETRY,
    event::Effect,
    state::{IntentRouter, RegionHealth},
};
use crate::{machine::Effects, message::Notice};
use alloc::{
    boxed::Box,
    format,
    string::{String, ToString as _},
    vec::Vec,
};
use polder_types::{JobId, RegionId, SliceVersion, Timestamp};

impl IntentRouter {
    /// Queues every slice of a job that its region is not known to have, or, of a job that is being deleted, to have
    /// forgotten.
    pub(super) fn want_puts(&mut self, now: Timestamp, job: &JobId) {
        let Some(record) = self.intents.get(job) else { return };
        if record.deleting {
            self.want_drops(now, job);
            return;
        }
        let shares: Vec<(RegionId, SliceVersion)> =
            record.regions.iter().map(|(region, share)| (region.clone(), share.version)).collect();
        for (region, version) in shares {
            let acked = self.regions.get(&region).and_then(|region| region.acked.get(job)).copied();
            if version > acked.unwrap_or_default() {
                let at = self.is_heard(&region).then_some(now);
                self.outbox.want(&region, job, at);
            }
        }
    }

    /// Sends what is due, as much as one step may. It waits behind the changes of this step: what a region is told
    /// is durable here.
    pub(super) fn send_due(&mut self, now: Timestamp, effects: &mut Effects<Self>) {
        for _ in 0..PUTS_PER_STEP_MAX {
            let Some((region, job)) = self.outbox.pop_due(now) else { break };
            let record = self.intents.get(&job);
            let deleting = record.is_some_and(|record| record.deleting);
            match record.and_then(|record| record.slice(&region)) {
                None => self.outbox.done(&region, &job),
                Some(slice) if deleting => effects.after(Effect::DropSlice { region, job, version: slice.version }),
                Some(slice) => effects.after(Effect::PutSlice { region, slice: Box::new(slice) }),
            }
        }
    }

    /// A region has this version of a slice.
    pub(super) fn ack(&mut self, region: &RegionId, job: &JobId, version: SliceVersion) {
        let record = self.intents.get(job).filter(|record| !record.deleting);
        let wanted = record.and_then(|record| record.regions.get(region)).map(|share| share.version);
        let Some(known) = self.regions.get_mut(region) else { return };
        let acked = known.acked.entry(job.clone()).or_default();
        *acked = version.max(*acked);
        if wanted.is_some_and(|wanted| version >= wanted) {
            known.refused.remove(job);
            self.outbox.done(region, job);
        }
    }

    /// A region has refused a slice, or to forget it: it is tried again, but seldom.
    pub(super) fn refused(
        &mut self,
        now: Timestamp,
        region: &RegionId,
        job: &JobId,
        version: SliceVersion,
        problem: String,
        effects: &mut Effects<Self>,
    ) {
        let record = self.intents.get(job);
        let what = if record.is_some_and(|record| record.deleting) { "to forget " } else { "" };
        let wanted = record.and_then(|record| record.regions.get(region)).map(|share| share.version);
        let Some(known) = self.regions.get_mut(region) else { return };
        if wanted != Some(version) {
            return;
        }
        let refusal = (version, problem);
        let news = known.refused.get(job) != Some(&refusal);
        if news {
            effects.now(Effect::Notice(Notice {
                kind: "slice_refused",
                subject: job.to_string(),
                message: format!("region {region} refused {what}its part of job {job}: {}", refusal.1),
            }));
        }
        known.refused.insert(job.clone(), refusal);
        let at = (known.health == RegionHealth::Heard).then(|| now + REFUSED_RETRY);
        self.outbox.postpone(region, job, at);
    }
}
