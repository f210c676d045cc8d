//! What a region's node answers: slices and allotments of the federation, lists, changes, and people's orders about hosts.

use super::{World, region::Waiting};
use crate::{
    cell::Cell,
    happening::{AllotmentPut, Ask, Happening, Order, Process, Tell},
    names::{AllocatorAt, BrokerAt, FedAt, NodeAt, ShardAt},
    plan::Fault,
    store::{Holder, Seat},
};
use polder_core::{
    allocator::{self, Allocator},
    broker,
    job_shard::{self, Applied, JobShard, Origin},
    message::{ReplyId, SliceStatus},
};
use polder_types::{Allotment, JobId, ShardId, Timestamp};
use std::collections::VecDeque;

/// How long the allocator may take to take an allotment.
const ALLOTMENT_TIMEOUT: u64 = 10_000;
/// How often is looked whether it has.
const ALLOTMENT_PAUSE: u64 = 20;
/// How often storing one is tried.
const ALLOTMENT_TRIES_MAX: u32 = 3;

/// Somebody who watches how slices do.
#[derive(Debug)]
pub(crate) struct Watcher {
    pub(crate) from: FedAt,
    pub(crate) life: u32,
    pub(crate) number: u32,
    changed: VecDeque<JobId>,
    last: u64,
}

impl World {
    pub(crate) fn new_reply(&mut self, node: NodeAt, waiting: Waiting) -> ReplyId {
        let Some(lead) = &mut self.node_mut(node).lead else { return ReplyId(0) };
        lead.next_reply += 1;
        lead.replies.insert(lead.next_reply, waiting);
        ReplyId(lead.next_reply)
    }

    /// A request of the federation is at a node.
    pub(crate) fn asked(&mut self, node: NodeAt, from: FedAt, life: u32, number: u32, ask: Ask) {
        let leads = self.node(node).lead.is_some();
        if !leads {
            return match ask {
                // It is tried again anyway.
                Ask::Slice(_) | Ask::Drop(..) | Ask::Allotment(_) => {}
                _ => self.tell_federation(node, from, life, number, Tell::Failed),
            };
        }
        match ask {
            Ask::Slice(slice) => {
                let (job, version) = (slice.spec.id.clone(), slice.version);
                let shard = slice.shard(self.region(node.region).shards).0;
                let reply = self.new_reply(node, Waiting::Federation { from, life, number, job, version });
                let event = job_shard::Event::Apply { reply, slice, origin: Origin::Federation };
                self.deliver(ShardAt { node, shard }, event);
            }
            Ask::Drop(job, version) => {
                let shard = ShardId::of(&job, self.region(node.region).shards).0;
                let lead = self.node(node).lead.as_ref();
                // One that can't be read now is asked again.
                let Some(machine) = lead.and_then(|lead| lead.shards[usize::from(shard)].running()) else { return };
                let held = machine.job_record(&job).map(|record| record.slice.version);
                if let Some(held) = held.filter(|held| *held > version) {
                    let problem = Some(format!("version {held} is here, newer than {version}"));
                    let tell = Tell::Dropped { job, asked: version, problem };
                    return self.tell_federation(node, from, life, number, tell);
                }
                let reply = self.new_reply(node, Waiting::Drop { from, life, number, job: job.clone(), version });
                let event = job_shard::Event::Delete { reply, job, origin: Origin::Federation };
                self.deliver(ShardAt { node, shard }, event);
            }
            Ask::Allotment(allotment) => {
                let give_up_at = self.now + ALLOTMENT_TIMEOUT;
                let put = AllotmentPut { from, from_life: life, allotment, tries: 0, give_up_at };
                self.store_allotment(node, Box::new(put));
            }
            Ask::List => {
                let tell = self.list(node).map_or(Tell::Failed, Tell::List);
                self.tell_federation(node, from, life, number, tell);
            }
            Ask::Quotas => {
                let lead = self.node(node).lead.as_ref();
                let used = lead.and_then(|lead| lead.allocator.running()).map(Allocator::account_usages);
                let with_limit = |used: Vec<allocator::AccountView>| {
                    used.into_iter().filter(|view| view.limit.is_some()).map(|view| (view.account, view.used)).collect()
                };
                let tell = used.map_or(Tell::Failed, |used| Tell::Quotas(with_limit(used)));
                self.tell_federation(node, from, life, number, tell);
            }
            Ask::Watch => {
                let statuses = self.list(node);
                let Some(lead) = &mut self.node_mut(node).lead else { return };
                lead.watchers.retain(|watcher| watcher.from != from);
                let Some(statuses) = statuses else {
                    return self.tell_federation(node, from, life, number, Tell::WatchEnded);
                };
                lead.watchers.push(Watcher { from, life, number, changed: VecDeque::new(), last: 0 });
                self.tell_watcher(node, from, Tell::Changes(statuses));
            }
        }
    }

