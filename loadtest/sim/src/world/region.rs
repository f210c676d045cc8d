//! A region's leading node: its allocator, and what its actors say to each other.

use super::{World, driver::Part, driver::Step, link::Link, requests::Watcher};
use crate::{
    cell::Cell,
    happening::{Happening, Process},
    names::{ActorId, AllocatorAt, BrokerAt, FedAt, NodeAt, ShardAt},
    oracle,
    plan::Fault,
    store::{Holder, Seat},
};
use polder_core::{
    allocator::{self, Allocator},
    broker::Broker,
    job_shard::{self, JobShard},
    message::{Charge, HostNotice, HostOrder, PlacementAnswer, PlacementNote},
};
use polder_types::{JobId, OwnerEpoch, ShardId, SliceVersion, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// How often is looked whether somebody missed what a broker said.
const REPEAT_TICK: u64 = 200;

/// Somebody who is told how hosts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Listener {
    Allocator,
    Shard(u16),
}

/// Who waits for a machine's answer.
#[derive(Clone, Debug)]
pub(crate) enum Waiting {
    /// The federation, for a slice.
    Federation { from: FedAt, life: u32, number: u32, job: JobId, version: SliceVersion },
    /// The federation, for a slice to be forgotten.
    Drop { from: FedAt, life: u32, number: u32, job: JobId, version: SliceVersion },
    /// A person.
    Person(crate::happening::Order),
}

/// What a node keeps while it leads a region.
#[derive(Debug)]
pub(crate) struct Lead {
    pub(crate) allocator: Cell<Allocator>,
    pub(crate) shards: Vec<Cell<JobShard>>,
    pub(crate) brokers: Vec<Cell<Broker>>,
    /// The epoch that it took each seat with.
    pub(crate) epochs: BTreeMap<Seat, u64>,
    pub(crate) links: BTreeMap<u32, Link>,
    pub(crate) missed: BTreeSet<Listener>,
    pub(crate) replies: BTreeMap<u64, Waiting>,
    pub(crate) next_reply: u64,
    /// Links whose hosts are to be let in, by what their brokers are asked.
    pub(crate) entering: BTreeMap<u64, (u32, u64)>,
    pub(crate) watchers: Vec<Watcher>,
    /// What an allocator that is being restored has read.
    charges: Vec<(ShardId, Charge)>,
    /// When the last thing that was said in each direction is there: what is said is heard in order.
    to_allocator: Vec<u64>,
    to_shards: Vec<u64>,
}

impl Lead {
    pub(crate) fn new(shards: u16, datacenters: usize) -> Self {
        Self {
            allocator: Cell::default(),
            shards: (0..shards).map(|_| Cell::default()).collect(),
            brokers: (0..datacenters).map(|_| Cell::default()).collect(),
            epochs: BTreeMap::new(),
            links: BTreeMap::new(),
            missed: BTreeSet::new(),
            replies: BTreeMap::new(),
            next_reply: 0,
            entering: BTreeMap::new(),
            watchers: Vec::new(),
            charges: Vec::new(),
            to_allocator: vec![0; usize::from(shards)],
            to_shards: vec![0; usize::from(shards)],
        }
    }
}

impl World {
    /// The actors of a node that has begun to lead are restored.
    pub(crate) fn lead_begins(&mut self, at: NodeAt) {
        self.begin_restore(AllocatorAt(at));
        for shard in 0..self.region(at.region).shards {
            self.begin_restore(ShardAt { node: at, shard });
        }
        let datacenters = self.region(at.region).datacenters.len();
        for datacenter in (0..).take(datacenters) {
            self.begin_restore(BrokerAt { node: at, datacenter });
        }
    }

