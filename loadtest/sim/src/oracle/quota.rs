//! Quota holds under partition: what regions may admit never sums to more than the quota, and nothing is admitted beyond
//! what its region may admit.

use super::{QUOTA, World};
use crate::{names::NodeAt, world::Step};
use polder_core::{
    allocator::{Allocator, Effect, Event},
    message::{PlacementAnswer, PlacementNote, RequestId},
    quota_ledger::QuotaRecord,
};
use polder_types::{AccountId, Allotment, Amounts, Bytes, ContainerId, Cpu, JobId, TaskId};
use std::collections::BTreeMap;

/// How much later than the store an allocator may hear of an allotment.
const LAG: u64 = 90_000;

/// What is remembered of limits.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// The most that the allotments of an account may sum to.
    bounds: BTreeMap<AccountId, Amounts>,
    /// What each region could admit, and since when.
    history: BTreeMap<(u8, AccountId), Vec<(u64, Amounts)>>,
    /// When room for a container was first granted, and what its task was charged then.
    granted: BTreeMap<(u8, ContainerId), (u64, Amounts)>,
    requests: BTreeMap<(u8, RequestId), JobId>,
}

fn largest(a: Amounts, b: Amounts) -> Amounts {
    Amounts { cpu: a.cpu.max(b.cpu), memory: a.memory.max(b.memory), tasks: a.tasks.max(b.tasks) }
}

fn least(a: Amounts, b: Amounts) -> Amounts {
    Amounts { cpu: a.cpu.min(b.cpu), memory: a.memory.min(b.memory), tasks: a.tasks.min(b.tasks) }
}

/// Notes which job a request is for: grants don't say.
pub(crate) fn watch_request(world: &mut World, at: NodeAt, event: &Event) {
    if let Event::Note(PlacementNote::Request(request)) = event {
        world.oracles.quota.requests.insert((at.region, request.id), request.job.clone());
    }
}

/// Notes what an allocator grants.
pub(crate) fn watch_grants(world: &mut World, at: NodeAt, step: &Step<Allocator>) {
    let now = world.now;
    for effect in step.now.iter().chain(&step.after) {
        let Effect::Answer { answer: PlacementAnswer::Granted { request, grants, .. }, .. } = effect else { continue };
        let limits = &mut world.oracles.quota;
        let Some(job) = limits.requests.get(&(at.region, *request)) else { continue };
        for grant in grants {
            let task = TaskId { job: job.clone(), index: grant.index };
            let charged = world.oracles.books[usize::from(at.region)].task(&task);
            // The newest grant says what was charged then; the oldest, which limits may have been in force.
            let id = ContainerId { task, epoch: grant.epoch };
            limits.granted.entry((at.region, id)).or_insert((now, charged)).1 = charged;
        }
    }
}

impl World {
    /// A quota is written.
    pub(crate) fn see_quota(&mut self, record: QuotaRecord) {
        let account = record.quota.account.clone();
        let settled = record.regions.values().all(|share| share.sent.is_none());
        let bound = self.oracles.quota.bounds.entry(account.clone()).or_default();
        // Above the quota only while a region has not agreed yet to something smaller.
        *bound = if settled { record.quota.limit } else { largest(*bound, record.quota.limit) };
        self.federation.quotas.insert(account.clone(), record);
        self.check_sum(&account);
    }

    /// A region agrees to an allotment.
    pub(crate) fn see_allotment(&mut self, region: u8, allotment: Allotment) {
        let (now, account) = (self.now, allotment.account.clone());
        let history = self.oracles.quota.history.entry((region, account.clone())).or_default();
        history.push((now, allotment.limit));
        self.trace.note(&"store", format_args!("region {region} agrees to {allotment:?}"));
        self.region_mut(region).store.allotments.insert(account.clone(), allotment);
        self.check_sum(&account);
    }

    fn check_sum(&mut self, account: &AccountId) {
        self.counts.look(QUOTA);
        let allotments = self.regions.iter().filter_map(|region| region.store.allotments.get(account));
        let sum = allotments.fold(Amounts::default(), |sum, allotment| sum.plus(allotment.limit));
        let bound = self.oracles.quota.bounds.get(account).copied().unwrap_or_default();
        if !sum.within(bound) {
            self.violated(
                QUOTA,
                format!("regions may admit {sum:?} for {account} together, and its quota is {bound:?}"),
            );
        }
    }

    /// More is charged to a task's accounts than before.
    pub(crate) fn see_admitted(
        &mut self,
        region: u8,
        task: &TaskId,
        grows: Amounts,
        after: Amounts,
        added: &[ContainerId],
    ) {
        self.counts.look(QUOTA);
        let now = self.now;
        let grants: Vec<(u64, Amounts)> =
            added.iter().filter_map(|id| self.oracles.quota.granted.remove(&(region, id.clone()))).collect();
        let granted = grants.iter().map(|(at, _)| *at).min().unwrap_or(now);
        // What the task was charged when it was granted this, it has been charged all along: by its grant.
        let grows = grants.iter().fold(grows, |grows, (_, charged)| least(grows, after.minus(*charged)));
        let books = &self.oracles.books[usize::from(region)];
        let over = books.accounts.iter().find_map(|(account, used)| {
            let above = task.job.account.as_str();
            let concerns = above == account.as_str()
                || (above.starts_with(account.as_str()) && above[account.as_str().len()..].starts_with('/'));
            if !concerns {
                return None;
            }
            let history = self.oracles.quota.history.get(&(region, account.clone()))?;
            let limit = most_since(history, granted.saturating_sub(LAG))?;
            // An account that is above a limit that shrank may stay there, but not grow.
            let over = used.minus(limit);
            let above = (grows.cpu > Cpu::ZERO && over.cpu > Cpu::ZERO)
                || (grows.memory > Bytes::ZERO && over.memory > Bytes::ZERO)
                || (grows.tasks > 0 && over.tasks > 0);
            above.then(|| {
                format!("{task} is admitted in region {region}: {account} uses {used:?} there, and may use {limit:?}")
            })
        });
        if let Some(over) = over {
            self.violated(QUOTA, over);
        }
    }
}

/// The most that was allowed at any time since; none if there was no limit at all for a part of it.
fn most_since(history: &[(u64, Amounts)], since: u64) -> Option<Amounts> {
    let first = history.partition_point(|(at, _)| *at <= since);
    let before = history[..first].last()?.1;
    Some(history[first..].iter().fold(before, |most, (_, limit)| largest(most, *limit)))
}
