//! Answers to people: how jobs and tasks are, and why they are not as wanted.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString as _},
    vec::Vec,
};
use polder_types::{ContainerPhase, JobId, Millis, TaskId, Timestamp};

use super::{
    JobShard,
    limits::ORDER_REPEAT,
    prepare::{Preparing, wait_for_image},
    shard::{Job, Readiness, Task},
    state::{JobRecord, Outcome, Placement, StopReason},
    view::{ContainerView, JobView, TaskState, TaskView, UpdateView, Wait},
};
use crate::{
    demand,
    message::{PlacementReport, SliceStatus},
    wording::counted,
};

/// Counts a job is shown with; its longest list of reasons.
const REASONS_SHOWN_MAX: usize = 16;

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn wait(reason: &str, detail: String, deadline: Timestamp, then: &str) -> Wait {
    Wait { reason: reason.to_string(), detail, deadline, then: then.to_string() }
}

impl JobShard {
    /// Its jobs, by id, stopped ones included.
    pub fn job_ids(&self) -> impl Iterator<Item = &JobId> {
        self.jobs.keys()
    }

    /// A job as it is stored.
    #[must_use]
    pub fn job_record(&self, job: &JobId) -> Option<&JobRecord> {
        self.jobs.get(job).map(|job| &job.record)
    }

    /// How a job does.
    #[must_use]
    pub fn slice_status(&self, id: &JobId) -> Option<SliceStatus> {
        let job = self.jobs.get(id)?;
        let slice = &job.record.slice;
        let mut status = SliceStatus {
            job: id.clone(),
            version: slice.version,
            stopped: slice.stopped,
            wanted: if slice.stopped { 0 } else { slice.slots.count() },
            running: 0,
            ready: 0,
            updated: 0,
            completed: 0,
            failed: 0,
            leaving: 0,
            stuck: 0,
            waiting: Vec::new(),
        };
        let mut waiting: BTreeMap<String, u32> = BTreeMap::new();
        for task in job.tasks.values() {
            match task.record.outcome.filter(|_| task.wanted || slice.stopped) {
                Some(Outcome::Completed) => status.completed += 1,
                Some(Outcome::Failed) => status.failed += 1,
                None => {}
            }
            let held = task.record.current.is_some() || !task.record.lingering.is_empty();
            if held && !task.wanted && !slice.slots.contains(task.record.index) {
                status.leaving += 1;
            }
            let state = self.state(job, task);
            let runs = task.current_live().is_some_and(|live| {
                matches!(live.phase, Some(ContainerPhase::Running { .. } | ContainerPhase::Stopping { .. }))
            });
            if runs && state != TaskState::Unknown {
                status.running += 1;
            }
            let newest = task.record.current.as_ref().is_some_and(|current| job.is_newest(current.generation));
            if state == TaskState::Ready && task.wanted {
                status.ready += 1;
            }
            if newest && task.wanted {
                status.updated += 1;
            }
            let no_room = task.ask.as_ref().is_some_and(|ask| ask.report.is_some());
            let aside = job.record.quarantine.is_some();
            if aside
                || matches!(state, TaskState::BackingOff | TaskState::Unknown)
                || (state == TaskState::Pending && no_room)
                || task.preparing.as_ref().is_some_and(Preparing::has_failed)
            {
                status.stuck += 1;
            }
            if let Some(wait) = self.wait(job, task) {
                *waiting.entry(wait.reason).or_default() += 1;
            }
        }
        status.waiting = waiting.into_iter().collect();
        status.waiting.sort_by(|(a, many), (b, more)| more.cmp(many).then(a.cmp(b)));
        status.waiting.truncate(REASONS_SHOWN_MAX);
        Some(status)
    }

    /// A job, for people.
    #[must_use]
    pub fn job_view(&self, id: &JobId) -> Option<JobView> {
        let job = self.jobs.get(id)?;
        let record = &job.record;
        Some(JobView {
            job: id.clone(),
            kind: record.slice.spec.kind,
            origin: record.origin,
            version: record.slice.version,
            generation: record.generation,
            created_at: record.created_at,
            changed_at: record.changed_at,
            quarantine: record.quarantine.clone(),
            status: self.slice_status(id)?,
            update: self.update_view(job),
            containers: number(job.containers().count()),
        })
    }

