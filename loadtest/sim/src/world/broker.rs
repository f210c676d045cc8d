//! The surroundings of a broker.

use super::{
    World,
    driver::{Part, Step},
};
use crate::{
    cell::Cell,
    happening::Process,
    names::{ActorId, BrokerAt},
    store::{Seat, Write},
};
use polder_core::broker::{Broker, Config, Delta, Effect, Event};
use polder_types::Timestamp;

impl World {
    /// The epoch that a node took a seat with.
    pub(crate) fn epoch_of(&self, node: crate::names::NodeAt, seat: Seat) -> u64 {
        let lead = self.node(node).lead.as_ref();
        lead.and_then(|lead| lead.epochs.get(&seat)).copied().unwrap_or_default()
    }
}

impl Part for BrokerAt {
    type Machine = Broker;

    fn id(self) -> ActorId {
        ActorId::Broker(self)
    }

    fn cell(self, world: &mut World) -> Option<&mut Cell<Broker>> {
        world.node_mut(self.node).lead.as_mut()?.brokers.get_mut(usize::from(self.datacenter))
    }

    fn clock(self, world: &World) -> Timestamp {
        world.clock(Process::Node(self.node))
    }

    fn execute(self, world: &mut World, effect: Effect) {
        match effect {
            Effect::Host(notice) => world.spread_host_notice(self.node, &notice),
            Effect::Order { host, order } => world.order(self.node, &host, order),
            Effect::LinkReply { reply, result } => world.link_replied(self.node, reply, &result),
            Effect::Reply { reply, result } => world.broker_replied(self, reply, &result),
            Effect::Notice(_) => {}
        }
    }

    fn commit(self, world: &mut World, life: u32, steps: Vec<Vec<Delta>>) {
        let seat = Seat::Broker(self.datacenter);
        let writes = steps.into_iter().flatten().map(|Delta::PutHost(record)| Write::Host(record)).collect();
        let epoch = world.epoch_of(self.node, seat);
        world.send_commit(self.id(), life, Process::Node(self.node), (seat, epoch), writes, Vec::new());
    }

    fn read(self, world: &mut World, life: u32, stage: u16) {
        let seat = Seat::Broker(self.datacenter);
        if stage == 0 {
            if world.take_seat(self.node, self.id(), life, seat).is_some() {
                world.read_on(Process::Node(self.node), self.id(), life, 1);
            }
            return;
        }
        let now = self.clock(world);
        let region = world.region(self.node.region);
        let datacenter = region.datacenters[usize::from(self.datacenter)].clone();
        let of_datacenter = region.store.hosts.values().filter(|host| host.info.datacenter == datacenter);
        let hosts = of_datacenter.cloned().collect();
        let (machine, effects) = Broker::restore(Config::new(datacenter), hosts, now);
        world.broker_restored(self);
        world.restored(self, machine, effects);
    }

    fn watch(self, world: &mut World, step: &mut Step<Broker>) {
        for Delta::PutHost(record) in &step.persist {
            if record.drains.0 > 0 {
                world.see_drain_begun(self.node.region, &record.info.id);
            }
        }
        crate::plant::spoil_broker(world, step);
    }

    fn let_in(self, world: &mut World, event: Event) -> Option<Event> {
        world.see_heard(self, &event);
        Some(event)
    }
}