    /// A node takes a seat for one of its actors. None when it could not: it is tried again.
    pub(crate) fn take_seat(&mut self, at: NodeAt, actor: ActorId, life: u32, seat: Seat) -> Option<OwnerEpoch> {
        let now = self.now;
        let process = Process::Node(at);
        let holder = Holder { process, life: self.proc(process).life };
        let cut = self.proc(process).store_cut.is_some();
        let store = &mut self.region_mut(at.region).store;
        let taken = if cut { None } else { store.take(seat, holder, now) };
        let Some(epoch) = taken else {
            self.queue.push(now + 200, Happening::Reading(actor, life, 0));
            return None;
        };
        if let Some(lead) = &mut self.node_mut(at).lead {
            lead.epochs.insert(seat, epoch);
        }
        Some(OwnerEpoch(epoch))
    }

    /// Goes on with a restore when the store has answered.
    pub(crate) fn read_on(&mut self, process: Process, actor: ActorId, life: u32, stage: u16) {
        let at = self.reaches_store(process) + self.store_delay();
        self.queue.push(at, Happening::Reading(actor, life, stage));
    }

    pub(crate) fn tell_allocator(&mut self, from: ShardAt, note: PlacementNote) {
        let at = self.now + self.local_delay();
        let life = self.node(from.node).process.life;
        let Some(lead) = &mut self.node_mut(from.node).lead else { return };
        let last = &mut lead.to_allocator[usize::from(from.shard)];
        *last = at.max(*last);
        let (at, event) = (*last, Box::new(allocator::Event::Note(note)));
        self.queue.push(at, Happening::ToAllocator(AllocatorAt(from.node), life, event));
    }

    fn tell_shard(&mut self, node: NodeAt, shard: ShardId, answer: PlacementAnswer) {
        let at = self.now + self.local_delay();
        let life = self.node(node).process.life;
        let Some(lead) = &mut self.node_mut(node).lead else { return };
        let Some(last) = lead.to_shards.get_mut(usize::from(shard.0)) else { return };
        *last = at.max(*last);
        let (at, event) = (*last, Box::new(job_shard::Event::Placement(answer)));
        self.queue.push(at, Happening::ToShard(ShardAt { node, shard: shard.0 }, life, event));
    }

    /// What a broker says of a host, to all whom it concerns.
    pub(crate) fn spread_host_notice(&mut self, node: NodeAt, notice: &HostNotice) {
        let shards = self.region(node.region).shards;
        let listeners = std::iter::once(Listener::Allocator).chain((0..shards).map(Listener::Shard));
        for listener in listeners {
            if self.strikes(Fault::MessageDropped) || !self.tell_listener(node, listener, notice.clone()) {
                self.missed(node, listener);
            }
        }
    }

    fn tell_listener(&mut self, node: NodeAt, listener: Listener, notice: HostNotice) -> bool {
        match listener {
            Listener::Allocator => self.try_deliver(AllocatorAt(node), allocator::Event::Host(notice)),
            Listener::Shard(shard) => self.try_deliver(ShardAt { node, shard }, job_shard::Event::HostNotice(notice)),
        }
    }

    /// Notes that all that brokers have said must be said to somebody again.
    pub(crate) fn missed(&mut self, node: NodeAt, listener: Listener) {
        let (now, life) = (self.now, self.node(node).process.life);
        let Some(lead) = &mut self.node_mut(node).lead else { return };
        if lead.missed.is_empty() {
            self.queue.push(now - now % REPEAT_TICK + REPEAT_TICK, Happening::Missed(node, life));
        }
        if let Some(lead) = &mut self.node_mut(node).lead {
            lead.missed.insert(listener);
        }
    }

    pub(crate) fn repeat_missed(&mut self, node: NodeAt) {
        let Some(lead) = &mut self.node_mut(node).lead else { return };
        for listener in std::mem::take(&mut lead.missed) {
            if !self.repeat_notices(node, listener) {
                self.missed(node, listener);
            }
        }
    }

