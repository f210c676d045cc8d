//! A shard from its durable state. It starts and stops nothing by itself: hosts say what runs, and then what differs
//! from the records is put right.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use polder_types::{HostId, Timestamp};

use super::{
    JobShard,
    event::{Config, Effect},
    shard::{Job, Task},
    state::{JobRecord, TaskChunk},
    turn::Turn,
};
use crate::{machine::Effects, message::PlacementNote};

impl JobShard {
    /// Restores a shard from its durable state, and says what is to be done first: the allocator is told what the
    /// records charge, hosts are asked what they run, and room is asked for what has none.
    pub fn restore(
        config: Config,
        jobs: Vec<JobRecord>,
        chunks: Vec<TaskChunk>,
        now: Timestamp,
    ) -> (Self, Effects<Self>) {
        let mut shard = Self {
            config,
            allocator: None,
            jobs: jobs.into_iter().map(|record| (record.id().clone(), Job::new(record))).collect(),
            orphans: Vec::new(),
            hosts: BTreeMap::new(),
            by_host: BTreeMap::new(),
            asks: BTreeMap::new(),
            requests_made: 0,
            due: BTreeSet::new(),
            strangers: BTreeSet::new(),
        };
        let mut turn = Turn::new(now);
        for chunk in chunks {
            shard.take_chunk(chunk);
        }
        let ids: Vec<_> = shard.jobs.keys().cloned().collect();
        for id in &ids {
            if let Some(job) = shard.jobs.get_mut(id) {
                job.fill_slots();
            }
            shard.touch_all(&mut turn, id);
        }
        for orphan in &shard.orphans {
            let message = alloc::format!(
                "{} of its tasks are stored, but the job is not: they stay charged, and nothing is done about them",
                orphan.tasks.len()
            );
            turn.notice("job_record_missing", &orphan.job, message);
        }
        let hosts: Vec<HostId> = shard.by_host.keys().cloned().collect();
        for host in &hosts {
            shard.ask_host(&mut turn, host);
        }
        // What the records say as they are stored: what this step changes follows behind.
        let charges = shard.charges().collect();
        let restored = PlacementNote::Restored { shard: config.shard, owner: config.owner, charges };
        shard.settle(&mut turn);
        let mut effects = Effects::none();
        effects.now(Effect::Allocator(restored));
        let rest = turn.finish(&mut shard);
        effects.extend(rest);
        (shard, effects)
    }

    fn take_chunk(&mut self, chunk: TaskChunk) {
        let Some(job) = self.jobs.get_mut(&chunk.job) else {
            self.orphans.push(chunk);
            return;
        };
        job.chunks.insert(chunk.number);
        for record in chunk.tasks {
            for placement in record.placements() {
                let key = (chunk.job.clone(), record.index);
                self.by_host.entry(placement.host.clone()).or_default().insert(key);
            }
            job.tasks.insert(record.index, Task::new(record, false));
        }
    }
}
