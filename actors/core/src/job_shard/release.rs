//! Releases and drains of a job's tasks: one budget over both.
//!
//! A release gives tasks the newest generation a few at a time and goes on only while those it has touched are well.
//! A task whose container should give way (to a newer generation, or because its host is drained) asks for room first;
//! its container is stopped when room was granted and the budget allows.

use alloc::vec::Vec;
use polder_types::JobId;

use super::{
    JobShard,
    prepare::Preparing,
    shard::{Job, Readiness, Task},
    state::StopReason,
    turn::Turn,
};
use crate::message::{PlacementReport, RejectReason};

/// What a job's budget says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Wanted tasks that have not been ready for long enough, for whatever reason.
    pub(super) unsettled: u32,
    /// How many may be.
    pub(super) max: u32,
}

impl JobShard {
    pub(super) fn budget(&self, job: &Job, now: polder_types::Timestamp) -> Budget {
        let update = job.record.slice.spec.update;
        let tasks = job.tasks.values().filter(|task| task.startable());
        let unsettled = tasks.filter(|task| !task.settled(&self.hosts, update.min_healthy, now)).count();
        Budget { unsettled: u32::try_from(unsettled).unwrap_or(u32::MAX), max: update.max_unavailable }
    }

    /// Whether a task has come under the newest generation in this release and is not yet known to do well in it.
    pub(super) fn is_under_way(&self, job: &Job, task: &Task, now: polder_types::Timestamp) -> bool {
        if !task.startable() || !job.is_newest(task.record.want) {
            return false;
        }
        let Some(current) = &task.record.current else {
            // A task that never had a container takes no part in a release, and must not hold it up.
            return task.record.epoch.0 > 0;
        };
        let min_healthy = job.record.slice.spec.update.min_healthy;
        !(job.is_newest(current.generation) && task.settled(&self.hosts, min_healthy, now))
    }

    /// Takes a job's release and moves as far as they may go now.
    pub(super) fn release_pass(&mut self, turn: &mut Turn, id: &JobId) {
        let Some(job) = self.jobs.get(id) else { return };
        if job.record.quarantine.is_some() || job.restless.is_empty() {
            return;
        }
        self.spread_generation(turn, id);
        self.make_way(turn, id);
    }

    /// Chooses the tasks that come under the newest generation now.
    fn spread_generation(&mut self, turn: &mut Turn, id: &JobId) {
        let now = turn.now;
        let Some(job) = self.jobs.get(id) else { return };
        let behind = |index: &u32| job.tasks.get(index).filter(|task| job.is_behind(task)).map(|task| (*index, task));
        let mut chosen: Vec<u32> = Vec::new();
        let mut left: Vec<(bool, bool, u32)> = Vec::new();
        // As long as a task of an older generation serves, tasks that fail are not handed to a generation that may be worse.
        let protects = job
            .restless
            .iter()
            .filter_map(behind)
            .any(|(_, task)| task.record.current.is_some() && task.readiness(&self.hosts) != Readiness::NotReady);
        for (index, task) in job.restless.iter().filter_map(behind) {
            let readiness = task.readiness(&self.hosts);
            let waits = task.record.current.is_none() && task.record.restart_at.is_none();
            if waits || (!protects && readiness == Readiness::NotReady) {
                chosen.push(index);
            } else if readiness != Readiness::Unknown {
                left.push((readiness != Readiness::NotReady, !job_drains(self, task), index));
            }
        }
        let under_way = job.tasks.values().filter(|task| self.is_under_way(job, task, now)).count();
        let window = usize::try_from(job.record.slice.spec.update.max_unavailable).unwrap_or(usize::MAX);
        left.sort_unstable();
        chosen.extend(left.into_iter().take(window.saturating_sub(under_way)).map(|(_, _, index)| index));
        let newest = job.record.generation;
        for index in chosen {
            if let Some(task) = self.task_mut(id, index) {
                task.record.want = newest;
                turn.save_task(id, index);
                turn.touch(id, index);
            }
        }
    }

    /// Stops containers that are to give way, within the budget.
    fn make_way(&mut self, turn: &mut Turn, id: &JobId) {
        let now = turn.now;
        let Some(job) = self.jobs.get(id) else { return };
        let mut budget = self.budget(job, now);
        let min_healthy = job.record.slice.spec.update.min_healthy;
        let mut stops = Vec::new();
        let mut unprepared = Vec::new();
        for index in &job.restless {
            let Some(task) = job.tasks.get(index) else { continue };
            let Some(why) = job.move_reason(task, &self.hosts) else { continue };
            if task.record.current.as_ref().is_none_or(|current| current.stop.is_some()) {
                continue;
            }
            let ready = match task.readiness(&self.hosts) {
                Readiness::Ready(_) => true,
                Readiness::NotReady => false,
                Readiness::Unknown => continue,
            };
            let has_room = task.record.next.is_some();
            let blocked = task.ask.as_ref().and_then(|ask| ask.report.as_ref());
            let frees = why == StopReason::Updated && blocked.is_some_and(|report| makes_room(job, task, report));
            if !has_room && !frees {
                continue;
            }
            // A task that serves is not stopped for a container that could not start.
            let serves = ready || task.preparing.as_ref().is_some_and(Preparing::has_failed);
            let host = task.record.next.as_ref().or(task.record.current.as_ref()).map(|at| at.host.clone());
            if serves && let Some(host) = host.filter(|host| !self.is_prepared(task, host, now)) {
                unprepared.push((*index, host));
                continue;
            }
            let settled = task.settled(&self.hosts, min_healthy, now);
            let others = if settled { budget.unsettled } else { budget.unsettled.saturating_sub(1) };
            if ready && others >= budget.max {
                continue;
            }
            if settled {
                budget.unsettled += 1;
            }
            stops.push((*index, why));
        }
        for (index, why) in stops {
            self.order_stop(turn, id, index, why);
        }
        for (index, host) in unprepared {
            self.ask_to_prepare(turn, id, index, host);
        }
    }
}

fn job_drains(shard: &JobShard, task: &Task) -> bool {
    let host = task.record.current.as_ref().and_then(|current| shard.hosts.get(&current.host));
    host.is_some_and(|host| host.drain().is_some())
}

/// Whether stopping a task's own container is what would make room for its next one: it takes no more than it leaves,
/// or what lacks is a port or a place in a failure domain.
fn makes_room(job: &Job, task: &Task, report: &PlacementReport) -> bool {
    if report.quota.is_some() {
        return false;
    }
    let blocks = |reason| report.rejected.get(&reason).is_some_and(|hosts| *hosts > 0);
    if blocks(RejectReason::Spread) || blocks(RejectReason::Ports) {
        return true;
    }
    let (Some(current), Some(template)) = (&task.record.current, job.template_of(task.record.want)) else {
        return false;
    };
    let (old, new) = (current.resources, template.resources);
    let old_template = job.template_of(current.generation);
    new.cpu <= old.cpu
        && new.memory <= old.memory
        && old_template.is_some_and(|old| old.constraints == template.constraints)
        && (blocks(RejectReason::Cpu) || blocks(RejectReason::Memory))
}
