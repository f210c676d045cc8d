//! The surroundings of the intent router and the quota ledger.

use super::{
    World,
    driver::{Part, Step},
    follow::Follower,
};
use crate::{
    cell::Cell,
    happening::{Ask, Happening, Order, Process},
    names::{ActorId, FedAt, LedgerAt, RouterAt},
    store::{Holder, Seat, Write},
};
use polder_core::{
    intent_router::{self, IntentRouter},
    message::ReplyId,
    quota_ledger::{self, QuotaLedger},
};
use polder_types::Timestamp;
use std::collections::BTreeMap;

/// What a node keeps while it leads the federation.
#[derive(Debug)]
pub(crate) struct FedLead {
    pub(crate) router: Cell<IntentRouter>,
    pub(crate) ledger: Cell<QuotaLedger>,
    pub(crate) epochs: BTreeMap<Seat, u64>,
    pub(crate) followers: Vec<Follower>,
    pub(crate) replies: BTreeMap<u64, Order>,
    pub(crate) next_reply: u64,
}

impl FedLead {
    pub(crate) fn new(regions: usize) -> Self {
        Self {
            router: Cell::default(),
            ledger: Cell::default(),
            epochs: BTreeMap::new(),
            followers: (0..regions).map(|_| Follower::default()).collect(),
            replies: BTreeMap::new(),
            next_reply: 0,
        }
    }
}

impl World {
    pub(crate) fn fed_begins(&mut self, at: FedAt) {
        self.begin_restore(RouterAt(at));
        self.begin_restore(LedgerAt(at));
        let (now, life) = (self.now, self.fed(at).process.life);
        for region in (0..).take(self.regions.len()) {
            if let Some(lead) = &mut self.fed_mut(at).lead {
                lead.followers[usize::from(region)].heard_at = now;
            }
            self.queue.push(now, Happening::Look(at, life, region, 0));
        }
    }

    fn take_fed_seat(&mut self, at: FedAt, actor: ActorId, life: u32, seat: Seat) -> bool {
        let now = self.now;
        let process = Process::Federation(at);
        let holder = Holder { process, life: self.proc(process).life };
        let cut = self.proc(process).store_cut.is_some();
        let taken = if cut { None } else { self.federation.take(seat, holder, now) };
        let Some(epoch) = taken else {
            self.queue.push(now + 200, Happening::Reading(actor, life, 0));
            return false;
        };
        if let Some(lead) = &mut self.fed_mut(at).lead {
            lead.epochs.insert(seat, epoch);
        }
        true
    }

    fn fed_epoch(&self, at: FedAt, seat: Seat) -> u64 {
        self.fed(at).lead.as_ref().and_then(|lead| lead.epochs.get(&seat)).copied().unwrap_or_default()
    }

    /// A person's order is at the leading node of the federation.
    pub(crate) fn order_to_federation(&mut self, at: FedAt, order: Order) {
        let life = self.fed(at).process.life;
        let now = self.now;
        let Some(lead) = &mut self.fed_mut(at).lead else { return };
        lead.next_reply += 1;
        lead.replies.insert(lead.next_reply, order.clone());
        let reply = ReplyId(lead.next_reply);
        match order {
            Order::Apply(spec) => {
                let event = intent_router::Event::Apply { reply, spec };
                self.queue.push(now, Happening::ToRouter(at, life, Box::new(event)));
            }
            Order::Stop(job) => {
                let event = intent_router::Event::Stop { reply, job };
                self.queue.push(now, Happening::ToRouter(at, life, Box::new(event)));
            }
            Order::Delete(job) => {
                let event = intent_router::Event::Delete { reply, job };
                self.queue.push(now, Happening::ToRouter(at, life, Box::new(event)));
            }
            Order::Quota(account, limit) => {
                let event = quota_ledger::Event::Set { reply, account, limit, regions: None };
                self.queue.push(now, Happening::ToLedger(at, life, Box::new(event)));
            }
            Order::RemoveQuota(account) => {
                let event = quota_ledger::Event::Remove { reply, account };
                self.queue.push(now, Happening::ToLedger(at, life, Box::new(event)));
            }
            _ => {}
        }
    }

    fn fed_order(&mut self, at: FedAt, reply: ReplyId) -> Option<Order> {
        self.fed_mut(at).lead.as_mut()?.replies.remove(&reply.0)
    }
}

impl Part for RouterAt {
    type Machine = IntentRouter;

    fn id(self) -> ActorId {
        ActorId::Router(self)
    }

