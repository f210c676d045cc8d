//! Counting tasks, for whoever measures.

use alloc::collections::BTreeMap;

use super::{
    JobShard,
    shard::{Job, Task},
    view::{PendingReason, TaskState},
};

/// How many tasks are where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Tasks by state.
    pub states: BTreeMap<TaskState, u32>,
    /// Those in [`TaskState::Pending`], by what they wait for.
    pub pending: BTreeMap<PendingReason, u32>,
}

impl Census {
    /// Both together.
    pub fn add(&mut self, other: &Self) {
        for (state, tasks) in &other.states {
            *self.states.entry(*state).or_default() += tasks;
        }
        for (reason, tasks) in &other.pending {
            *self.pending.entry(*reason).or_default() += tasks;
        }
    }
}

impl JobShard {
    /// Counts all tasks that are wanted or have something left, and those of stopped jobs.
    #[must_use]
    pub fn census(&self) -> Census {
        let mut census = Census::default();
        for job in self.jobs.values() {
            for task in job.tasks.values() {
                if !task.wanted && task.record.is_gone() && !job.record.slice.stopped {
                    continue;
                }
                let state = self.state(job, task);
                *census.states.entry(state).or_default() += 1;
                if state == TaskState::Pending {
                    *census.pending.entry(pending(job, task)).or_default() += 1;
                }
            }
        }
        census
    }
}

fn pending(job: &Job, task: &Task) -> PendingReason {
    if job.record.quarantine.is_some() {
        return PendingReason::SetAside;
    }
    match &task.ask {
        Some(ask) => match &ask.report {
            Some(report) if report.quota.is_some() => PendingReason::Quota,
            Some(_) => PendingReason::NoRoom,
            None => PendingReason::Searching,
        },
        None if !task.record.lingering.is_empty() => PendingReason::OlderContainer,
        None => PendingReason::Searching,
    }
}
