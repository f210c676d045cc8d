//! The surroundings of the allocator.

use crate::{keys, outbox::Outbox, region::Region};
use futures::future::BoxFuture;
use polder_core::{
    allocator::{Allocator, Config, Delta, Effect, Event},
    job_shard::{self, TaskChunk},
    machine::Effects,
    message::PlacementAnswer,
};
use polder_node::{Seat, read_all};
use polder_shell::{Commit, Handle, Journal, RestoreError, Restoring, Role};
use polder_store::owner::OwnerKey;
use polder_types::{JobId, ShardId, Timestamp};
use std::{collections::BTreeMap, sync::Arc};

/// The allocator's surroundings.
pub(crate) struct AllocatorRole {
    region: Arc<Region>,
    seat: Arc<Seat>,
    handle: Handle<Allocator>,
    to_shards: BTreeMap<ShardId, Outbox<job_shard::Event>>,
}

impl AllocatorRole {
    pub(crate) fn new(region: Arc<Region>, seat: Arc<Seat>, handle: Handle<Allocator>) -> Self {
        Self { region, seat, handle, to_shards: BTreeMap::new() }
    }

    fn tell_shard(&mut self, shard: ShardId, answer: PlacementAnswer) {
        let Some(handle) = self.region.shard(shard) else { return };
        let outbox = self.to_shards.entry(shard).or_insert_with(|| Outbox::start(handle.port().clone()));
        outbox.say(job_shard::Event::Placement(answer));
    }
}

/// Nothing of the allocator is stored: what is charged is the fold of task records.
struct NoJournal;

impl Journal<Delta> for NoJournal {
    fn commit(&self, _steps: Vec<Vec<Delta>>) -> BoxFuture<'static, Commit> {
        Box::pin(async { Commit::Committed })
    }
}

impl Role for AllocatorRole {
    type Machine = Allocator;
    type Key = JobId;

    async fn restore(
        &mut self,
        restoring: Restoring<'_, JobId>,
    ) -> Result<(Allocator, Effects<Allocator>), RestoreError> {
        // The epoch is raised before the records are read: a grant of the allocator before can't land after this.
        let owned = self.seat.take(&OwnerKey::allocator()).await?;
        let mut charges = Vec::new();
        for shard in self.region.shard_ids() {
            let chunks: Vec<TaskChunk> = read_all(&*self.region.store, &keys::tasks(shard)).await?;
            for chunk in &chunks {
                let of_chunk = chunk.tasks.iter().flat_map(|task| task.charges(&chunk.job));
                charges.extend(of_chunk.map(|charge| (shard, charge)));
            }
        }
        let allotments = read_all(&*self.region.store, keys::ALLOTMENTS).await?;
        let restored = Allocator::restore(Config::new(owned.epoch()), charges, allotments, restoring.now);
        actix_web::rt::spawn(repeat_notices(Arc::clone(&self.region), self.handle.clone()));
        Ok(restored)
    }

    fn journal(&self) -> Arc<dyn Journal<Delta>> {
        Arc::new(NoJournal)
    }

    fn execute(&mut self, _now: Timestamp, effect: Effect) {
        match effect {
            Effect::Answer { shard, answer } => self.tell_shard(shard, answer),
            Effect::Broadcast(answer) => {
                for shard in self.region.shard_ids() {
                    self.tell_shard(shard, answer.clone());
                }
            }
            Effect::Notice(notice) => self.region.notice(notice),
        }
    }
}

async fn repeat_notices(region: Arc<Region>, allocator: Handle<Allocator>) {
    for broker in region.brokers.all() {
        let Ok(notices) = broker.query(|broker| broker.notices().collect::<Vec<_>>()).await else { continue };
        for notice in notices {
            if allocator.port().send(Event::Host(notice)).await.is_err() {
                return;
            }
        }
    }
}
