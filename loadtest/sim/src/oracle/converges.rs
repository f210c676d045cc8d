//! After the faults everything comes right: what people want runs, once, where it may, and nothing else does.

use super::World;
use crate::{
    cell::Cell,
    names::HostAt,
    world::{HostSim, Real},
};
use polder_core::{
    intent_router::IntentRecord,
    job_shard::{JobRecord, JobShard, TaskState, TaskView, Template},
};
use polder_types::{Amounts, ContainerPhase, JobId, JobKind, Resources, ShardId};
use std::collections::BTreeSet;

impl World {
    /// What is not as it should be in the end; none if all is.
    pub(crate) fn unsettled(&self) -> Option<String> {
        self.unsettled_federation()
            .or_else(|| (0..).zip(&self.regions).find_map(|(region, _)| self.unsettled_region(region)))
            .or_else(|| self.federation.intents.values().find_map(|record| self.unsettled_intent(record)))
    }

    fn unsettled_federation(&self) -> Option<String> {
        let Some(lead) = self.fed_leader().and_then(|at| self.fed(at).lead.as_ref()) else {
            return Some("nobody leads the federation".to_owned());
        };
        let (Some(router), Some(ledger)) = (lead.router.running(), lead.ledger.running()) else {
            return Some("a machine of the federation is being restored".to_owned());
        };
        if !lead.router.inbox.is_empty() || !lead.ledger.inbox.is_empty() {
            return Some("the federation has not heard everything yet".to_owned());
        }
        let (slices, allotments) = (router.puts_pending(), ledger.puts_pending());
        // A region can't forget what may still run on a host that is lost, and is asked to for ever.
        let stuck =
            self.federation.intents.values().filter(|record| record.deleting && self.is_on_lost_host(&record.spec.id));
        let asked: usize = stuck.map(|record| record.regions.len()).sum();
        if slices > asked || allotments > 0 {
            return Some(format!("{slices} slices and {allotments} allotments are not known to be where they belong"));
        }
        for record in self.federation.quotas.values() {
            for (id, share) in &record.regions {
                let removed = record.is_removed().then_some(Amounts::UNLIMITED);
                let part = record.quota.regions.get(id).copied();
                let wanted = removed.or(part).unwrap_or_default();
                let region = self.regions.iter().find(|region| region.id == *id)?;
                let held = region.store.allotments.get(&record.quota.account);
                if held.map(|held| held.limit) != Some(wanted) || held != share.agreed.as_ref() {
                    let account = &record.quota.account;
                    return Some(format!("{id} has {held:?} of {account}, and is to have {wanted:?}: {share:?}"));
                }
            }
        }
        None
    }

    fn unsettled_region(&self, region: u8) -> Option<String> {
        let sim = self.region(region);
        let Some(lead) = self.leader(region).and_then(|at| self.node(at).lead.as_ref()) else {
            return Some(format!("nobody leads region {region}"));
        };
        let shards: Option<Vec<&JobShard>> = lead.shards.iter().map(Cell::running).collect();
        let brokers = lead.brokers.iter().all(|cell| cell.running().is_some());
        let (Some(shards), true, Some(allocator)) = (shards, brokers, lead.allocator.running()) else {
            return Some(format!("a machine of region {region} is being restored"));
        };
        if allocator.unplaced() > 0 {
            return Some(format!("{} grants of region {region} are not placed", allocator.unplaced()));
        }
        let books = &self.oracles.books[usize::from(region)];
        for (number, host) in (0..).zip(&sim.hosts) {
            let (cpu, memory, containers) = books.on_host(number);
            let used = allocator.host_usage(&host.id);
            let counted = (u64::from(used.cpu.centi_cores()), used.memory.get(), used.containers as usize);
            if counted != (cpu, memory, containers) {
                return Some(format!(
                    "the allocator charges {counted:?} on {}, records {cpu}, {memory}, {containers}",
                    host.id
                ));
            }
            if let Some(problem) = self.unsettled_host(HostAt { region, host: number }, host) {
                return Some(problem);
            }
        }
        for view in allocator.account_usages() {
            let used = books.accounts.get(&view.account).copied().unwrap_or_default();
            if view.used != used {
                return Some(format!(
                    "the allocator charges {:?} to {}, records say {used:?}",
                    view.used, view.account
                ));
            }
        }
        sim.store.jobs.iter().find_map(|((shard, job), record)| {
            self.unsettled_job(region, shards.get(usize::from(*shard))?, job, record)
        })
    }