    fn update_view(&self, job: &Job) -> Option<UpdateView> {
        let tasks = || job.tasks.values().filter(|task| task.startable());
        let to_come = tasks().filter(|task| job.is_behind(task)).count();
        // Those that were ready when last heard are taken for settled: only time can tell, and a view has no clock.
        let moving: Vec<&Task> = tasks()
            .filter(|task| job.is_newest(task.record.want))
            .filter(|task| {
                let newest = task.record.current.as_ref().is_some_and(|current| job.is_newest(current.generation));
                !newest || !matches!(task.readiness(&self.hosts), Readiness::Ready(_))
            })
            .collect();
        let old_left = tasks().any(|task| task.record.current.as_ref().is_some_and(|at| !job.is_newest(at.generation)));
        if job.is_batch() || (to_come == 0 && !old_left) {
            return None;
        }
        let done = tasks().count().saturating_sub(to_come).saturating_sub(moving.len());
        let held_up = moving.iter().find_map(|task| {
            let mut wait = self.wait(job, task)?;
            wait.detail = format!("task {}: {}", task.record.index, wait.detail);
            Some(wait)
        });
        Some(UpdateView {
            to: job.record.generation,
            done: number(done),
            under_way: number(moving.len()),
            to_come: number(to_come),
            wait: held_up,
        })
    }

    /// A task, for people.
    #[must_use]
    pub fn task_view(&self, id: &TaskId) -> Option<TaskView> {
        let job = self.jobs.get(&id.job)?;
        Some(self.show_task(job, job.tasks.get(&id.index)?))
    }

    /// All tasks of a job that are wanted or have something left, by slot.
    #[must_use]
    pub fn task_views(&self, job: &JobId) -> Vec<TaskView> {
        let Some(job) = self.jobs.get(job) else { return Vec::new() };
        let shown = job.tasks.values().filter(|task| task.wanted || !task.record.is_gone() || job.record.slice.stopped);
        shown.map(|task| self.show_task(job, task)).collect()
    }

    fn show_task(&self, job: &Job, task: &Task) -> TaskView {
        let id = job.record.id();
        let record = &task.record;
        let show = |placement: &Placement| {
            let live = task.live(placement.epoch);
            ContainerView {
                container: placement.container(id, record.index),
                host: placement.host.clone(),
                generation: placement.generation,
                ports: placement.ports.clone(),
                placed_at: placement.placed_at,
                stop: placement.stop,
                phase: live.and_then(|live| live.phase.clone()),
                why: live.and_then(|live| live.why.clone()),
            }
        };
        TaskView {
            task: TaskId { job: id.clone(), index: record.index },
            state: self.state(job, task),
            wanted: task.wanted,
            epoch: record.epoch,
            generation: record.want,
            current: record.current.as_ref().map(show),
            next: record.next.as_ref().map(show),
            lingering: record.lingering.iter().map(show).collect(),
            failures: record.failures,
            restarts: record.restarts,
            last_exit: record.last_exit.clone(),
            outcome: record.outcome,
            wait: self.wait(job, task),
            report: task.ask.as_ref().and_then(|ask| ask.report.clone()),
        }
    }

    pub(super) fn state(&self, job: &Job, task: &Task) -> TaskState {
        let record = &task.record;
        if let Some(current) = &record.current {
            if self.hosts.get(&current.host).is_some_and(|host| host.silent_since().is_some()) {
                return TaskState::Unknown;
            }
            if current.stop.is_some() {
                return TaskState::Stopping;
            }
            let Some(live) = task.live(current.epoch) else { return TaskState::Unknown };
            return match &live.phase {
                Some(ContainerPhase::Running { ready: true, .. }) => TaskState::Ready,
                Some(ContainerPhase::Running { .. }) => TaskState::Running,
                Some(ContainerPhase::Stopping { .. }) => TaskState::Stopping,
                None if !live.heard && live.granted_by.is_none() => TaskState::Unknown,
                _ => TaskState::Starting,
            };
        }
        match record.outcome {
            Some(Outcome::Completed) => TaskState::Completed,
            Some(Outcome::Failed) => TaskState::Failed,
            None if !task.wanted && !record.lingering.is_empty() => TaskState::Unknown,
            None if !task.wanted => TaskState::Stopped,
            None if record.restart_at.is_some() && task.ask.is_none() && job.record.quarantine.is_none() => {
                TaskState::BackingOff
            }
            None => TaskState::Pending,
        }
    }

