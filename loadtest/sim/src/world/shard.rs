//! The surroundings of a job shard.

use super::{
    World,
    driver::{Part, Step},
    region::Listener,
};
use crate::{
    cell::Cell,
    happening::Process,
    names::{ActorId, ShardAt},
    store::{Seat, Write},
};
use polder_core::job_shard::{Config, Delta, Effect, Event, JobShard};
use polder_types::{OwnerEpoch, ShardId, Timestamp};

impl Part for ShardAt {
    type Machine = JobShard;

    fn id(self) -> ActorId {
        ActorId::Shard(self)
    }

    fn cell(self, world: &mut World) -> Option<&mut Cell<JobShard>> {
        world.node_mut(self.node).lead.as_mut()?.shards.get_mut(usize::from(self.shard))
    }

    fn clock(self, world: &World) -> Timestamp {
        world.clock(Process::Node(self.node))
    }

    fn execute(self, world: &mut World, effect: Effect) {
        match effect {
            Effect::Allocator(note) => world.tell_allocator(self, note),
            Effect::Order { host, order } => world.order(self.node, &host, order),
            Effect::AskInventory { host } => {
                if let Some(number) = crate::names::host_number(&host) {
                    world.owe(self.node, number, self.shard);
                }
            }
            Effect::Reply { reply, result } => world.shard_replied(self, reply, result),
            Effect::SliceChanged(job) => world.slice_changed(self.node, job),
            Effect::Notice(_) => {}
        }
    }

    fn commit(self, world: &mut World, life: u32, steps: Vec<Vec<Delta>>) {
        let seat = Seat::Shard(self.shard);
        let (mut writes, mut fences) = (Vec::new(), Vec::new());
        for delta in steps.into_iter().flatten() {
            match delta {
                Delta::FenceAllocator(epoch) => fences.push((Seat::Allocator, epoch.0)),
                Delta::PutJob(record) => writes.push(Write::Job(self.shard, record)),
                Delta::PutChunk(chunk) => writes.push(Write::Chunk(self.shard, chunk)),
                Delta::DeleteChunk { job, number } => writes.push(Write::DeleteChunk(self.shard, job, number)),
                Delta::DeleteJob(job) => writes.push(Write::DeleteJob(self.shard, job)),
            }
        }
        let epoch = world.epoch_of(self.node, seat);
        world.send_commit(self.id(), life, Process::Node(self.node), (seat, epoch), writes, fences);
    }

    fn read(self, world: &mut World, life: u32, stage: u16) {
        let seat = Seat::Shard(self.shard);
        if stage == 0 {
            if world.take_seat(self.node, self.id(), life, seat).is_some() {
                world.read_on(Process::Node(self.node), self.id(), life, 1);
            }
            return;
        }
        let now = self.clock(world);
        let owner = OwnerEpoch(world.epoch_of(self.node, seat));
        let region = world.region(self.node.region);
        let of_shard = |shard: &u16| *shard == self.shard;
        let jobs = region.store.jobs.iter().filter(|((shard, _), _)| of_shard(shard)).map(|(_, job)| job.clone());
        let chunks = region.store.chunks.iter().filter(|((shard, ..), _)| of_shard(shard));
        let (jobs, chunks) = (jobs.collect(), chunks.map(|(_, chunk)| chunk.clone()).collect());
        let config = Config { shard: ShardId(self.shard), owner, shards: region.shards };
        let (machine, effects) = JobShard::restore(config, jobs, chunks, now);
        world.missed(self.node, Listener::Shard(self.shard));
        world.restored(self, machine, effects);
    }

    fn watch(self, world: &mut World, step: &mut Step<JobShard>) {
        crate::plant::spoil_shard(world, step);
    }

    fn let_in(self, world: &mut World, event: Event) -> Option<Event> {
        Some(crate::plant::spoil_shard_event(world, event))
    }
}
