//! What people order: apply, stop, delete.

use super::{
    INTENTS_MAX,
    event::{Answer, Delta, Effect, Problem},
    split,
    state::{IntentRecord, IntentRouter, Share},
};
use crate::{
    machine::Effects,
    message::{Notice, ReplyId},
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString as _},
};
use polder_types::{Generation, JobId, JobSpec, RegionId, Slots, Timestamp};

impl IntentRouter {
    pub(super) fn apply(&mut self, now: Timestamp, reply: ReplyId, spec: JobSpec, effects: &mut Effects<Self>) {
        let job = spec.id.clone();
        let answer = match self.apply_spec(now, spec, effects) {
            Ok((generation, changed)) => Answer::Done { job, generation, changed },
            Err(problem) => Answer::Refused(problem),
        };
        effects.after(Effect::Reply { reply, answer });
    }

    fn apply_spec(
        &mut self,
        now: Timestamp,
        spec: JobSpec,
        effects: &mut Effects<Self>,
    ) -> Result<(Generation, bool), Problem> {
        let job = spec.id.clone();
        let old = self.intents.get(&job);
        if let Some(old) = old
            && old.spec == spec
            && !old.stopped
        {
            return Ok((old.generation, false));
        }
        if old.is_none() && self.intents.len() >= usize::try_from(INTENTS_MAX).unwrap_or(usize::MAX) {
            return Err(Problem::TooManyJobs { job, max: INTENTS_MAX });
        }
        // Who only changes the image does not want tasks to move because a region has joined meanwhile.
        let same_split = old.is_some_and(|old| old.spec.tasks == spec.tasks && old.spec.regions == spec.regions);
        let targets = if same_split { None } else { Some(self.targets(&spec)?) };
        let record = self.intents.entry(job.clone()).or_insert_with(|| IntentRecord {
            spec: spec.clone(),
            generation: Generation(0),
            stopped: false,
            regions: BTreeMap::new(),
        });
        if record.generation == Generation(0) || record.spec != spec {
            record.generation = record.generation.next();
        }
        record.spec = spec;
        record.stopped = false;
        if let Some(mut targets) = targets {
            for (region, share) in &mut record.regions {
                share.target = targets.remove(region).unwrap_or_default();
            }
            let new = targets.into_iter().filter(|(_, target)| target.count() > 0);
            record.regions.extend(new.map(|(region, target)| (region, Share { target, ..Share::default() })));
        }
        let generation = record.generation;
        self.renew(&job);
        self.save(now, &job, effects);
        Ok((generation, true))
    }

    /// Which slots each region is to have.
    fn targets(&self, spec: &JobSpec) -> Result<BTreeMap<RegionId, Slots>, Problem> {
        let known: BTreeSet<RegionId> = self.regions.keys().cloned().collect();
        let counts = split::counts(spec, &known)?;
        let current: BTreeMap<RegionId, Slots> = match self.intents.get(&spec.id) {
            Some(old) => old.regions.iter().map(|(region, share)| (region.clone(), share.target.clone())).collect(),
            None => BTreeMap::new(),
        };
        Ok(split::assign(spec.tasks, &counts, &current))
    }

    pub(super) fn stop(&mut self, now: Timestamp, reply: ReplyId, job: &JobId, effects: &mut Effects<Self>) {
        let answer = match self.intents.get_mut(job) {
            None => Answer::Refused(Problem::NotFound { job: job.clone() }),
            Some(record) => {
                let changed = !record.stopped;
                let generation = record.generation;
                if changed {
                    record.stopped = true;
                    self.renew(job);
                    self.save(now, job, effects);
                }
                Answer::Done { job: job.clone(), generation, changed }
            }
        };
        effects.after(Effect::Reply { reply, answer });
    }

    pub(super) fn delete(&mut self, reply: ReplyId, job: &JobId, effects: &mut Effects<Self>) {
        let answer = match self.deletable(job) {
            Err(problem) => Answer::Refused(problem),
            Ok(generation) => {
                self.intents.remove(job);
                for (id, region) in &mut self.regions {
                    region.refused.remove(job);
                    self.outbox.done(id, job);
                }
                effects.persist(Delta::Delete(job.clone()));
                effects.after(Effect::Notice(Notice {
                    kind: "job_deleted",
                    subject: job.to_string(),
                    message: format!("job {job} was stopped everywhere and is forgotten"),
                }));
                Answer::Done { job: job.clone(), generation, changed: true }
            }
        };
        effects.after(Effect::Reply { reply, answer });
    }

    /// Whether a job may be forgotten: only when every region has said that nothing of it is left.
    fn deletable(&self, job: &JobId) -> Result<Generation, Problem> {
        let record = self.intents.get(job).ok_or_else(|| Problem::NotFound { job: job.clone() })?;
        let not_gone = |why: String| Err(Problem::NotGone { job: job.clone(), why });
        if !record.stopped {
            return not_gone(String::from("it is not stopped"));
        }
        for (region, share) in &record.regions {
            let known = self.regions.get(region);
            let status = known.and_then(|known| known.statuses.get(job)).filter(|_| self.is_heard(region));
            let Some(status) = status else {
                return not_gone(format!("region {region} has not said what is left of it"));
            };
            if status.version < share.version || !status.stopped {
                return not_gone(format!("region {region} has not heard that it is stopped"));
            }
            let left = status.running.saturating_add(status.leaving);
            if left > 0 {
                return not_gone(format!("region {region} still runs {left} of its tasks"));
            }
        }
        Ok(record.generation)
    }
}
