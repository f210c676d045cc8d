//! What follows when a container has ended: whether its task starts again, when, and as what.

use alloc::{
    format,
    string::{String, ToString as _},
};
use polder_types::{ContainerId, ExitStatus, HostId, JobId, Millis, RestartPolicy, RestartSpec, Timestamp};

use super::{
    JobShard,
    limits::{CRASH_LOOP_FAILURES, TEXT_BYTES_MAX},
    shard::doubled,
    state::{LastExit, Outcome, Placement},
    turn::Turn,
};
use crate::message::{HostOrder, OrderOwner};

/// What an end means for its task.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// Polder asked for it, or its host took it down: no fault of the task.
    Excused,
    /// It goes on after a wait; a failure counts.
    Again { failed: bool },
    /// It is not started again.
    Over(Outcome),
}

pub(super) fn cut(mut text: String) -> String {
    let mut end = TEXT_BYTES_MAX.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

/// A host's words, no longer than a record should be.
fn cut_status(status: ExitStatus) -> ExitStatus {
    match status {
        ExitStatus::NotStarted { reason } => ExitStatus::NotStarted { reason: cut(reason) },
        ExitStatus::Unknown { reason } => ExitStatus::Unknown { reason: cut(reason) },
        plain => plain,
    }
}

fn back_off(spec: &RestartSpec, failures: u32) -> Millis {
    doubled(spec.backoff, failures.saturating_sub(1), spec.backoff_max.max(spec.backoff))
}

impl JobShard {
    /// A container has ended, and its host has given back what it held.
    pub(super) fn ended(&mut self, turn: &mut Turn, container: &ContainerId, status: ExitStatus, at: Timestamp) {
        let (id, index) = (&container.task.job, container.task.index);
        let Some(task) = self.task_mut(id, index) else { return };
        let started_at = task.live(container.epoch).and_then(|live| live.started_at);
        task.live.retain(|live| live.epoch != container.epoch);
        let record = &mut task.record;
        let current = record.current.take_if(|current| current.epoch == container.epoch);
        let lingering = record.lingering.iter().position(|old| old.epoch == container.epoch);
        let Some(placement) = current.clone().or_else(|| lingering.map(|at| record.lingering.remove(at))) else {
            return;
        };
        turn.released(container.clone());
        turn.save_task(id, index);
        turn.touch(id, index);
        let owner = OrderOwner { shard: self.config.shard, epoch: self.config.owner };
        turn.order(&placement.host, HostOrder::Forget { owner, container: container.clone() });
        let host = placement.host.clone();
        if current.is_some() {
            self.task_ended(turn, id, index, &placement, cut_status(status), started_at, at);
        }
        self.reindex(&host, id, index);
    }

    #[expect(clippy::too_many_arguments, reason = "all of it is what is known of one end")]
    fn task_ended(
        &mut self,
        turn: &mut Turn,
        id: &JobId,
        index: u32,
        placement: &Placement,
        status: ExitStatus,
        started_at: Option<Timestamp>,
        at: Timestamp,
    ) {
        let now = turn.now;
        let forced = self
            .hosts
            .get(&placement.host)
            .and_then(super::shard::Host::drain)
            .is_some_and(|drain| drain.deadline <= now);
        let Some(job) = self.jobs.get_mut(id) else { return };
        let batch = job.is_batch();
        let spec = job.record.slice.spec.restart;
        let Some(task) = job.tasks.get_mut(&index) else { return };
        let ran = started_at.map_or_else(|| Millis(0), |started| at.since(started));
        let mut failures = if ran >= spec.reset_after && started_at.is_some() { 0 } else { task.record.failures };
        // Nobody saw how a lost container ended: that is held against nobody.
        let failed = !status.is_success() && !matches!(status, ExitStatus::Unknown { .. });
        let excused = placement.stop.is_some() || (forced && matches!(status, ExitStatus::Signal { .. }));
        let verdict = if excused {
            Verdict::Excused
        } else if status.is_success() && (batch || spec.policy != RestartPolicy::Always) {
            Verdict::Over(Outcome::Completed)
        } else if spec.policy == RestartPolicy::Never {
            Verdict::Over(Outcome::Failed)
        } else {
            failures = if failed {
                failures.saturating_add(1)
            } else if status.is_success() {
                0
            } else {
                failures
            };
            match spec.max_failures {
                Some(max) if failed && failures >= max => Verdict::Over(Outcome::Failed),
                _ => Verdict::Again { failed },
            }
        };
        task.record.failures = failures;
        task.record.last_exit =
            Some(LastExit { epoch: placement.epoch, host: placement.host.clone(), status: status.clone(), at });
        // Where it could not even start, another host may do better.
        task.avoid = matches!(status, ExitStatus::NotStarted { .. }).then(|| placement.host.clone());
        let container = placement.container(id, index);
        match verdict {
            Verdict::Excused => {}
            Verdict::Again { failed } => {
                let wait = back_off(&spec, if failed { failures } else { 1 });
                task.record.restart_at = Some(now + wait);
                task.record.restarts = task.record.restarts.saturating_add(1);
                if failures < CRASH_LOOP_FAILURES {
                    let message =
                        format!("{container} on host {} ended ({status}): it starts again in {wait}", placement.host);
                    turn.notice("task_ended", &container.task, message);
                }
            }
            Verdict::Over(outcome) => {
                task.record.outcome = Some(outcome);
                task.record.restart_at = None;
                if outcome == Outcome::Failed {
                    let message = format!(
                        "{container} on host {} ended ({status}), failure {failures} in a row: it is not started again; read its log, then apply the job again",
                        placement.host
                    );
                    turn.notice("task_failed", &container.task, message);
                }
            }
        }
        self.tell_of_job(turn, id, &placement.host, &status);
    }

    /// Tells what concerns the job as a whole: a crash loop once, however many tasks are in it, and the end of a batch.
    fn tell_of_job(&mut self, turn: &mut Turn, id: &JobId, host: &HostId, status: &ExitStatus) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let looping = job.tasks.values().filter(|task| task.record.failures >= CRASH_LOOP_FAILURES).count();
        if looping > 0 && !job.crash_told {
            job.crash_told = true;
            let message = format!(
                "{looping} of its tasks ended {CRASH_LOOP_FAILURES} times in a row or more, last on host {host} ({status}): they start again ever more slowly; read their logs"
            );
            turn.notice("job_crash_looping", id, message);
        } else if looping == 0 {
            job.crash_told = false;
        }
        if job.is_batch() && !job.record.slice.stopped && job.all_completed() {
            turn.notice("job_completed", id, "all of its tasks have done their work".to_string());
        }
    }
}
