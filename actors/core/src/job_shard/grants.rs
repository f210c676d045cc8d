//! What the allocator answers.

use alloc::vec::Vec;
use polder_types::{OwnerEpoch, Timestamp};

use super::{
    JobShard,
    limits::{REQUEST_REPEAT, REQUEST_REPEAT_MAX},
    shard::{Due, Live, doubled},
    state::Placement,
    turn::Turn,
};
use crate::message::{Grant, PlacementAnswer, PlacementReport, RequestId};

impl JobShard {
    pub(super) fn placement_answered(&mut self, turn: &mut Turn, answer: PlacementAnswer) {
        match answer {
            PlacementAnswer::Granted { request, allocator, grants } => self.granted(turn, request, allocator, grants),
            PlacementAnswer::Waiting { request, tasks, report } => self.waiting(turn, request, &tasks, &report),
            PlacementAnswer::Started { allocator } => self.allocator_heard(turn, allocator),
        }
    }

    /// A newer allocator knows nothing of what was asked of the one before it: everything is asked again.
    fn allocator_heard(&mut self, turn: &mut Turn, allocator: OwnerEpoch) {
        if self.allocator.is_some_and(|known| known >= allocator) {
            return;
        }
        // The first one this owner hears of may be the one it has been asking all along.
        let first = self.allocator.replace(allocator).is_none();
        let groups: Vec<RequestId> = self.asks.keys().copied().collect();
        if first {
            turn.send.extend(groups);
            return;
        }
        for request in groups {
            let Some(group) = self.asks.remove(&request) else { continue };
            self.due.remove(&(group.repeat_at, Due::Request(request)));
            for index in group.tasks.keys() {
                if let Some(task) = self.task_mut(&group.job, *index) {
                    task.ask = None;
                }
                turn.touch(&group.job, *index);
            }
        }
    }

    fn granted(&mut self, turn: &mut Turn, request: RequestId, allocator: OwnerEpoch, grants: Vec<Grant>) {
        if self.allocator.is_some_and(|known| known > allocator) {
            return;
        }
        if self.allocator.is_some_and(|known| known < allocator) {
            // What a new allocator grants was asked of it: only the other requests are asked again.
            let kept = self.asks.remove(&request);
            self.allocator_heard(turn, allocator);
            if let Some(group) = kept {
                self.asks.insert(request, group);
            }
        }
        self.allocator = Some(allocator);
        for grant in grants {
            self.take_grant(turn, request, allocator, grant);
        }
    }

    fn take_grant(&mut self, turn: &mut Turn, request: RequestId, allocator: OwnerEpoch, grant: Grant) {
        let now = turn.now;
        let Some(group) = self.asks.get(&request) else {
            self.disown(turn, request, &grant);
            return;
        };
        let (id, generation) = (group.job.clone(), group.generation);
        let asked = self
            .jobs
            .get(&id)
            .and_then(|job| job.tasks.get(&grant.index))
            .and_then(|task| task.ask.as_ref())
            .is_some_and(|ask| ask.id == request && ask.epoch == grant.epoch);
        if !asked {
            self.disown(turn, request, &grant);
            return;
        }
        let closed =
            self.hosts.get(&grant.host).is_some_and(|host| host.drain().is_some() || host.silent_since().is_some());
        if closed {
            // The allocator has not heard yet what this shard has: ask again a little later.
            self.drop_ask(turn, &id, grant.index);
            if let Some(task) = self.task_mut(&id, grant.index) {
                task.avoid = Some(grant.host);
                task.ask_after = Some(now + REQUEST_REPEAT);
            }
            turn.touch(&id, grant.index);
            return;
        }
        let Some(resources) =
            self.jobs.get(&id).and_then(|job| job.template_of(generation)).map(|found| found.resources)
        else {
            self.drop_ask(turn, &id, grant.index);
            turn.touch(&id, grant.index);
            return;
        };
        let placement = Placement {
            epoch: grant.epoch,
            host: grant.host,
            generation,
            resources,
            ports: grant.ports,
            placed_at: now,
            stop: None,
        };
        let host = placement.host.clone();
        self.leave_request(request, grant.index);
        turn.placed(request, placement.charge(&id, grant.index));
        if let Some(task) = self.task_mut(&id, grant.index) {
            task.ask = None;
            task.avoid = None;
            let mut live = Live::restored(placement.epoch);
            (live.granted_by, live.why) = (Some(request), Some(grant.why));
            task.record.epoch = placement.epoch;
            // It becomes the task's container when nothing stands before it: in this very step, as a rule.
            task.record.next = Some(placement);
            task.live.push(live);
        }
        turn.fence = Some(allocator);
        turn.save_task(&id, grant.index);
        turn.touch(&id, grant.index);
        self.reindex(&host, &id, grant.index);
        self.watch_host(turn.now, &host);
    }

    /// Gives back a grant that is not wanted any more, unless it is one that was taken before and came twice.
    fn disown(&self, turn: &mut Turn, request: RequestId, grant: &Grant) {
        let taken = self.by_host.get(&grant.host).into_iter().flatten().any(|(job, index)| {
            let task = self.jobs.get(job).and_then(|job| job.tasks.get(index));
            *index == grant.index
                && task.and_then(|task| task.live(grant.epoch)).is_some_and(|live| live.granted_by == Some(request))
        });
        if !taken {
            turn.withdraw(request, grant.index);
        }
    }

    fn waiting(&mut self, turn: &mut Turn, request: RequestId, tasks: &[u32], report: &PlacementReport) {
        let Some(job) = self.asks.get(&request).map(|group| group.job.clone()) else { return };
        for index in tasks {
            let Some(ask) = self.task_mut(&job, *index).and_then(|task| task.ask.as_mut()) else { continue };
            if ask.id == request {
                ask.report = Some(report.clone());
                turn.touch(&job, *index);
                turn.changed(&job);
            }
        }
    }

    /// Sends a request again that was not answered in full.
    pub(super) fn request_due(&mut self, turn: &mut Turn, request: RequestId) {
        let Some(group) = self.asks.get_mut(&request) else { return };
        group.tries = group.tries.saturating_add(1);
        let old = group.repeat_at;
        group.repeat_at = turn.now + doubled(REQUEST_REPEAT, group.tries, REQUEST_REPEAT_MAX);
        let new: Timestamp = group.repeat_at;
        self.due.remove(&(old, Due::Request(request)));
        self.due.insert((new, Due::Request(request)));
        turn.send.insert(request);
    }
}
