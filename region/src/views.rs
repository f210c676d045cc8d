//! What machines show, as the API shows it.

use polder_api::dto::{
    self, DrainView, ExitView, HostRoom, HostView, MovedTask, PartState, PortView, RegionPart, Rejection, TaskPhase,
    TaskView, Wait, WaitCount,
};
use polder_core::{
    broker,
    job_shard::{self, TaskState},
    message::{self, HostHealth, PlacementReport},
};
use polder_types::{ContainerPhase, HostId, JobKind, RegionId, TaskId, Timestamp, Usage};
use std::collections::{BTreeMap, BTreeSet};

/// Where each host's tasks are reached.
pub(crate) type Addresses = BTreeMap<HostId, String>;

pub(crate) fn slice(status: message::SliceStatus, as_of: Timestamp) -> dto::SliceStatus {
    dto::SliceStatus {
        job: status.job,
        version: status.version,
        stopped: status.stopped,
        as_of,
        wanted: status.wanted,
        running: status.running,
        ready: status.ready,
        updated: status.updated,
        completed: status.completed,
        failed: status.failed,
        leaving: status.leaving,
        stuck: status.stuck,
        waiting: status.waiting.into_iter().map(|(reason, tasks)| WaitCount { reason, tasks }).collect(),
    }
}

pub(crate) fn part(region: &RegionId, job: &job_shard::JobView, as_of: Timestamp) -> RegionPart {
    let status = slice(job.status.clone(), as_of);
    let state = match part_state(&status, job.kind) {
        PartState::Stopped if job.containers > 0 => PartState::Stopping,
        // A release that is not through is not health yet, though every task may be well.
        PartState::Healthy if job.update.is_some() => PartState::Progressing,
        state => state,
    };
    RegionPart {
        region: region.clone(),
        state,
        as_of,
        generation: job.generation,
        wanted: status.wanted,
        running: status.running,
        ready: status.ready,
        updated: status.updated,
        completed: status.completed,
        failed: status.failed,
        detail: detail(job, &status),
    }
}

fn part_state(status: &dto::SliceStatus, kind: JobKind) -> PartState {
    PartState::of_slice(status, kind)
}

fn detail(job: &job_shard::JobView, status: &dto::SliceStatus) -> Option<String> {
    if let Some(quarantine) = &job.quarantine {
        return Some(format!("set aside: {}", quarantine.reason));
    }
    let mut parts: Vec<String> =
        status.waiting.iter().map(|wait| format!("{} waiting: {}", wait.tasks, wait.reason)).collect();
    if let Some(update) = &job.update {
        let mut text = format!("release to the newest generation: {} done, {} to come", update.done, update.to_come);
        if let Some(wait) = &update.wait {
            text.push_str(&format!(", waits: {}", wait.detail));
        }
        parts.push(text);
    }
    if parts.is_empty() { None } else { Some(parts.join("; ")) }
}

pub(crate) fn task(region: &RegionId, view: job_shard::TaskView, addresses: &Addresses) -> TaskView {
    let phase = match view.state {
        TaskState::Pending => TaskPhase::Waiting,
        TaskState::BackingOff => TaskPhase::BackingOff,
        TaskState::Starting => TaskPhase::Starting,
        TaskState::Running | TaskState::Ready => TaskPhase::Running,
        TaskState::Stopping => TaskPhase::Stopping,
        TaskState::Unknown => TaskPhase::Unknown,
        TaskState::Completed => TaskPhase::Completed,
        TaskState::Stopped => TaskPhase::Stopped,
        TaskState::Failed => TaskPhase::Failed,
    };
    let current = view.current;
    let running = current.as_ref().and_then(|container| match &container.phase {
        Some(ContainerPhase::Running { started_at, pid, .. }) => Some((*started_at, *pid)),
        _ => None,
    });
    let since = match (&running, &current, &view.last_exit) {
        (Some((started_at, _)), _, _) => *started_at,
        (None, Some(container), _) => container.stop.map_or(container.placed_at, |stop| stop.at),
        (None, None, Some(exit)) => exit.at,
        (None, None, None) => Timestamp::default(),
    };
    let ports = current.as_ref().map(|container| ports(container, addresses)).unwrap_or_default();
    TaskView {
        task: view.task,
        region: region.clone(),
        host: current.as_ref().map(|container| container.host.clone()),
        // Also while it has no container: then of its last one.
        epoch: current.as_ref().map_or(view.epoch, |container| container.container.epoch),
        generation: current.as_ref().map_or(view.generation, |container| container.generation),
        phase,
        ready: view.state == TaskState::Ready,
        since,
        restarts: view.restarts,
        pid: running.map(|(_, pid)| pid),
        ports,
        waiting: view.wait.as_ref().map(wait),
        last_exit: view.last_exit.map(|exit| ExitView { status: exit.status, at: exit.at }),
    }
}