    fn cell(self, world: &mut World) -> Option<&mut Cell<IntentRouter>> {
        Some(&mut world.fed_mut(self.0).lead.as_mut()?.router)
    }

    fn clock(self, world: &World) -> Timestamp {
        world.clock(Process::Federation(self.0))
    }

    fn execute(self, world: &mut World, effect: intent_router::Effect) {
        match effect {
            intent_router::Effect::PutSlice { region, slice } => world.put(self.0, &region, Ask::Slice(slice)),
            intent_router::Effect::DropSlice { region, job, version } => {
                world.put(self.0, &region, Ask::Drop(job, version));
            }
            intent_router::Effect::Reply { reply, answer } => {
                if let Some(order) = world.fed_order(self.0, reply) {
                    world.see_told_about_job(&order, &answer);
                }
            }
            intent_router::Effect::Notice(_) => {}
        }
    }

    fn commit(self, world: &mut World, life: u32, steps: Vec<Vec<intent_router::Delta>>) {
        let write = |delta| match delta {
            intent_router::Delta::Put(record) => Write::Intent(record),
            intent_router::Delta::Delete(job) => Write::DeleteIntent(job),
        };
        let writes = steps.into_iter().flatten().map(write).collect();
        let epoch = world.fed_epoch(self.0, Seat::Intents);
        let process = Process::Federation(self.0);
        world.send_commit(self.id(), life, process, (Seat::Intents, epoch), writes, Vec::new());
    }

    fn read(self, world: &mut World, life: u32, stage: u16) {
        if stage == 0 {
            if world.take_fed_seat(self.0, self.id(), life, Seat::Intents) {
                world.read_on(Process::Federation(self.0), self.id(), life, 1);
            }
            return;
        }
        let now = self.clock(world);
        let (machine, effects) = IntentRouter::restore(world.federation.intents.values().cloned(), now);
        world.restored(self, machine, effects);
        for region in world.regions.iter().map(|region| region.id.clone()).collect::<Vec<_>>() {
            world.deliver(self, intent_router::Event::RegionKnown { region });
        }
        world.say_all_again(self.0);
    }

    fn watch(self, world: &mut World, step: &mut Step<IntentRouter>) {
        crate::plant::spoil_router(world, step);
    }
}

impl Part for LedgerAt {
    type Machine = QuotaLedger;

    fn id(self) -> ActorId {
        ActorId::Ledger(self)
    }

    fn cell(self, world: &mut World) -> Option<&mut Cell<QuotaLedger>> {
        Some(&mut world.fed_mut(self.0).lead.as_mut()?.ledger)
    }

    fn clock(self, world: &World) -> Timestamp {
        world.clock(Process::Federation(self.0))
    }

    fn execute(self, world: &mut World, effect: quota_ledger::Effect) {
        match effect {
            quota_ledger::Effect::PutAllotment { region, allotment } => {
                world.put(self.0, &region, Ask::Allotment(allotment));
            }
            quota_ledger::Effect::Reply { reply, answer } => {
                if let Some(order) = world.fed_order(self.0, reply) {
                    world.see_told_about_quota(&order, &answer);
                }
            }
            quota_ledger::Effect::Notice(_) => {}
        }
    }

    fn commit(self, world: &mut World, life: u32, steps: Vec<Vec<quota_ledger::Delta>>) {
        let writes = steps.into_iter().flatten().map(|quota_ledger::Delta::Put(record)| Write::Quota(record)).collect();
        let epoch = world.fed_epoch(self.0, Seat::Quotas);
        let process = Process::Federation(self.0);
        world.send_commit(self.id(), life, process, (Seat::Quotas, epoch), writes, Vec::new());
    }

    fn read(self, world: &mut World, life: u32, stage: u16) {
        if stage == 0 {
            if world.take_fed_seat(self.0, self.id(), life, Seat::Quotas) {
                world.read_on(Process::Federation(self.0), self.id(), life, 1);
            }
            return;
        }
        let now = self.clock(world);
        let (machine, effects) = QuotaLedger::restore(world.federation.quotas.values().cloned(), now);
        world.restored(self, machine, effects);
        for region in world.regions.iter().map(|region| region.id.clone()).collect::<Vec<_>>() {
            world.deliver(self, quota_ledger::Event::RegionKnown { region });
        }
        world.say_all_again(self.0);
    }

    fn watch(self, world: &mut World, step: &mut Step<QuotaLedger>) {
        crate::plant::spoil_ledger(world, step);
    }
}