    /// What a task waits for, and until when.
    fn wait(&self, job: &Job, task: &Task) -> Option<Wait> {
        let record = &task.record;
        if let Some(quarantine) = &job.record.quarantine {
            let detail = format!("the job was set aside: {}; apply or stop it again", quarantine.reason);
            return Some(wait(
                "the job was set aside",
                detail,
                quarantine.since,
                "nothing, until a person applies or stops the job",
            ));
        }
        let Some(current) = &record.current else { return self.wait_for_start(job, task) };
        let host = &current.host;
        let known = self.hosts.get(host);
        if let Some(since) = known.and_then(super::shard::Host::silent_since) {
            if !task.startable() {
                let detail = format!("host {host} is not heard: its container may still run there");
                return Some(wait("its host is not heard", detail, since, "it is stopped when the host is heard"));
            }
            let mut detail = format!("host {host} is not heard");
            if let Some(report) = task.ask.as_ref().and_then(|ask| ask.report.as_ref()) {
                detail = format!("{detail}, and {}", describe(report));
            }
            let at = since + job.record.slice.spec.replace_after;
            return Some(wait("its host is not heard", detail, at, "it starts elsewhere, as soon as there is room"));
        }
        let relist = known.and_then(|host| host.relist_at).unwrap_or(current.placed_at);
        let live = task.live(current.epoch)?;
        if let Some(stop) = current.stop {
            let grace = job.template_of(current.generation).map_or(Millis(0), |template| template.stop.grace);
            let kill_at = match live.phase {
                Some(ContainerPhase::Stopping { kill_at }) => kill_at,
                _ => stop.at + grace,
            };
            let why = match stop.why {
                StopReason::JobStopped => "the job was stopped",
                StopReason::SlotRemoved => "the job has fewer tasks now",
                StopReason::Updated => "a newer generation takes its place",
                StopReason::Drained => "its host is being drained",
                StopReason::Replaced => "it was replaced",
            };
            let detail = format!("its container on host {host} is stopping: {why}");
            return Some(wait(
                "its container is stopping",
                detail,
                kill_at + ORDER_REPEAT,
                "what is left of it is killed, and the host is told again",
            ));
        }
        match &live.phase {
            None => {
                // One that was ordered has nothing before it any more.
                let held_up = live.tries == 0 && live.order_at.is_some();
                if let Some(wait) = self.wait_for_older(job, task).filter(|_| held_up) {
                    return Some(wait);
                }
                let at = live.order_at.unwrap_or(relist);
                return Some(if live.heard || live.granted_by.is_some() {
                    wait(
                        "its host has not started it yet",
                        format!("host {host} was told to start it"),
                        at,
                        "the host is told again",
                    )
                } else {
                    wait(
                        "its host has not been heard yet",
                        format!("host {host} was asked what it runs"),
                        at,
                        "the host is asked again",
                    )
                });
            }
            Some(ContainerPhase::Preparing) => {
                let detail = format!("host {host} prepares its image");
                return Some(wait("its image is being prepared", detail, relist, "the host is asked how it is"));
            }
            Some(ContainerPhase::Running { ready: false, .. }) => {
                let detail = format!("it runs on host {host}, and its health check does not pass yet");
                return Some(wait("not ready yet", detail, relist, "the host is asked how it is"));
            }
            Some(ContainerPhase::Stopping { kill_at }) => {
                let detail = format!("host {host} stops it: its drain is due, or it was ordered before this node led");
                let then = "what is left of it is killed, and the task goes on";
                return Some(wait("its container is stopping", detail, *kill_at + ORDER_REPEAT, then));
            }
            _ => {}
        }
        self.wait_for_move(job, task)
    }

    /// Whether an older container, heard of again, stands before the task's next one.
    fn wait_for_older(&self, job: &Job, task: &Task) -> Option<Wait> {
        let patience = job.record.slice.spec.replace_after;
        let silent = |old: &Placement| self.hosts.get(&old.host)?.silent_since();
        let yields = |old: &Placement| silent(old).map(|since| since + patience);
        // One whose host is heard is waited for, however long; of the others the last to be given up.
        let lasts = |old: &&Placement| yields(old).unwrap_or(Timestamp(u64::MAX));
        let old = task.record.lingering.iter().max_by_key(lasts)?;
        let (host, yields) = (self.hosts.get(&old.host), yields(old));
        let relist = host.and_then(|host| host.relist_at).unwrap_or(old.placed_at);
        let detail = format!("an older container on host {} is not known to be gone", old.host);
        let then = if yields.is_some() { "it is not waited for any longer" } else { "its host is asked what it runs" };
        Some(wait("its older container is not gone yet", detail, yields.unwrap_or(relist), then))
    }

