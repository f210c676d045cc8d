//! Deltas and effects as one line each.

use polder_core::{
    job_shard::{Delta, Effect, Placement, TaskRecord},
    message::{HostOrder, PlacementNote},
};
use polder_types::HostId;

fn placement(at: &Placement) -> String {
    let stop = at.stop.map(|stop| format!(" stop:{:?}", stop.why)).unwrap_or_default();
    format!("@{} {} g{}{stop}", at.epoch, at.host, at.generation)
}

fn task(task: &TaskRecord) -> String {
    let mut parts = vec![format!("{} epoch={} want=g{}", task.index, task.epoch, task.want)];
    parts.extend(task.current.as_ref().map(|at| format!("current[{}]", placement(at))));
    parts.extend(task.next.as_ref().map(|at| format!("next[{}]", placement(at))));
    parts.extend(task.lingering.iter().map(|at| format!("lingering[{}]", placement(at))));
    if task.failures > 0 {
        parts.push(format!("failures={}", task.failures));
    }
    parts.extend(task.restart_at.map(|at| format!("restart_at={}", at.0)));
    parts.extend(task.outcome.map(|outcome| format!("{outcome:?}")));
    parts.join(" ")
}

pub(crate) fn delta(delta: &Delta) -> String {
    match delta {
        Delta::FenceAllocator(epoch) => format!("compare allocator {epoch}"),
        Delta::PutJob(job) => {
            let aside = if job.quarantine.is_some() { " set aside" } else { "" };
            let stopped = if job.slice.stopped { " stopped" } else { "" };
            format!(
                "put job {} v{} g{} tasks={}{stopped}{aside}",
                job.id(),
                job.slice.version,
                job.generation,
                job.slice.slots.count()
            )
        }
        Delta::PutChunk(chunk) => {
            let tasks: Vec<String> = chunk.tasks.iter().map(task).collect();
            format!("put chunk {}#{}: {}", chunk.job, chunk.number, tasks.join("; "))
        }
        Delta::DeleteChunk { job, number } => format!("delete chunk {job}#{number}"),
        Delta::DeleteJob(job) => format!("delete job {job}"),
    }
}

fn order(host: &HostId, order: &HostOrder) -> String {
    match order {
        HostOrder::Start { container, spec, .. } => {
            format!("{host}: start {container} {} g{}", spec.image, spec.generation)
        }
        HostOrder::Stop { container, .. } => format!("{host}: stop {container}"),
        HostOrder::Prepare { container, image, .. } => format!("{host}: prepare {image} for {container}"),
        HostOrder::Forget { container, .. } => format!("{host}: forget {container}"),
        other => format!("{host}: {other:?}"),
    }
}

fn note(note: &PlacementNote) -> String {
    match note {
        PlacementNote::Request(request) => {
            let tasks: Vec<String> = request
                .tasks
                .iter()
                .map(|task| {
                    let avoid = task.avoid.as_ref().map(|host| format!(" not {host}")).unwrap_or_default();
                    format!("{}@{}{avoid}", task.index, task.epoch)
                })
                .collect();
            format!("request {}.{} {}: {}", request.id.owner, request.id.number, request.job, tasks.join(", "))
        }
        PlacementNote::Withdraw { request, tasks } => {
            format!("withdraw {}.{}: {tasks:?}", request.owner, request.number)
        }
        PlacementNote::Placed { request, charges } => {
            let charges: Vec<String> =
                charges.iter().map(|charge| format!("{} on {}", charge.container, charge.host)).collect();
            format!("placed {}.{}: {}", request.owner, request.number, charges.join(", "))
        }
        PlacementNote::Released { containers } => format!("released {containers:?}"),
        PlacementNote::Restored { charges, .. } => {
            let charges: Vec<String> =
                charges.iter().map(|charge| format!("{} on {}", charge.container, charge.host)).collect();
            format!("restored: {}", charges.join(", "))
        }
    }
}

pub(crate) fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Allocator(inner) => note(inner),
        Effect::Order { host, order: inner } => order(host, inner),
        Effect::AskInventory { host } => format!("{host}: what runs?"),
        Effect::Reply { reply, result } => match result {
            Ok(applied) => {
                let changed = if applied.changed { "" } else { " unchanged" };
                format!("reply {}: ok {} v{} g{}{changed}", reply.0, applied.job, applied.version, applied.generation)
            }
            Err(refused) => format!("reply {}: refused, {refused}", reply.0),
        },
        Effect::Notice(notice) => format!("notice {} {}: {}", notice.kind, notice.subject, notice.message),
        Effect::SliceChanged(job) => format!("changed {job}"),
    }
}