    /// How every slice does; none while some shard can't be read.
    fn list(&self, node: NodeAt) -> Option<Vec<(SliceStatus, Timestamp)>> {
        let now = self.clock(Process::Node(node));
        let lead = self.node(node).lead.as_ref()?;
        let shards = lead.shards.iter().map(Cell::running).collect::<Option<Vec<&JobShard>>>()?;
        let statuses = shards.into_iter().flat_map(|shard| shard.job_ids().filter_map(|job| shard.slice_status(job)));
        Some(statuses.map(|status| (status, now)).collect())
    }

    fn tell_federation(&mut self, node: NodeAt, to: FedAt, life: u32, number: u32, tell: Tell) {
        let at = self.now + self.wide_delay();
        if matches!(tell, Tell::Slice { .. } | Tell::Dropped { .. } | Tell::Allotment(_))
            && self.strikes(Fault::RequestRepeated)
        {
            return;
        }
        self.queue.push(at, Happening::Tell(to, life, node.region, number, Box::new(tell)));
    }

    /// A stream keeps its order.
    fn tell_watcher(&mut self, node: NodeAt, to: FedAt, tell: Tell) {
        let at = self.now + self.wide_delay();
        let Some(lead) = &mut self.node_mut(node).lead else { return };
        let Some(watcher) = lead.watchers.iter_mut().find(|watcher| watcher.from == to) else { return };
        watcher.last = at.max(watcher.last);
        let (at, life, number) = (watcher.last, watcher.life, watcher.number);
        self.queue.push(at, Happening::Tell(to, life, node.region, number, Box::new(tell)));
    }

    /// A slice does differently: watchers are told.
    pub(crate) fn slice_changed(&mut self, node: NodeAt, job: JobId) {
        let (at, life) = (self.now + self.local_delay(), self.node(node).process.life);
        let Some(lead) = &mut self.node_mut(node).lead else { return };
        let mut due = Vec::new();
        for watcher in &mut lead.watchers {
            if watcher.changed.is_empty() {
                due.push(watcher.from);
            }
            // Several changes at once are one thing to tell.
            if !watcher.changed.contains(&job) {
                watcher.changed.push_back(job.clone());
            }
        }
        for to in due {
            self.queue.push(at, Happening::Changes(node, life, to));
        }
    }

    pub(crate) fn tell_changes(&mut self, node: NodeAt, to: FedAt) {
        let now = self.clock(Process::Node(node));
        let shards = self.region(node.region).shards;
        let Some(lead) = &mut self.node_mut(node).lead else { return };
        let Some(watcher) = lead.watchers.iter_mut().find(|watcher| watcher.from == to) else { return };
        let changed = std::mem::take(&mut watcher.changed);
        let mut statuses = Vec::new();
        for job in changed {
            let shard = usize::from(ShardId::of(&job, shards).0);
            match lead.shards.get(shard).and_then(Cell::running) {
                Some(shard) => statuses.extend(shard.slice_status(&job).map(|status| (status, now))),
                None => {
                    // It can't be read now: the watcher has to begin anew.
                    self.tell_watcher(node, to, Tell::WatchEnded);
                    if let Some(lead) = &mut self.node_mut(node).lead {
                        lead.watchers.retain(|watcher| watcher.from != to);
                    }
                    return;
                }
            }
        }
        if !statuses.is_empty() {
            self.tell_watcher(node, to, Tell::Changes(statuses));
        }
    }

    /// A shard answers whoever asked.
    pub(crate) fn shard_replied(
        &mut self,
        shard: ShardAt,
        reply: ReplyId,
        result: Result<Applied, job_shard::Refused>,
    ) {
        let Some(lead) = &mut self.node_mut(shard.node).lead else { return };
        let Some(waiting) = lead.replies.remove(&reply.0) else { return };
        match waiting {
            Waiting::Drop { from, life, number, job, version } => {
                // It has nothing of the federation's: it has forgotten it already, or never took it.
                let none = job_shard::Refused::WrongOrigin { owner: Origin::Local };
                let problem = match result {
                    Ok(_) | Err(job_shard::Refused::UnknownJob) => None,
                    Err(why) if why == none => None,
                    Err(why) => Some(why.to_string()),
                };
                let tell = Tell::Dropped { job, asked: version, problem };
                self.tell_federation(shard.node, from, life, number, tell);
            }
            Waiting::Federation { from, life, number, job, version } => {
                let running = lead.shards.get(usize::from(shard.shard)).and_then(Cell::running);
                let in_force = running.and_then(|shard| shard.slice_status(&job)).map(|status| status.version);
                let status = match result {
                    Ok(_) => match in_force {
                        Some(version) => Ok(version),
                        None => return,
                    },
                    Err(why) => Err(why.to_string()),
                };
                let tell = Tell::Slice { job, asked: version, status };
                self.tell_federation(shard.node, from, life, number, tell);
            }
            Waiting::Person(_) => {}
        }
    }