    /// Why a task has no container.
    fn wait_for_start(&self, job: &Job, task: &Task) -> Option<Wait> {
        let record = &task.record;
        if !task.startable() {
            let old = record.lingering.first()?;
            let detail = format!("its container on host {}, which is not heard, may still run", old.host);
            let since = old.stop.map_or(old.placed_at, |stop| stop.at);
            return Some(wait("its host is not heard", detail, since, "it is stopped when the host is heard"));
        }
        if record.next.is_some()
            && let Some(wait) = self.wait_for_older(job, task)
            && record.restart_at.is_none_or(|at| at <= wait.deadline)
        {
            return Some(wait);
        }
        if let Some(ask) = &task.ask {
            let deadline = self.asks.get(&ask.id).map_or(ask.since, |group| group.repeat_at);
            let then = "room is asked for again, or sooner when something changes";
            return Some(match &ask.report {
                Some(report) => wait(reason(report), describe(report), deadline, then),
                None => wait("room is being looked for", String::from("the allocator was asked"), deadline, then),
            });
        }
        let at = record.restart_at.or(task.ask_after)?;
        let last = record.last_exit.as_ref().map_or_else(String::new, |exit| exit.status.to_string());
        let detail = format!("its last container ended ({last}), failure {} in a row", record.failures);
        Some(wait("backing off after it ended", detail, at, "it starts again"))
    }

    /// Why a task that does well is not where or what it should be.
    fn wait_for_move(&self, job: &Job, task: &Task) -> Option<Wait> {
        let current = task.record.current.as_ref()?;
        let why = job.move_reason(task, &self.hosts);
        if why.is_none() && !job.is_behind(task) {
            return None;
        }
        if let Some(wait) = wait_for_image(job, task) {
            return Some(wait);
        }
        let drain = self.hosts.get(&current.host).and_then(super::shard::Host::drain);
        let relist = self.hosts.get(&current.host).and_then(|host| host.relist_at).unwrap_or(current.placed_at);
        let (deadline, then) = match drain {
            Some(drain) => (drain.deadline, "its host stops it by force"),
            None => (relist, "its host is asked how it is; it moves on when the tasks before it do well"),
        };
        if why.is_none() {
            return Some(wait(
                "waits for its turn in the update",
                format!("it takes at most {} at a time", counted(job.record.slice.spec.update.max_unavailable, "task")),
                deadline,
                then,
            ));
        }
        if task.record.next.is_some() {
            let max = job.record.slice.spec.update.max_unavailable;
            let detail = format!("there is room for it elsewhere; as many tasks are unavailable as may be ({max})");
            return Some(wait("waits for the disruption budget", detail, deadline, then));
        }
        let report = task.ask.as_ref().and_then(|ask| ask.report.as_ref());
        let detail = report.map_or_else(|| String::from("the allocator was asked"), describe);
        Some(wait("waits for room to move to", detail, deadline, then))
    }
}

fn reason(report: &PlacementReport) -> &'static str {
    if report.quota.is_some() { "over quota" } else { "no room" }
}

/// What the allocator said, in a sentence.
fn describe(report: &PlacementReport) -> String {
    if let Some(short) = &report.quota {
        let over = short.used.plus(short.asked).minus(short.limit);
        return format!(
            "account {} may use {} here and uses {}; one more task would be {} too much",
            short.account,
            demand::all(&short.limit),
            demand::all(&short.used),
            demand::some(&over),
        );
    }
    let mut reasons: Vec<(u32, String)> =
        report.rejected.iter().map(|(reason, hosts)| (*hosts, reason.to_string())).collect();
    reasons.sort_by(|one, other| other.cmp(one));
    let all = report.hosts;
    match (all, reasons.as_slice()) {
        (0, _) => String::from("the region has no host"),
        // Room was found missing while others took it.
        (1, []) => String::from("the only host can't take it"),
        (_, []) => format!("none of {all} hosts can take it"),
        (1, [(_, reason), ..]) => format!("the only host can't take it: {reason}"),
        (_, reasons) => {
            let reasons: Vec<String> = reasons.iter().map(|(hosts, reason)| format!("{hosts} {reason}")).collect();
            format!("none of {all} hosts can take it: {}", reasons.join(", "))
        }
    }
}