    /// What runs is on record, and what is on record runs.
    fn unsettled_host(&self, at: HostAt, host: &HostSim) -> Option<String> {
        let books = &self.oracles.books[usize::from(at.region)];
        if host.lost {
            return None;
        }
        if !host.agent.up {
            return Some(format!("the agent of {at} does not run"));
        }
        let stray = host.running().find(|(id, _)| books.placed.get(id).is_none_or(|placed| placed.host != at.host));
        if let Some((id, _)) = stray {
            return Some(format!("{id} runs on {at} without a record"));
        }
        let remains = host.real.iter().find(|(_, real)| !real.is_running());
        remains.map(|(id, _)| format!("the remains of {id} are left on {at}"))
    }

    fn unsettled_job(&self, region: u8, shard: &JobShard, job: &JobId, record: &JobRecord) -> Option<String> {
        let books = &self.oracles.books[usize::from(region)];
        let of_job = books.placed.iter().filter(|(id, _)| id.task.job == *job);
        let lost = |host: u32| self.host(HostAt { region, host }).lost;
        let wanted = |index: u32| !record.slice.stopped && record.slice.slots.contains(index);
        for (id, placed) in of_job {
            if lost(placed.host) {
                continue;
            }
            if !wanted(id.task.index) || placed.lingering || placed.stop.is_some() {
                return Some(format!("{id} is still on record on host {}", placed.host));
            }
        }
        if record.slice.stopped {
            return None;
        }
        let views = shard.task_views(job);
        // One that waits for room rightly may hold up others of its job.
        let short = views.iter().any(|task| self.waits_rightly(region, record, task));
        views.iter().filter(|task| wanted(task.task.index)).find_map(|task| {
            let right = match task.state {
                TaskState::Completed | TaskState::Failed => true,
                TaskState::Ready => short || self.runs_as_wanted(region, record, task),
                // Its host is lost for good: it stays charged there, and starts elsewhere when there is room.
                _ => short && self.waits_rightly(region, record, task),
            };
            (!right).then(|| {
                let wait = task.wait.as_ref().map(|wait| wait.detail.clone()).unwrap_or_default();
                format!("{} in region {region} is {} and not as wanted: {wait}", task.task, task.state)
            })
        })
    }

    /// Services of which nothing waits for room or quota: nothing of them has a reason to move.
    pub(crate) fn at_rest(&self) -> BTreeSet<JobId> {
        let mut all: BTreeSet<JobId> = BTreeSet::new();
        let mut short: BTreeSet<JobId> = BTreeSet::new();
        for (region, sim) in (0..).zip(&self.regions) {
            let Some(lead) = self.leader(region).and_then(|at| self.node(at).lead.as_ref()) else { continue };
            for ((shard, job), record) in &sim.store.jobs {
                if record.slice.spec.kind == JobKind::Service {
                    all.insert(job.clone());
                }
                let machine = lead.shards.get(usize::from(*shard)).and_then(Cell::running);
                let views = machine.map(|machine| machine.task_views(job)).unwrap_or_default();
                if views.iter().any(|task| self.waits_rightly(region, record, task)) {
                    short.insert(job.clone());
                }
            }
        }
        all.difference(&short).cloned().collect()
    }

    /// Whether a task's container really runs, from the newest template, and answers.
    fn runs_as_wanted(&self, region: u8, record: &JobRecord, task: &TaskView) -> bool {
        let Some(current) = &task.current else { return false };
        let Some(host) = crate::names::host_number(&current.host) else { return false };
        let host = self.host(HostAt { region, host });
        let Some(real) = host.real.get(&current.container).filter(|real| real.is_running()) else { return false };
        let says = matches!(current.phase, Some(ContainerPhase::Running { ready: true, .. }));
        let well = real.spec.health.is_none() || real.well_from <= self.now;
        says && well && (record.slice.spec.kind == JobKind::Batch || is_of(real, record)) && !host.lost
    }

