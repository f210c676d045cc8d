//! What must always hold, recounted from the records.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
};
use polder_types::{HostId, JobId, Timestamp};

use super::{
    JobShard,
    shard::{Due, Job, Task},
};
use crate::machine::Violation;

fn hold(rule: &'static str, holds: bool, found: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { rule, found: found() }) }
}

impl JobShard {
    pub(super) fn recount(&self) -> Result<(), Violation> {
        let mut by_host: BTreeMap<&HostId, BTreeSet<(JobId, u32)>> = BTreeMap::new();
        let mut due: BTreeSet<(Timestamp, Due)> = BTreeSet::new();
        let mut asking = 0;
        for (id, job) in &self.jobs {
            hold("a job is filed under its id", id == job.record.id(), || format!("{id}"))?;
            check_wanted(id, job)?;
            for (index, task) in &job.tasks {
                let name = || format!("{id}/{index}");
                check_task(*index, task, name)?;
                for placement in task.record.placements() {
                    by_host.entry(&placement.host).or_default().insert((id.clone(), *index));
                }
                due.extend(task.due.map(|at| (at, Due::Task(id.clone(), *index))));
                if let Some(ask) = &task.ask {
                    asking += 1;
                    let listed =
                        self.asks.get(&ask.id).is_some_and(|group| group.job == *id && group.tasks.contains_key(index));
                    hold("a task that asks for room is in its request", listed, name)?;
                }
                let restless = task.startable()
                    && job.record.quarantine.is_none()
                    && (job.is_behind(task)
                        || (task.record.current.as_ref().is_some_and(|current| current.stop.is_none())
                            && job.move_reason(task, &self.hosts).is_some()));
                hold(
                    "the tasks that a release or drain has yet to deal with are known",
                    restless == job.restless.contains(index),
                    || format!("{id}/{index}: {restless}"),
                )?;
            }
        }
        let held: BTreeMap<&HostId, BTreeSet<(JobId, u32)>> =
            self.by_host.iter().map(|(host, tasks)| (host, tasks.clone())).collect();
        let orphaned: BTreeSet<&JobId> = self.orphans.iter().map(|chunk| &chunk.job).collect();
        hold("no job is both known and missing", !orphaned.iter().any(|id| self.jobs.contains_key(*id)), String::new)?;
        hold("the tasks of each host are known", held == by_host, || format!("{held:?} instead of {by_host:?}"))?;
        let grouped: usize = self.asks.values().map(|group| group.tasks.len()).sum();
        hold("a request holds only tasks that ask", grouped == asking, || format!("{grouped} instead of {asking}"))?;
        hold("no request is empty", self.asks.values().all(|group| !group.tasks.is_empty()), String::new)?;
        due.extend(
            self.hosts.iter().filter_map(|(host, entry)| entry.relist_at.map(|at| (at, Due::Host(host.clone())))),
        );
        due.extend(self.asks.iter().map(|(request, group)| (group.repeat_at, Due::Request(*request))));
        hold("each deadline is known once", due == self.due, || format!("{:?} instead of {due:?}", self.due))
    }
}

fn check_wanted(id: &JobId, job: &Job) -> Result<(), Violation> {
    let stopped = job.record.slice.stopped;
    let slots: BTreeSet<u32> = if stopped { BTreeSet::new() } else { job.record.slice.slots.iter().collect() };
    let wanted: BTreeSet<u32> = job.tasks.iter().filter(|(_, task)| task.wanted).map(|(index, _)| *index).collect();
    hold("the wanted tasks are the slots of the slice", wanted == slots, || format!("{id}: {wanted:?}"))
}

fn check_task(index: u32, task: &Task, name: impl Fn() -> String) -> Result<(), Violation> {
    let record = &task.record;
    hold("a task is filed under its slot", record.index == index, &name)?;
    let mut epochs: BTreeSet<_> = BTreeSet::new();
    for placement in record.placements() {
        hold("no two containers of a task share an epoch", epochs.insert(placement.epoch), &name)?;
        hold("a task knows its highest epoch", placement.epoch <= record.epoch, &name)?;
    }
    let live: BTreeSet<_> = task.live.iter().map(|live| live.epoch).collect();
    hold("what is known of containers is about those on record", live == epochs, &name)?;
    hold("older containers are to stop", record.lingering.iter().all(|old| old.stop.is_some()), &name)?;
    let newest = record.current.iter().chain(&record.next).map(|at| at.epoch).min();
    let oldest = record.lingering.iter().map(|at| at.epoch).max();
    hold("older containers are older", newest.is_none_or(|newest| oldest.is_none_or(|oldest| oldest < newest)), &name)?;
    let ended = record.outcome.is_none() || (record.current.is_none() && record.next.is_none());
    hold("a task that is over has no container", ended, &name)?;
    hold("a task does not ask for room that it has", task.ask.is_none() || record.next.is_none(), &name)
}
