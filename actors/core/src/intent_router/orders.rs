//! What people order: apply, stop. Deleting is in `delete.rs`.

use super::{
    INTENTS_MAX,
    event::{Answer, Effect, Problem},
    split,
    state::{IntentRecord, IntentRouter, Share},
};
use crate::{machine::Effects, message::ReplyId};
use alloc::collections::{BTreeMap, BTreeSet};
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
        if old.is_some_and(|old| old.deleting) {
            return Err(Problem::BeingDeleted { job });
        }
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
            deleting: false,
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
}
