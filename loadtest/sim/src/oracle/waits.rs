//! Every wait has a reason and a deadline, and something happens at the deadline.

use super::{WAITS, World};
use crate::happening::Process;
use polder_core::{
    broker::DrainState,
    job_shard::{JobShard, TaskState, TaskView},
};
use polder_types::Timestamp;

/// How long after its deadline a wait may look as it did: a host's clock, which some deadlines are of, may be a minute
/// off, and what a container left may take another to be removed.
const SLACK: u64 = 300_000;

impl World {
    /// Looks at everything that waits.
    pub(crate) fn look_at_waits(&mut self) {
        let mut problems = Vec::new();
        let mut looks = 0;
        for (at, node) in self.nodes() {
            let Some(lead) = &node.lead else { continue };
            let now = self.clock(Process::Node(at));
            for cell in &lead.shards {
                let Some(shard) = cell.running() else { continue };
                let settled = self.now.saturating_sub(cell.began_at) > SLACK && cell.stalled_until < self.now;
                for task in tasks(shard) {
                    looks += 1;
                    problems.extend(problem(&task, now, settled));
                }
            }
            for cell in &lead.brokers {
                let Some(broker) = cell.running() else { continue };
                let settled = self.now.saturating_sub(cell.began_at) > SLACK && cell.stalled_until < self.now;
                for host in broker.hosts() {
                    let drain = host.drain.filter(|drain| drain.state == DrainState::Draining);
                    let Some(drain) = drain else { continue };
                    looks += 1;
                    let late = now.since(drain.deadline).0 > SLACK;
                    if host.progress.is_none() || (late && settled) {
                        problems
                            .push(format!("drain {} of {} goes on after its deadline", drain.version, host.info.id));
                    }
                }
            }
        }
        *self.counts.looks.entry(WAITS).or_default() += looks;
        if let Some(problem) = problems.into_iter().next() {
            self.violated(WAITS, problem);
        }
    }
}

fn tasks(shard: &JobShard) -> impl Iterator<Item = TaskView> {
    shard.job_ids().flat_map(|job| shard.task_views(job))
}

fn problem(task: &TaskView, now: Timestamp, settled: bool) -> Option<String> {
    let waits = match task.state {
        TaskState::Pending | TaskState::BackingOff | TaskState::Starting | TaskState::Stopping => true,
        TaskState::Unknown => task.current.is_some(),
        TaskState::Running => true,
        TaskState::Ready | TaskState::Completed | TaskState::Failed | TaskState::Stopped => false,
    };
    if !waits {
        return None;
    }
    let Some(wait) = &task.wait else {
        return Some(format!("{} is {} and does not say what it waits for", task.task, task.state));
    };
    if wait.reason.is_empty() || wait.then.is_empty() {
        return Some(format!("{} waits without a reason", task.task));
    }
    // What nobody wants any more waits for its host, however long that takes.
    let open_ended = !task.wanted || wait.then == "it starts elsewhere, as soon as there is room";
    let late = now.since(wait.deadline).0 > SLACK;
    (late && settled && !open_ended)
        .then(|| format!("{} waits ({}) since {} after the deadline", task.task, wait.detail, now.since(wait.deadline)))
}
