//! The surroundings of the allocator.

use crate::{brokers::Listener, keys, outbox::Outbox, region::Region};
use futures::future::BoxFuture;
use polder_core::{
    allocator::{Allocator, Config, Delta, Effect},
    job_shard::{self, TaskChunk},
    machine::Effects,
    message::PlacementAnswer,
};
use polder_node::{Seat, read_all};
use polder_shell::{ActorKind, Commit, Journal, Panic, RestoreError, Restoring, Role};
use polder_store::owner::OwnerKey;
use polder_types::{JobId, ShardId, Timestamp};
use std::{collections::BTreeMap, sync::Arc};

/// The allocator's surroundings.
pub(crate) struct AllocatorRole {
    region: Arc<Region>,
    seat: Arc<Seat>,
    to_shards: BTreeMap<ShardId, Outbox<job_shard::Event>>,
}

impl AllocatorRole {
    pub(crate) fn new(region: Arc<Region>, seat: Arc<Seat>) -> Self {
        Self { region, seat, to_shards: BTreeMap::new() }
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
    const KIND: ActorKind = ActorKind::Allocator;

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
        // What brokers have said before is said again, now that somebody listens.
        self.region.brokers.missed(Listener::Allocator);
        Ok(restored)
    }

    fn journal(&self) -> Arc<dyn Journal<Delta>> {
        Arc::new(NoJournal)
    }

    fn execute(&mut self, now: Timestamp, effect: Effect) {
        match effect {
            Effect::Answer { shard, answer } => {
                self.region.meter.answered(now, &answer);
                self.tell_shard(shard, answer);
            }
            Effect::Broadcast(answer) => {
                for shard in self.region.shard_ids() {
                    self.tell_shard(shard, answer.clone());
                }
            }
            Effect::Notice(notice) => self.region.notice(notice),
        }
    }

    fn poisoned(&mut self, blame: Option<&JobId>, panic: &Panic) {
        self.region.step_failed(&OwnerKey::allocator(), blame, panic);
    }
}
