//! Tries what waits, in order, and carries plans out.

use super::{
    LOOKS_PER_STEP_MAX, REPORT_INTERVAL,
    books::{Held, Hold},
    event::Effect,
    plan::{Cut, Plan},
    state::Allocator,
};
use crate::{
    machine::Effects,
    message::{Charge, Grant, PlacementAnswer, PlacementReport, RequestId},
};
use alloc::{sync::Arc, vec::Vec};
use polder_types::{ContainerId, JobId, Resources, TaskId, Timestamp};

impl Allocator {
    /// Does as much of what is due as one step may.
    pub(super) fn work(&mut self, now: Timestamp, effects: &mut Effects<Self>) {
        self.remind(now, effects);
        if now < self.settled_at {
            return;
        }
        let mut looks = LOOKS_PER_STEP_MAX;
        while looks > 0 {
            if self.queue.untried.is_empty() && self.pass_due().is_some_and(|due| due <= now) {
                self.queue.begin_pass(now);
            }
            let Some(place) = self.queue.untried.first().copied() else { break };
            let (.., id) = place;
            let spent = self.try_request(now, id, looks, effects);
            let unfinished = self.queue.requests.get(&id).is_some_and(|waiting| waiting.from > 0);
            if !unfinished {
                self.queue.untried.remove(&place);
            }
            looks = looks.saturating_sub(spent.max(1));
        }
    }

    /// Tries what is left of a request in this pass; says how many looks it took.
    fn try_request(&mut self, now: Timestamp, id: RequestId, looks: usize, effects: &mut Effects<Self>) -> usize {
        let Some(waiting) = self.queue.requests.get(&id) else { return 0 };
        let tasks = waiting.tasks.range(waiting.from..).map(|(_, task)| task);
        let (job, resources) = (waiting.job.clone(), waiting.shape.resources);
        let Cut { plan, rest, looks } = self.plan_some(&job, &waiting.shape, tasks, looks);
        let Plan { grants, waiting } = plan;
        if let Some(request) = self.queue.requests.get_mut(&id) {
            request.from = rest.unwrap_or(0);
        }
        if !grants.is_empty() {
            self.carry_out(now, id, &job, resources, &grants);
            effects.now(self.granted(id, grants));
        }
        for (report, tasks) in waiting {
            self.tell(now, id, tasks, report, effects);
        }
        looks
    }

    fn carry_out(&mut self, now: Timestamp, id: RequestId, job: &JobId, resources: Resources, grants: &[Grant]) {
        for grant in grants {
            let task = TaskId { job: job.clone(), index: grant.index };
            let charge = Charge {
                container: ContainerId { task, epoch: grant.epoch },
                host: grant.host.clone(),
                resources,
                ports: grant.ports.clone(),
            };
            let hold = Hold::Granted {
                request: id,
                why: grant.why.clone(),
                overdue_at: now + self.config.place_within,
                told: false,
            };
            self.books.charge(Held { shard: id.shard, charge, hold });
            self.remember_port(grant);
        }
        let granted: Vec<u32> = grants.iter().map(|grant| grant.index).collect();
        self.queue.remove(id, &granted);
    }

    /// The next search for a free port on this host begins behind the last that was handed out.
    fn remember_port(&mut self, grant: &Grant) {
        let Some(host) = self.books.hosts.get_mut(&grant.host) else { return };
        let Some(known) = &host.known else { return };
        let range = known.info.capacity.ports;
        let last = grant.ports.iter().rev().map(|binding| binding.port);
        if let Some(port) = last.into_iter().find(|port| (range.first..=range.last).contains(port)) {
            host.next_port = port.wrapping_add(1);
        }
    }

    /// Tells a shard why tasks wait, unless it knows: a report that differs only in its counts can wait a while.
    fn tell(
        &mut self,
        now: Timestamp,
        id: RequestId,
        tasks: Vec<u32>,
        report: PlacementReport,
        effects: &mut Effects<Self>,
    ) {
        let Some(waiting) = self.queue.requests.get_mut(&id) else { return };
        let report = Arc::new(report);
        let knows = |task: &u32| {
            let told = waiting.told.get(task);
            told.is_some_and(|(last, at)| *last == report || (same_kind(last, &report) && now < *at + REPORT_INTERVAL))
        };
        let tasks: Vec<u32> = tasks.into_iter().filter(|task| !knows(task)).collect();
        if tasks.is_empty() {
            return;
        }
        for task in &tasks {
            waiting.told.insert(*task, (Arc::clone(&report), now));
        }
        let report = (*report).clone();
        let answer = PlacementAnswer::Waiting { request: id, tasks, report };
        effects.now(Effect::Answer { shard: id.shard, answer });
    }
}

fn same_kind(a: &PlacementReport, b: &PlacementReport) -> bool {
    let account = |report: &PlacementReport| report.quota.as_ref().map(|quota| quota.account.clone());
    account(a) == account(b) && a.rejected.keys().eq(b.rejected.keys())
}