fn ports(container: &job_shard::ContainerView, addresses: &Addresses) -> Vec<PortView> {
    let address = addresses.get(&container.host);
    container
        .ports
        .iter()
        .map(|binding| PortView {
            name: binding.name.clone(),
            port: binding.port,
            address: address.map_or_else(String::new, |address| format!("{address}:{}", binding.port)),
        })
        .collect()
}

fn wait(wait: &job_shard::Wait) -> Wait {
    Wait {
        reason: wait.reason.clone(),
        message: format!("{}; then: {}", wait.detail, wait.then),
        until: Some(wait.deadline),
    }
}

/// Hosts ruled out, most first.
pub(crate) fn rejections(report: &PlacementReport) -> Vec<Rejection> {
    let mut rejected: Vec<Rejection> = report
        .rejected
        .iter()
        .map(|(reason, hosts)| Rejection {
            reason: serde_json::to_value(reason)
                .ok()
                .and_then(|value| value.as_str().map(str::to_owned))
                .unwrap_or_default(),
            message: reason.to_string(),
            hosts: *hosts,
        })
        .collect();
    rejected.sort_by_key(|rejection| std::cmp::Reverse(rejection.hosts));
    rejected
}

/// A drain, with where the tasks that were on the host are now.
pub(crate) fn drain(
    host: &broker::HostView,
    drain: &broker::DrainRecord,
    on_host: BTreeSet<TaskId>,
    moved: Vec<MovedTask>,
) -> DrainView {
    let state = match drain.state {
        broker::DrainState::Draining => dto::DrainState::Draining,
        broker::DrainState::Drained => dto::DrainState::Drained,
        broker::DrainState::Forced => dto::DrainState::Forced,
        broker::DrainState::Unattested => dto::DrainState::Unattested,
        broker::DrainState::Aborted => dto::DrainState::Aborted,
    };
    let mut remaining = on_host;
    match &host.progress {
        Some(progress) => remaining.extend(progress.remaining.iter().map(|container| container.task.clone())),
        // What a host that is not heard may still have, task records say: it may never have said so itself.
        None if drain.state == broker::DrainState::Unattested && drain.closes() => {
            remaining.extend(drain.left.iter().map(|container| container.task.clone()));
        }
        None => remaining = drain.left.iter().map(|container| container.task.clone()).collect(),
    }
    DrainView {
        host: host.info.id.clone(),
        version: drain.version,
        state,
        deadline: drain.deadline,
        reason: drain.reason.clone(),
        owner: drain.by.clone(),
        remaining: remaining.into_iter().collect(),
        moved,
        forced: drain.forced.clone(),
    }
}

pub(crate) fn host(region: &RegionId, view: broker::HostView, used: Usage, drain: Option<DrainView>) -> HostView {
    HostView {
        region: region.clone(),
        health: match view.health {
            HostHealth::Ready => dto::HostHealth::Ready,
            HostHealth::Unknown { .. } => dto::HostHealth::Unknown,
        },
        last_heard: view.heard_at.unwrap_or_default(),
        cordoned: view.cordon.is_some(),
        drain,
        capacity: HostRoom { cpu: view.info.capacity.cpu, memory: view.info.capacity.memory },
        used: HostRoom { cpu: used.cpu, memory: used.memory },
        ports: view.info.capacity.ports,
        tasks: used.containers,
        id: view.info.id,
        datacenter: view.info.datacenter,
        power_domain: view.info.power_domain,
        rack: view.info.rack,
        address: view.info.address,
        labels: view.info.labels,
        agent: view.info.agent,
    }
}
