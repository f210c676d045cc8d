//! What the intent router does when regions are heard, and when they are not.

use super::{
    STATUSES_PER_REGION_MAX,
    event::Effect,
    state::{IntentRouter, RegionHealth},
};
use crate::{
    machine::Effects,
    message::{Notice, SliceStatus},
};
use alloc::{
    collections::BTreeSet,
    format,
    string::{String, ToString as _},
    vec::Vec,
};
use polder_types::{JobId, RegionId, SliceVersion, Timestamp};

impl IntentRouter {
    pub(super) fn hear(
        &mut self,
        now: Timestamp,
        region: &RegionId,
        at: Timestamp,
        statuses: Vec<SliceStatus>,
        complete: bool,
        effects: &mut Effects<Self>,
    ) {
        self.know(region);
        let was = self.regions.get(region).map(|known| known.health).unwrap_or_default();
        let Some(known) = self.regions.get_mut(region) else { return };
        known.health = RegionHealth::Heard;
        known.as_of = known.as_of.max(Some(at));
        if complete {
            known.listed = true;
            let present: BTreeSet<&JobId> = statuses.iter().map(|status| &status.job).collect();
            known.statuses.retain(|job, _| present.contains(job));
            self.send_what_is_missing(now, region, &present);
        }
        for status in statuses {
            self.hear_slice(now, region, status, effects);
        }
        if was != RegionHealth::Heard {
            self.outbox.postpone_all(region, Some(now));
            let message = match was {
                RegionHealth::Silent { since } => {
                    format!("region {region} is heard again after {}", now.since(since))
                }
                _ => format!("region {region} is heard"),
            };
            effects.now(notice("region_heard", region, message));
        }
    }

    /// Has slices sent again that a region turns out not to have, whatever it acknowledged before.
    fn send_what_is_missing(&mut self, now: Timestamp, region: &RegionId, present: &BTreeSet<&JobId>) {
        let Some(known) = self.regions.get_mut(region) else { return };
        let lost: Vec<JobId> = known.acked.keys().filter(|job| !present.contains(job)).cloned().collect();
        for job in lost {
            if let Some(known) = self.regions.get_mut(region) {
                known.acked.remove(&job);
            }
            // One that was to forget the job has it no more, and need not be told again.
            let lacks = self.intents.get(&job).is_some_and(|record| record.slice(region).is_some());
            if lacks && !self.has_dropped(region, &job) {
                self.outbox.want(region, &job, Some(now));
            }
        }
    }

    /// Has a slice sent again of which a region says an older version than it was thought to have: it told of the newer
    /// one before that was durable, and has lost it. If it is this word that is old, sending once more does no harm.
    fn send_what_was_lost(&mut self, now: Timestamp, region: &RegionId, job: &JobId, version: SliceVersion) {
        let record = self.intents.get(job).filter(|record| !record.deleting);
        let wanted = record.and_then(|record| record.regions.get(region)).map(|share| share.version);
        let Some(known) = self.regions.get_mut(region) else { return };
        let has = known.acked.get(job).copied().unwrap_or_default();
        if wanted.is_some_and(|wanted| version < wanted && has >= wanted) {
            known.acked.insert(job.clone(), version);
            self.outbox.want(region, job, Some(now));
        }
    }

    fn hear_slice(&mut self, now: Timestamp, region: &RegionId, status: SliceStatus, effects: &mut Effects<Self>) {
        let job = status.job.clone();
        self.ack(region, &job, status.version);
        self.send_what_was_lost(now, region, &job, status.version);
        let wanted = self.intents.get(&job).and_then(|record| record.regions.get(region)).map(|share| share.version);
        let deleting = self.intents.get(&job).is_some_and(|record| record.deleting);
        let gone = !deleting && self.let_go(region, &status);
        let ahead = wanted.is_some_and(|wanted| status.version > wanted);
        let version = status.version;
        if let Some(known) = self.regions.get_mut(region) {
            let known_job = wanted.is_some() || known.statuses.contains_key(&job);
            if known_job || known.statuses.len() < STATUSES_PER_REGION_MAX {
                known.statuses.insert(job.clone(), status);
            }
        }
        if ahead {
            self.overtake(region, &job, version, effects);
        }
        let moved = gone && self.go_on(&job);
        if ahead || gone || moved {
            self.save(now, &job, effects);
        }
    }

    /// A region has a newer slice than this federation has ever sent: the federation's state was restored from a
    /// copy. What the federation holds goes, under a version that is newer still.
    fn overtake(&mut self, region: &RegionId, job: &JobId, version: SliceVersion, effects: &mut Effects<Self>) {
        let record = self.intents.get_mut(job);
        let Some(share) = record.and_then(|record| record.regions.get_mut(region)) else { return };
        let message = format!(
            "region {region} has version {version} of its part of job {job}, newer than the {} that is on record here; \
             it is sent again as a newer one",
            share.version
        );
        share.version = version.next();
        effects.now(Effect::Notice(Notice { kind: "slice_overtaken", subject: job.to_string(), message }));
    }

    pub(super) fn fall_silent(&mut self, now: Timestamp, region: &RegionId, effects: &mut Effects<Self>) {
        let Some(known) = self.regions.get_mut(region) else { return };
        if matches!(known.health, RegionHealth::Silent { .. }) {
            return;
        }
        known.health = RegionHealth::Silent { since: now };
        self.outbox.postpone_all(region, None);
        let message = format!("region {region} is not heard; what it runs goes on, and it keeps its share");
        effects.now(notice("region_silent", region, message));
    }
}

fn notice(kind: &'static str, region: &RegionId, message: String) -> Effect {
    Effect::Notice(Notice { kind, subject: region.to_string(), message })
}