    /// Each broker says to one listener how every host is. A broker that is being restored says everything itself.
    fn repeat_notices(&mut self, node: NodeAt, listener: Listener) -> bool {
        let Some(lead) = &self.node(node).lead else { return true };
        let notices: Vec<HostNotice> =
            lead.brokers.iter().filter_map(Cell::running).flat_map(Broker::notices).collect();
        notices.into_iter().all(|notice| self.tell_listener(node, listener, notice))
    }

    /// Sends an order to a host, or drops it: it is repeated.
    pub(crate) fn order(&mut self, node: NodeAt, host: &polder_types::HostId, order: HostOrder) {
        let Some(number) = crate::names::host_number(host) else { return };
        if self.strikes(Fault::MessageDropped) {
            return;
        }
        self.send_order(node, number, order);
    }
}

impl Part for AllocatorAt {
    type Machine = Allocator;

    fn id(self) -> ActorId {
        ActorId::Allocator(self)
    }

    fn cell(self, world: &mut World) -> Option<&mut Cell<Allocator>> {
        Some(&mut world.node_mut(self.0).lead.as_mut()?.allocator)
    }

    fn clock(self, world: &World) -> Timestamp {
        world.clock(Process::Node(self.0))
    }

    fn execute(self, world: &mut World, effect: allocator::Effect) {
        match effect {
            allocator::Effect::Answer { shard, answer } => world.tell_shard(self.0, shard, answer),
            allocator::Effect::Broadcast(answer) => {
                for shard in 0..world.region(self.0.region).shards {
                    world.tell_shard(self.0, ShardId(shard), answer.clone());
                }
            }
            allocator::Effect::Notice(_) => {}
        }
    }

    fn commit(self, _world: &mut World, _life: u32, _steps: Vec<Vec<allocator::Delta>>) {}

    /// Takes its seat, reads each shard's records, then the allotments, at different moments.
    fn read(self, world: &mut World, life: u32, stage: u16) {
        let process = Process::Node(self.0);
        let shards = world.region(self.0.region).shards;
        if stage == 0 {
            if world.take_seat(self.0, self.id(), life, Seat::Allocator).is_some() {
                if let Some(lead) = &mut world.node_mut(self.0).lead {
                    lead.charges.clear();
                }
                world.read_on(process, self.id(), life, 1);
            }
            return;
        }
        if world.proc(process).store_cut.is_some() {
            return world.queue.push(world.now + 500, Happening::Reading(self.id(), life, stage));
        }
        if stage <= shards {
            let shard = stage - 1;
            let store = &world.region(self.0.region).store;
            let chunks = store.chunks.iter().filter(|((of, ..), _)| *of == shard);
            let charges: Vec<(ShardId, Charge)> = chunks
                .flat_map(|(_, chunk)| chunk.tasks.iter().flat_map(|task| task.charges(&chunk.job)))
                .map(|charge| (ShardId(shard), charge))
                .collect();
            if let Some(lead) = &mut world.node_mut(self.0).lead {
                lead.charges.extend(charges);
            }
            return world.read_on(process, self.id(), life, stage + 1);
        }
        let allotments: Vec<_> = world.region(self.0.region).store.allotments.values().cloned().collect();
        let now = self.clock(world);
        let Some(lead) = &mut world.node_mut(self.0).lead else { return };
        let epoch = OwnerEpoch(lead.epochs.get(&Seat::Allocator).copied().unwrap_or_default());
        let charges = std::mem::take(&mut lead.charges);
        let (machine, effects) = Allocator::restore(allocator::Config::new(epoch), charges, allotments, now);
        world.missed(self.0, Listener::Allocator);
        world.restored(self, machine, effects);
    }

    fn watch(self, world: &mut World, step: &mut Step<Allocator>) {
        oracle::quota::watch_grants(world, self.0, step);
        crate::plant::spoil_allocator(world, step);
    }

    fn let_in(self, world: &mut World, event: allocator::Event) -> Option<allocator::Event> {
        oracle::quota::watch_request(world, self.0, &event);
        crate::plant::spoil_allocator_event(world, event)
    }
}
