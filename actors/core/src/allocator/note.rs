//! What the allocator does about what shards say.

use super::{
    REQUESTS_WAITING_MAX,
    books::{Held, Hold},
    event::Effect,
    state::Allocator,
};
use crate::{
    machine::Effects,
    message::{Charge, Grant, Notice, PlacementAnswer, PlacementNote, PlacementRequest, RequestId},
    wording::counted,
};
use alloc::{format, string::ToString as _, vec, vec::Vec};
use polder_types::{ContainerId, OwnerEpoch, ShardId, TaskId, Timestamp};

impl Allocator {
    pub(super) fn note(&mut self, now: Timestamp, note: PlacementNote, effects: &mut Effects<Self>) {
        match note {
            PlacementNote::Request(request) => {
                if self.hear_owner(request.id) {
                    self.request(now, &request, effects);
                }
            }
            PlacementNote::Withdraw { request, tasks } => {
                if self.hear_owner(request) {
                    self.withdraw(request, &tasks);
                }
            }
            PlacementNote::Placed { request, charges } => {
                if self.hear_owner(request) {
                    self.placed(request, charges);
                }
            }
            PlacementNote::Released { containers } => {
                for container in &containers {
                    self.queue.stale |= self.books.release(container).is_some();
                }
            }
            PlacementNote::Restored { shard, owner, charges } => self.restored(shard, owner, charges),
        }
    }

    /// Whether a request is of the newest owner of its shard that was seen. What older owners asked for is void.
    fn hear_owner(&mut self, request: RequestId) -> bool {
        let RequestId { shard, owner, .. } = request;
        let seen = self.owners.entry(shard).or_insert(owner);
        if owner > *seen {
            *seen = owner;
            self.queue.remove_of(shard, |id| id.owner < owner);
            self.void_grants(|request| request.shard == shard && request.owner < owner);
        }
        owner == self.owners.get(&shard).copied().unwrap_or_default()
    }

    fn void_grants(&mut self, void: impl Fn(&RequestId) -> bool) {
        let granted = self.books.overdue.iter().map(|(_, id)| id);
        let is_void = |id: &&ContainerId| match self.books.held.get(*id).map(|held| &held.hold) {
            Some(Hold::Granted { request, .. }) => void(request),
            _ => false,
        };
        let gone: Vec<ContainerId> = granted.filter(is_void).cloned().collect();
        for id in gone {
            self.books.release(&id);
            self.queue.stale = true;
        }
    }

    /// Takes a request in. One that comes again is answered again: grants that hold are repeated.
    fn request(&mut self, now: Timestamp, request: &PlacementRequest, effects: &mut Effects<Self>) {
        let mut again: Vec<Grant> = Vec::new();
        let mut wanted = Vec::new();
        for task in &request.tasks {
            let task_id = TaskId { job: request.job.clone(), index: task.index };
            let id = ContainerId { task: task_id, epoch: task.epoch };
            match self.books.held.get(&id) {
                Some(Held { hold: Hold::Granted { request: of, why, .. }, charge, .. }) if *of == request.id => {
                    again.push(grant(charge, why));
                }
                // A record says that it is placed: nothing is left to ask for.
                Some(Held { hold: Hold::Placed, .. }) => {}
                // The shard has asked anew for what it was granted before, so it does not mean to use that grant.
                Some(Held { hold: Hold::Granted { .. }, .. }) => {
                    self.books.release(&id);
                    self.queue.stale = true;
                    wanted.push(task.clone());
                }
                None => wanted.push(task.clone()),
            }
        }
        if !again.is_empty() {
            effects.now(self.granted(request.id, again));
        }
        if wanted.is_empty() {
            return;
        }
        let known = self.queue.requests.contains_key(&request.id);
        if !known && self.queue.requests.len() >= REQUESTS_WAITING_MAX {
            effects.now(Effect::Notice(Notice {
                kind: "placement_request_dropped",
                subject: request.job.to_string(),
                message: format!(
                    "the queue for room has no place for {} of {}: {REQUESTS_WAITING_MAX} requests wait already; their \
                     shard asks again",
                    counted(wanted.len(), "task"),
                    request.job
                ),
            }));
            return;
        }
        self.queue.add(request, wanted, now);
    }