    /// A broker answers a person.
    pub(crate) fn broker_replied(
        &mut self,
        at: BrokerAt,
        reply: ReplyId,
        result: &Result<broker::Done, broker::Refused>,
    ) {
        let Some(lead) = &mut self.node_mut(at.node).lead else { return };
        let Some(Waiting::Person(order)) = lead.replies.remove(&reply.0) else { return };
        if let Ok(done) = result {
            self.see_told_about_host(at.node.region, &order, done);
        }
    }

    /// A person's order about a host is at the region's node.
    pub(crate) fn order_about_host(&mut self, node: NodeAt, order: Order) {
        let (Order::Cordon(at) | Order::Uncordon(at) | Order::Drain(at, _) | Order::Abort(at)) = order else { return };
        let deadline = match order {
            Order::Drain(_, within) => Timestamp(self.clock(Process::Node(node)).0 + within),
            _ => Timestamp(0),
        };
        let (host, broker) = (self.host(at).id.clone(), self.broker_of(node, at));
        let reply = self.new_reply(node, Waiting::Person(order.clone()));
        let (by, reason) = ("somebody".to_owned(), "a seed".to_owned());
        self.deliver(
            broker,
            match order {
                Order::Uncordon(_) => broker::Event::Uncordon { reply, host },
                Order::Drain(..) => broker::Event::Drain { reply, host, deadline, by, reason },
                Order::Abort(_) => broker::Event::AbortDrain { reply, host },
                _ => broker::Event::Cordon { reply, host, by, reason },
            },
        );
    }

    // ---- allotments: durable, then known to the allocator, then agreed to ----

    fn store_allotment(&mut self, node: NodeAt, put: Box<AllotmentPut>) {
        let process = Process::Node(node);
        if self.proc(process).store_cut.is_some() {
            return;
        }
        let (at, life) = (self.reaches_store(process), self.node(node).process.life);
        self.queue.push(at, Happening::AllotmentStore(node, life, put));
    }

    pub(crate) fn allotment_stored(&mut self, node: NodeAt, mut put: Box<AllotmentPut>) {
        let process = Process::Node(node);
        let holder = Holder { process, life: self.proc(process).life };
        // A node that was deposed must not agree to anything.
        let epoch = self.epoch_of(node, Seat::Allocator);
        let store = &mut self.region_mut(node.region).store;
        if !store.admits(Seat::Allocator, epoch, holder, &[]) {
            put.tries += 1;
            if put.tries < ALLOTMENT_TRIES_MAX {
                self.store_allotment(node, put);
            }
            return;
        }
        let held = store.allotments.get(&put.allotment.account);
        match held.filter(|held| held.version >= put.allotment.version) {
            Some(held) => put.allotment = held.clone(),
            None => self.see_allotment(node.region, put.allotment.clone()),
        }
        let event = allocator::Event::AllotmentChanged(put.allotment.clone());
        self.deliver(AllocatorAt(node), event);
        self.allotment_known(node, put);
    }

    /// Answers the federation once nothing is admitted beyond the allotment any more.
    pub(crate) fn allotment_known(&mut self, node: NodeAt, put: Box<AllotmentPut>) {
        let lead = self.node(node).lead.as_ref();
        let allocator = lead.and_then(|lead| lead.allocator.running());
        let known = allocator.and_then(|allocator| allocator.allotment(&put.allotment.account));
        if known.is_some_and(|known: &Allotment| known.version >= put.allotment.version) {
            let (from, life) = (put.from, put.from_life);
            return self.tell_federation(node, from, life, 0, Tell::Allotment(put.allotment));
        }
        if put.give_up_at > self.now {
            let life = self.node(node).process.life;
            self.queue.push(self.now + ALLOTMENT_PAUSE, Happening::AllotmentKnown(node, life, put));
        }
    }

    /// A node stops leading with its process.
    pub(crate) fn node_ends(&mut self, at: NodeAt) {
        let Some(lead) = self.node_mut(at).lead.take() else { return };
        let links = lead.links.iter().map(|(host, link)| (*host, link.session)).collect();
        // Now and then the whole machine is gone, and nobody closes anything.
        if self.dice.faults.chance(700) {
            self.close_all_links(at, links);
        } else {
            self.vanish(at, links);
        }
    }
}
