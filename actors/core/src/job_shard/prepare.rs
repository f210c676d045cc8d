//! The image of a task's next container is known to be on its host before the container that serves is stopped.
//!
//! ```text
//!   the task is to give way, and serves ──Prepare──▶ host ──▶ done:   its container may be stopped
//!                                 ▲                     └───▶ failed: it goes on; room is looked for elsewhere,
//!                                 └── later, ever more slowly ─┘        and the release stands still
//! ```
//!
//! All of it is soft: a restored shard asks again.

use alloc::{format, string::ToString as _};
use polder_types::{ContainerId, Epoch, Generation, HostId, JobId, Timestamp};

use super::{
    JobShard,
    ends::cut,
    limits::{ORDER_REPEAT, ORDER_REPEAT_MAX, PREPARE_UNANSWERED},
    shard::{Job, Task, doubled},
    turn::Turn,
    view::Wait,
};
use crate::message::{HostOrder, OrderOwner, Preparation};

/// What is known of an image on a host.
#[derive(Clone, Debug)]
pub(super) struct Preparing {
    /// Where.
    pub(super) host: HostId,
    /// Of which template.
    generation: Generation,
    /// The epoch of the container that it was last asked for.
    epoch: Epoch,
    /// Since when this host has been asked.
    since: Timestamp,
    /// What the host said last.
    heard: Option<Preparation>,
    /// When it is asked (again).
    order_at: Option<Timestamp>,
    /// Times it was asked for this template, on whatever host.
    tries: u32,
}

impl Preparing {
    /// When something is to be done about it.
    pub(super) fn due(&self) -> Option<Timestamp> {
        let unheard = self.heard.is_none().then(|| self.since + PREPARE_UNANSWERED);
        [self.order_at, unheard].into_iter().flatten().min()
    }

    /// Whether its host said that the image can't be had.
    pub(super) const fn has_failed(&self) -> bool {
        matches!(self.heard, Some(Preparation::Failed { .. }))
    }
}

impl JobShard {
    /// Whether a host has what a task's next container is made from, as far as can be known.
    pub(super) fn is_prepared(&self, task: &Task, host: &HostId, now: Timestamp) -> bool {
        let Some(asked) = &task.preparing else { return false };
        if asked.host != *host || asked.generation != task.record.want {
            return false;
        }
        match asked.heard {
            Some(Preparation::Done) => true,
            Some(_) => false,
            None => asked.since + PREPARE_UNANSWERED <= now,
        }
    }

    /// Has a host prepare what a task's next container is made from, when that is due.
    pub(super) fn ask_to_prepare(&mut self, turn: &mut Turn, id: &JobId, index: u32, host: HostId) {
        let now = turn.now;
        let owner = OrderOwner { shard: self.config.shard, epoch: self.config.owner };
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Some(task) = job.tasks.get_mut(&index) else { return };
        let generation = task.record.want;
        let epoch = task.record.next.as_ref().map_or_else(|| task.record.epoch.next(), |next| next.epoch);
        let known = task.preparing.take().filter(|known| known.generation == generation);
        let mut asked = match known {
            Some(known) if known.host == host => known,
            other => {
                let tries = other.map_or(0, |other| other.tries);
                Preparing { host, generation, epoch, since: now, heard: None, order_at: Some(now), tries }
            }
        };
        let due = asked.order_at.is_some_and(|at| at <= now);
        if due {
            asked.epoch = epoch;
            asked.order_at = Some(now + doubled(ORDER_REPEAT, asked.tries, ORDER_REPEAT_MAX));
            asked.tries = asked.tries.saturating_add(1);
        }
        let host = asked.host.clone();
        task.preparing = Some(asked);
        let image = job.template_of(generation).map(|template| template.image.clone());
        if let Some(image) = image.filter(|_| due) {
            let container = ContainerId { task: polder_types::TaskId { job: id.clone(), index }, epoch };
            turn.order(&host, HostOrder::Prepare { owner, container, image });
            turn.changed(id);
        }
        self.arm(now, id, index);
    }

    /// A host said how far it is.
    pub(super) fn host_prepared(
        &mut self,
        turn: &mut Turn,
        host: &HostId,
        container: &ContainerId,
        preparation: Preparation,
    ) {
        let now = turn.now;
        let (id, index) = (&container.task.job, container.task.index);
        if self.jobs.get(id).is_none_or(|job| job.record.quarantine.is_some()) {
            return;
        }
        let Some(task) = self.task_mut(id, index) else { return };
        let Some(asked) = &mut task.preparing else { return };
        // What was heard stays until the host knows better: that it is at it again is none.
        let settled = matches!(asked.heard, Some(Preparation::Done | Preparation::Failed { .. }));
        if asked.host != *host || asked.epoch != container.epoch || (settled && preparation == Preparation::UnderWay) {
            return;
        }
        let news = asked.heard.as_ref() != Some(&preparation);
        let Preparation::Failed { reason } = preparation else {
            asked.order_at = asked.order_at.filter(|_| preparation != Preparation::Done);
            asked.heard = Some(preparation);
            if news {
                turn.touch(id, index);
                turn.changed(id);
            }
            return;
        };
        let reason = cut(reason);
        let again = now + doubled(ORDER_REPEAT, asked.tries, ORDER_REPEAT_MAX);
        let generation = asked.generation;
        asked.order_at = Some(again);
        asked.heard = Some(Preparation::Failed { reason: reason.clone() });
        if task.record.next.as_ref().is_some_and(|next| next.host == *host) {
            // Another host may have it. The room is held for nobody meanwhile.
            (task.avoid, task.ask_after) = (Some(host.clone()), Some(again));
            self.give_up_room(turn, id, index);
        }
        turn.touch(id, index);
        if news {
            turn.changed(id);
        }
        self.tell_of_image(turn, id, index, host, generation, &reason);
    }

    fn tell_of_image(
        &mut self,
        turn: &mut Turn,
        id: &JobId,
        index: u32,
        host: &HostId,
        generation: Generation,
        reason: &str,
    ) {
        let Some(job) = self.jobs.get_mut(id).filter(|job| job.image_told != Some(generation)) else { return };
        let Some(image) = job.template_of(generation).map(|template| template.image.clone()) else { return };
        job.image_told = Some(generation);
        let message = format!(
            "host {host} can't prepare image {image} for task {index} ({reason}): the task's container runs on meanwhile; bring the image there, or apply the job with another one"
        );
        turn.notice("image_missing", id, message);
    }
}

/// That a task's next container has no image yet, for people.
pub(super) fn wait_for_image(job: &Job, task: &Task) -> Option<Wait> {
    let asked = task.preparing.as_ref()?;
    let (host, image) = (&asked.host, &job.template_of(asked.generation)?.image);
    let (reason, detail, then) = match &asked.heard {
        Some(Preparation::Done) => return None,
        Some(Preparation::Failed { reason }) => (
            "its next image can't be prepared",
            format!("host {host} can't prepare image {image}: {reason}; the task's container runs on meanwhile"),
            "it is tried again, elsewhere if another host has room",
        ),
        _ => (
            "its next image is being prepared",
            format!("host {host} prepares image {image} before the task's container is stopped"),
            "the host is told again",
        ),
    };
    let deadline = asked.order_at.unwrap_or(asked.since);
    Some(Wait { reason: reason.to_string(), detail, deadline, then: then.to_string() })
}
