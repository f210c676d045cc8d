//! What people and the federation ask of jobs.

use alloc::{collections::BTreeSet, format, string::String};
use polder_types::{Generation, JobId, ShardId, Slice, SliceVersion};

use super::{
    JobShard,
    event::{Applied, Refused},
    limits::{JOBS_MAX, OLDER_TEMPLATES_MAX, TASKS_PER_JOB_MAX, TEXT_BYTES_MAX},
    shard::{Job, Task},
    state::{JobRecord, OlderTemplate, Origin, Outcome, Quarantine, TaskRecord, Template},
    turn::Turn,
};
use crate::wording::counted;

impl JobShard {
    pub(super) fn apply(&mut self, turn: &mut Turn, slice: Slice, origin: Origin) -> Result<Applied, Refused> {
        let owner = slice.shard(self.config.shards);
        if owner != self.config.shard {
            return Err(Refused::WrongShard { owner });
        }
        let asked = slice.slots.count();
        if asked > TASKS_PER_JOB_MAX {
            return Err(Refused::TooManyTasks { asked, max: TASKS_PER_JOB_MAX });
        }
        let id = slice.spec.id.clone();
        if self.jobs.contains_key(&id) {
            self.change(turn, &id, slice, origin)
        } else {
            self.create(turn, slice, origin)
        }
    }

    fn create(&mut self, turn: &mut Turn, mut slice: Slice, origin: Origin) -> Result<Applied, Refused> {
        if self.jobs.len() >= JOBS_MAX {
            return Err(Refused::TooManyJobs { max: JOBS_MAX });
        }
        if origin == Origin::Local {
            slice.version = SliceVersion(1);
        }
        let id = slice.spec.id.clone();
        let record = JobRecord {
            slice,
            generation: Generation(1),
            older: alloc::vec::Vec::new(),
            origin,
            created_at: turn.now,
            changed_at: turn.now,
            quarantine: None,
        };
        let message = format!("it was applied, with {} in this region", counted(record.slice.slots.count(), "task"));
        turn.notice("job_applied", &id, message);
        self.jobs.insert(id.clone(), Job::new(record));
        Ok(self.changed(turn, &id, &BTreeSet::new()))
    }

    fn change(&mut self, turn: &mut Turn, id: &JobId, mut slice: Slice, origin: Origin) -> Result<Applied, Refused> {
        let Some(job) = self.jobs.get_mut(id) else { return Err(Refused::UnknownJob) };
        let old = &job.record;
        if old.origin != origin {
            return Err(Refused::WrongOrigin { owner: old.origin });
        }
        let have = old.slice.version;
        let came = core::mem::replace(&mut slice.version, have);
        let equal = slice == old.slice;
        match origin {
            // Applied again, a job that was set aside is tried again, even if nothing else changed.
            Origin::Local => slice.version = if equal && old.quarantine.is_none() { have } else { have.next() },
            Origin::Federation if came < have => return Err(Refused::OlderVersion { have, came }),
            Origin::Federation if came == have && !equal => return Err(Refused::SameVersion { version: have }),
            Origin::Federation => slice.version = came,
        }
        if slice.version == have {
            return Ok(Applied { job: id.clone(), version: have, generation: old.generation, changed: false });
        }
        if slice.spec.kind != old.slice.spec.kind {
            return Err(Refused::KindChanged);
        }
        let was_wanted: BTreeSet<u32> =
            job.tasks.iter().filter(|(_, task)| task.wanted).map(|(index, _)| *index).collect();
        let what = if slice.stopped && !old.slice.stopped {
            Some(("job_stopped", String::from("it was stopped: its tasks are given their grace")))
        } else if equal {
            None
        } else {
            Some((
                "job_applied",
                format!("it was changed, and has {} in this region", counted(slice.slots.count(), "task")),
            ))
        };
        let template = Template::of(&slice.spec);
        let released = template != job.template;
        if released {
            let old = core::mem::replace(&mut job.template, template);
            job.record.older.push(OlderTemplate { generation: job.record.generation, template: old });
            job.record.generation = job.record.generation.next();
        }
        job.record.slice = slice;
        job.record.changed_at = turn.now;
        job.shapes.clear();
        if released {
            job.forget_templates();
            for index in job.begin_release() {
                turn.save_task(id, index);
            }
        }
        if let Some((kind, message)) = what {
            turn.notice(kind, id, message);
        }
        Ok(self.changed(turn, id, &was_wanted))
    }

    pub(super) fn stop(&mut self, turn: &mut Turn, id: &JobId, origin: Origin) -> Result<Applied, Refused> {
        self.owned(id)?;
        let Some(job) = self.jobs.get(id) else { return Err(Refused::UnknownJob) };
        let mut slice = job.record.slice.clone();
        slice.stopped = true;
        slice.version = match origin {
            Origin::Local => slice.version,
            Origin::Federation if job.record.slice.stopped => slice.version,
            Origin::Federation => slice.version.next(),
        };
        self.change(turn, id, slice, origin)
    }