    fn withdraw(&mut self, request: RequestId, tasks: &[u32]) {
        self.queue.remove(request, tasks);
        let granted = self.books.overdue.iter().map(|(_, id)| id);
        let withdrawn = |id: &&ContainerId| {
            let named = tasks.is_empty() || tasks.contains(&id.task.index);
            named
                && matches!(self.books.held.get(*id).map(|held| &held.hold),
                    Some(Hold::Granted { request: of, .. }) if *of == request)
        };
        let gone: Vec<ContainerId> = granted.filter(withdrawn).cloned().collect();
        for id in gone {
            self.books.release(&id);
            self.queue.stale = true;
        }
    }

    /// Charges what a shard's records say, whatever was granted: a record is a fact.
    fn placed(&mut self, request: RequestId, charges: Vec<Charge>) {
        let indices: Vec<u32> = charges.iter().map(|charge| charge.container.task.index).collect();
        if !indices.is_empty() {
            self.queue.remove(request, &indices);
        }
        for charge in charges {
            self.books.charge(Held { shard: request.shard, charge, hold: Hold::Placed });
        }
    }

    /// Replaces everything of a shard by what it says it holds.
    fn restored(&mut self, shard: ShardId, owner: OwnerEpoch, charges: Vec<Charge>) {
        if self.owners.get(&shard).is_some_and(|seen| *seen > owner) {
            return;
        }
        self.owners.insert(shard, owner);
        self.queue.remove_of(shard, |_| true);
        let gone: Vec<ContainerId> =
            self.books.held.iter().filter(|(_, held)| held.shard == shard).map(|(id, _)| id.clone()).collect();
        for id in gone {
            self.books.release(&id);
        }
        for charge in charges {
            self.books.charge(Held { shard, charge, hold: Hold::Placed });
        }
        self.queue.stale = true;
    }

    pub(super) fn granted(&self, request: RequestId, grants: Vec<Grant>) -> Effect {
        let answer = PlacementAnswer::Granted { request, allocator: self.config.epoch, grants };
        Effect::Answer { shard: request.shard, answer }
    }

    /// Repeats grants that are not placed in time, and tells people once: the shard may have missed the grant, or the
    /// allocator the record. The grant holds all the same, so that what was freed for a task stays free for it.
    pub(super) fn remind(&mut self, now: Timestamp, effects: &mut Effects<Self>) {
        while let Some((at, id)) = self.books.overdue.first().cloned() {
            if at > now {
                break;
            }
            self.books.overdue.remove(&(at, id.clone()));
            let next = now + self.config.place_within;
            let Some(held) = self.books.held.get_mut(&id) else { continue };
            let Hold::Granted { request, why, overdue_at, told } = &mut held.hold else { continue };
            *overdue_at = next;
            let first = !core::mem::replace(told, true);
            let (request, grant) = (*request, grant(&held.charge, why));
            if first {
                effects.now(Effect::Notice(Notice {
                    kind: "grant_not_placed",
                    subject: id.task.to_string(),
                    message: format!(
                        "room for {id} on {} was granted {} ago and its shard {} has not placed it yet; it is held",
                        held.charge.host, self.config.place_within, request.shard
                    ),
                }));
            }
            self.books.overdue.insert((next, id));
            effects.now(self.granted(request, vec![grant]));
        }
    }
}

fn grant(charge: &Charge, why: &str) -> Grant {
    Grant {
        index: charge.container.task.index,
        epoch: charge.container.epoch,
        host: charge.host.clone(),
        ports: charge.ports.clone(),
        why: why.into(),
    }
}