    /// Whether a task waits for room that there is not, or for quota that its account has not.
    fn waits_rightly(&self, region: u8, record: &JobRecord, task: &TaskView) -> bool {
        let spec = &record.slice.spec;
        let books = &self.oracles.books[usize::from(region)];
        let above = |account: &str| {
            let own = spec.id.account.as_str();
            own == account || (own.starts_with(account) && own[account.len()..].starts_with('/'))
        };
        let over_quota = self.region(region).store.allotments.values().any(|allotment| {
            let used = books.accounts.get(&allotment.account).copied().unwrap_or_default();
            let more = Amounts { cpu: spec.resources.cpu, memory: spec.resources.memory, tasks: 1 };
            above(allotment.account.as_str()) && !used.plus(more).within(allotment.limit)
        });
        let waits = task.wait.is_some() && (task.report.is_some() || task.state == TaskState::Pending);
        waits && (over_quota || !self.has_room(region, record, &spec.resources))
    }

    /// Whether a live host has room for one more task.
    fn has_room(&self, region: u8, record: &JobRecord, task: &Resources) -> bool {
        let books = &self.oracles.books[usize::from(region)];
        (0..).zip(&self.region(region).hosts).any(|(number, host)| {
            let (cpu, memory, _) = books.on_host(number);
            let capacity = host.info.capacity;
            let fits = cpu + u64::from(task.cpu.centi_cores()) <= u64::from(capacity.cpu.centi_cores())
                && memory + task.memory.get() <= capacity.memory.get();
            let of_job =
                books.placed.iter().filter(|(id, placed)| placed.host == number && id.task.job == *record.id());
            let most = record.slice.spec.spread.max_per_host.map_or(usize::MAX, |most| most as usize);
            !host.lost && fits && of_job.count() < most
        })
    }

    /// Whether something of a job may still run on a host that is lost.
    fn is_on_lost_host(&self, job: &JobId) -> bool {
        (0_u8..).zip(&self.oracles.books).any(|(region, books)| {
            let mut of_job = books.placed.iter().filter(|(id, _)| id.task.job == *job);
            of_job.any(|(_, placed)| self.host(HostAt { region, host: placed.host }).lost)
        })
    }

    /// Whether a slot waits for others that left a region with it and may still run on a host that is lost: nobody may
    /// take them for gone, and a region lets go of all of them or none.
    fn is_stuck(&self, record: &IntentRecord, slot: u32) -> bool {
        (0_u8..).zip(&self.regions).any(|(region, sim)| {
            let Some(share) = record.regions.get(&sim.id) else { return false };
            let mut placed = self.oracles.books[usize::from(region)].placed.iter();
            share.leaving.contains(slot)
                && placed.any(|(id, placed)| {
                    let lost = self.host(HostAt { region, host: placed.host }).lost;
                    id.task.job == record.spec.id && share.leaving.contains(id.task.index) && lost
                })
        })
    }

    fn unsettled_intent(&self, record: &IntentRecord) -> Option<String> {
        let job = &record.spec.id;
        if record.deleting {
            let lost = self.is_on_lost_host(job);
            // Nobody may take for gone what may still run on a host that is lost.
            return (!lost).then(|| format!("{job} is still being deleted"));
        }
        record.regions.iter().find_map(|(id, share)| {
            let stuck = |slot: u32| self.is_stuck(record, slot);
            let lacks = share.target.iter().any(|slot| !share.slots.contains(slot) && !stuck(slot));
            if lacks || share.leaving.iter().any(|slot| !stuck(slot)) {
                return Some(format!("{job} still moves: {id} has {share:?}"));
            }
            if share.version.0 == 0 {
                return None;
            }
            let region = self.regions.iter().find(|region| region.id == *id)?;
            let shard = ShardId::of(job, region.shards).0;
            let held = region.store.jobs.get(&(shard, job.clone())).map(|held| &held.slice);
            let same = held.is_some_and(|held| {
                // A region that has nothing of a job any more need not know how it goes on.
                let nothing = share.slots.count() == 0;
                held.version == share.version
                    && held.slots == share.slots
                    && (nothing || (held.stopped == record.stopped && held.spec == record.spec))
            });
            (!same).then(|| {
                let has = held.map(|held| (held.version, &held.slots, held.stopped, held.spec == record.spec));
                format!(
                    "{id} does not have the newest slice of {job}, version {} of {:?}, stopped {}: it has {has:?}",
                    share.version, share.slots, record.stopped
                )
            })
        })
    }
}

fn is_of(real: &Real, record: &JobRecord) -> bool {
    let template = Template::of(&record.slice.spec);
    let spec = &real.spec;
    spec.image == template.image
        && spec.env == template.process.env
        && spec.cpu == template.resources.cpu
        && spec.memory == template.resources.memory
}
