//! How a job is forgotten: only when nothing of it is left anywhere, by an explicit order to each region, and here last.

use super::{
    event::{Answer, Delta, Effect, Problem},
    state::IntentRouter,
};
use crate::{
    machine::Effects,
    message::{Notice, ReplyId},
};
use alloc::{
    format,
    string::{String, ToString as _},
    vec::Vec,
};
use polder_types::{Generation, JobId, RegionId, SliceVersion, Timestamp};

impl IntentRouter {
    pub(super) fn delete(&mut self, now: Timestamp, reply: ReplyId, job: &JobId, effects: &mut Effects<Self>) {
        let answer = match self.deletable(job) {
            Err(problem) => Answer::Refused(problem),
            Ok(generation) => {
                let record = self.intents.get_mut(job);
                let changed = record.is_some_and(|record| !core::mem::replace(&mut record.deleting, true));
                if changed {
                    self.save(now, job, effects);
                    self.forget_if_dropped(job, effects);
                }
                Answer::Done { job: job.clone(), generation, changed }
            }
        };
        effects.after(Effect::Reply { reply, answer });
    }

    /// Whether a job may be forgotten: only when every region has said that nothing of it is left.
    fn deletable(&self, job: &JobId) -> Result<Generation, Problem> {
        let record = self.intents.get(job).ok_or_else(|| Problem::NotFound { job: job.clone() })?;
        if record.deleting {
            return Ok(record.generation);
        }
        if !record.stopped {
            return Err(Problem::NotStopped { job: job.clone() });
        }
        for (region, share) in &record.regions {
            if let Some(why) = self.left_in(region, job, share.version) {
                return Err(Problem::NotGone { job: job.clone(), why });
            }
        }
        Ok(record.generation)
    }

    /// What is left of a job in a region, or may be.
    fn left_in(&self, region: &RegionId, job: &JobId, version: SliceVersion) -> Option<String> {
        if version == SliceVersion(0) {
            return None;
        }
        let unheard = || Some(format!("region {region} has not said what is left of it"));
        let Some(known) = self.regions.get(region).filter(|_| self.is_heard(region)) else { return unheard() };
        let Some(status) = known.statuses.get(job) else {
            // A region that refused all that came has nothing of it.
            let refused = known.refused.get(job).is_some_and(|(refused, _)| *refused == version);
            return if refused && known.listed { None } else { unheard() };
        };
        if status.version < version || !status.stopped {
            return Some(format!("region {region} has not heard that it is stopped"));
        }
        let left = status.running.saturating_add(status.leaving);
        (left > 0).then(|| format!("region {region} still runs {left} of its tasks"))
    }

    /// Has every region told that is not known to have forgotten the job.
    pub(super) fn want_drops(&mut self, now: Timestamp, job: &JobId) {
        let Some(record) = self.intents.get(job) else { return };
        let had = record.regions.iter().filter(|(_, share)| share.version > SliceVersion(0));
        let regions: Vec<RegionId> = had.map(|(region, _)| region.clone()).collect();
        for region in regions {
            if !self.has_dropped(&region, job) {
                let at = self.is_heard(&region).then_some(now);
                self.outbox.want(&region, job, at);
            }
        }
    }

    pub(super) fn has_dropped(&self, region: &RegionId, job: &JobId) -> bool {
        self.regions.get(region).is_some_and(|known| known.dropped.contains(job))
    }

    /// A region has forgotten its slice.
    pub(super) fn dropped(&mut self, region: &RegionId, job: &JobId, effects: &mut Effects<Self>) {
        if !self.intents.get(job).is_some_and(|record| record.deleting) {
            return;
        }
        let Some(known) = self.regions.get_mut(region) else { return };
        known.dropped.insert(job.clone());
        known.statuses.remove(job);
        known.refused.remove(job);
        self.outbox.done(region, job);
        self.forget_if_dropped(job, effects);
    }

    /// Forgets a job that no region has any more.
    fn forget_if_dropped(&mut self, job: &JobId, effects: &mut Effects<Self>) {
        let Some(record) = self.intents.get(job).filter(|record| record.deleting) else { return };
        let mut had = record.regions.iter().filter(|(_, share)| share.version > SliceVersion(0));
        if had.any(|(region, _)| !self.has_dropped(region, job)) {
            return;
        }
        self.intents.remove(job);
        for (id, known) in &mut self.regions {
            known.dropped.remove(job);
            known.refused.remove(job);
            self.outbox.done(id, job);
        }
        effects.persist(Delta::Delete(job.clone()));
        effects.after(Effect::Notice(Notice {
            kind: "job_deleted",
            subject: job.to_string(),
            message: format!("job {job} was stopped everywhere and is forgotten: its name is free"),
        }));
    }
}