    pub(super) fn delete(&mut self, turn: &mut Turn, id: &JobId, origin: Origin) -> Result<Applied, Refused> {
        self.owned(id)?;
        let Some(job) = self.jobs.get(id) else { return Err(Refused::UnknownJob) };
        if job.record.origin != origin {
            return Err(Refused::WrongOrigin { owner: job.record.origin });
        }
        if !job.record.slice.stopped {
            return Err(Refused::NotStopped);
        }
        if let Some((index, example)) = job.containers().next() {
            return Err(Refused::StillRunning {
                containers: u32::try_from(job.containers().count()).unwrap_or(u32::MAX),
                example: example.container(id, index),
                host: example.host.clone(),
            });
        }
        let applied = Applied {
            job: id.clone(),
            version: job.record.slice.version,
            generation: job.record.generation,
            changed: true,
        };
        let tasks: alloc::vec::Vec<u32> = job.tasks.keys().copied().collect();
        for index in tasks {
            self.drop_ask(turn, id, index);
            self.set_task_due(id, index, None);
        }
        if let Some(job) = self.jobs.remove(id) {
            turn.delete_job(id, job.chunks);
        }
        turn.touched.remove(id);
        turn.notice("job_deleted", id, String::from("its records were removed"));
        Ok(applied)
    }

    fn owned(&self, id: &JobId) -> Result<(), Refused> {
        let owner = ShardId::of(id, self.config.shards);
        if owner == self.config.shard { Ok(()) } else { Err(Refused::WrongShard { owner }) }
    }

    pub(super) fn quarantine(&mut self, turn: &mut Turn, id: &JobId, mut reason: String) {
        let Some(job) = self.jobs.get_mut(id).filter(|job| job.record.quarantine.is_none()) else { return };
        let mut end = TEXT_BYTES_MAX.min(reason.len());
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        reason.truncate(end);
        let message = format!(
            "it was set aside because a step for it failed ({reason}): its containers run on, and nothing is done about them until it is applied or stopped again"
        );
        turn.notice("job_quarantined", id, message);
        job.record.quarantine = Some(Quarantine { since: turn.now, reason });
        job.restless.clear();
        turn.save_job(id);
        self.touch_all(turn, id);
    }

    /// Carries a job's new record over to its tasks.
    fn changed(&mut self, turn: &mut Turn, id: &JobId, was_wanted: &BTreeSet<u32>) -> Applied {
        let mut applied =
            Applied { job: id.clone(), version: SliceVersion(0), generation: Generation(0), changed: true };
        let Some(job) = self.jobs.get_mut(id) else { return applied };
        applied.version = job.record.slice.version;
        applied.generation = job.record.generation;
        let freed = job.record.quarantine.take().is_some();
        job.fill_slots();
        let newest = job.record.generation;
        let batch = job.is_batch();
        let mut renewed = alloc::vec::Vec::new();
        for (index, task) in job.tasks.iter_mut().filter(|(index, task)| task.wanted && !was_wanted.contains(index)) {
            // A slot that comes back begins afresh, but for its epoch and work that was done.
            let record = &mut task.record;
            record.failures = 0;
            record.restart_at = None;
            record.outcome = record.outcome.filter(|outcome| batch && *outcome == Outcome::Completed);
            if record.current.is_none() {
                record.want = newest;
            }
            if !task.is_blank() {
                renewed.push(*index);
            }
        }
        for index in renewed {
            turn.save_task(id, index);
        }
        turn.save_job(id);
        self.touch_all(turn, id);
        if freed {
            self.look_anew(turn, id);
        }
        applied
    }

    pub(super) fn touch_all(&self, turn: &mut Turn, id: &JobId) {
        if let Some(job) = self.jobs.get(id) {
            turn.touched.entry(id.clone()).or_default().extend(job.tasks.keys().copied());
        }
    }

    /// What hosts said while the job was set aside was not heard: they are asked again.
    fn look_anew(&mut self, turn: &mut Turn, id: &JobId) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let mut hosts = BTreeSet::new();
        for task in job.tasks.values_mut() {
            for live in &mut task.live {
                (live.phase, live.heard, live.ready_since, live.order_at) = (None, false, None, None);
            }
            hosts.extend(task.record.placements().map(|placement| placement.host.clone()));
        }
        for host in hosts {
            self.ask_host(turn, &host);
        }
    }
}

impl Job {
    /// Sees to it that each slot has its task and each task knows whether it is wanted.
    pub(super) fn fill_slots(&mut self) {
        let slots: BTreeSet<u32> =
            if self.record.slice.stopped { BTreeSet::new() } else { self.record.slice.slots.iter().collect() };
        for (index, task) in &mut self.tasks {
            task.wanted = slots.contains(index);
        }
        for index in slots {
            let generation = self.record.generation;
            self.tasks.entry(index).or_insert_with(|| Task::new(TaskRecord::new(index, generation), true));
        }
    }

    /// Keeps the templates that some task still needs, and no more than the limit.
    fn forget_templates(&mut self) {
        let used: BTreeSet<Generation> = self
            .tasks
            .values()
            .flat_map(|task| task.record.placements().map(|at| at.generation).chain([task.record.want]))
            .collect();
        let older = &mut self.record.older;
        older.retain(|older| used.contains(&older.generation));
        let surplus = older.len().saturating_sub(OLDER_TEMPLATES_MAX);
        older.drain(..surplus);
    }

    /// A new generation gives tasks that gave up another chance, and those without a container come under it at once.
    /// Work that was done is not done again.
    fn begin_release(&mut self) -> alloc::vec::Vec<u32> {
        let (batch, newest) = (self.is_batch(), self.record.generation);
        for task in self.tasks.values_mut() {
            let record = &mut task.record;
            let over = record.outcome.is_some_and(|outcome| !(batch && outcome == Outcome::Completed));
            if over {
                record.outcome = None;
            }
            if record.current.is_none() {
                (record.restart_at, record.failures) = (None, 0);
                if record.outcome.is_none() {
                    record.want = newest;
                }
            }
        }
        self.tasks
            .iter()
            .filter(|(_, task)| !task.is_blank() && task.record.current.is_none())
            .map(|(at, _)| *at)
            .collect()
    }
}
