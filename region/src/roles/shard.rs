//! The surroundings of a job shard.

use crate::{brokers::Listener, keys, outbox::Outbox, region::Region};
use polder_core::{
    allocator,
    job_shard::{Config, Delta, Effect, Event, JobShard},
    machine::{Effects, Machine as _},
    message::{Notice, PlacementNote},
};
use polder_node::{OwnerJournal, Seat, Write, read_all, value};
use polder_shell::{ActorKind, Journal, Panic, RestoreError, Restoring, Role};
use polder_store::owner::OwnerKey;
use polder_types::{JobId, ShardId, Timestamp};
use std::sync::Arc;

/// A job shard's surroundings.
pub(crate) struct ShardRole {
    region: Arc<Region>,
    seat: Arc<Seat>,
    shard: ShardId,
    to_allocator: Option<Outbox<allocator::Event>>,
    journal: Arc<OwnerJournal<Delta>>,
}

impl ShardRole {
    pub(crate) fn new(region: Arc<Region>, seat: Arc<Seat>, shard: ShardId) -> Self {
        let journal = Arc::new(OwnerJournal::new(Arc::clone(&region.store), move |delta| encode(shard, delta)));
        Self { region, seat, shard, to_allocator: None, journal }
    }

    fn tell_allocator(&mut self, note: PlacementNote) {
        if self.to_allocator.is_none() {
            let Some(actors) = self.region.actors() else { return };
            self.to_allocator = Some(Outbox::start(actors.allocator.port().clone()));
        }
        if let Some(outbox) = &self.to_allocator {
            outbox.say(allocator::Event::Note(note));
        }
    }
}

fn encode(shard: ShardId, delta: Delta) -> Result<Write, String> {
    Ok(match delta {
        Delta::FenceAllocator(epoch) => Write::Fence { actor: OwnerKey::allocator(), epoch },
        Delta::PutJob(record) => Write::Put { key: keys::job(shard, record.id()), value: value(&*record)? },
        Delta::PutChunk(chunk) => {
            let value = value(&chunk)?;
            Write::Put { key: keys::chunk(shard, &chunk.job, chunk.number), value }
        }
        Delta::DeleteChunk { job, number } => Write::Delete { key: keys::chunk(shard, &job, number) },
        Delta::DeleteJob(job) => Write::Delete { key: keys::job(shard, &job) },
    })
}

impl Role for ShardRole {
    const KIND: ActorKind = ActorKind::JobShard;

    type Machine = JobShard;
    type Key = JobId;

    async fn restore(
        &mut self,
        restoring: Restoring<'_, JobId>,
    ) -> Result<(JobShard, Effects<JobShard>), RestoreError> {
        let owned = self.seat.take(&OwnerKey::shard(self.shard)).await?;
        let store = &self.region.store;
        let jobs = read_all(&**store, &keys::jobs(self.shard)).await?;
        let chunks = read_all(&**store, &keys::tasks(self.shard)).await?;
        let config = Config { shard: self.shard, owner: owned.epoch(), shards: self.region.config.shards };
        self.journal.own(owned);
        let (mut machine, mut effects) = JobShard::restore(config, jobs, chunks, restoring.now);
        // What brokers have said before is said again, now that somebody listens.
        self.region.brokers.missed(Listener::Shard(self.shard));
        // Before anything else is done for them: the next step of such a job may fail again.
        for job in restoring.quarantined {
            let reason = format!("a step for it failed again and again; last: {}", restoring.reason);
            let aside = machine.step(restoring.now, Event::Quarantine { job: job.clone(), reason });
            effects.extend(aside);
        }
        Ok((machine, effects))
    }

    fn journal(&self) -> Arc<dyn Journal<Delta>> {
        Arc::clone(&self.journal) as Arc<dyn Journal<Delta>>
    }

    fn execute(&mut self, now: Timestamp, effect: Effect) {
        match effect {
            Effect::Allocator(note) => {
                self.region.meter.noted(now, &note);
                self.tell_allocator(note);
            }
            Effect::Order { host, order } => self.region.order(&host, order),
            Effect::AskInventory { host } => self.region.tell_inventory(self.shard, &host),
            Effect::Reply { reply, result } => self.region.shard_replies.answer(reply, result),
            Effect::Notice(notice) => self.region.notice(notice),
            Effect::SliceChanged(job) => self.region.slice_changed(job),
        }
    }

    fn culprit(&self, event: &Event) -> Option<JobId> {
        match event {
            Event::Apply { slice, .. } => Some(slice.spec.id.clone()),
            Event::Stop { job, .. } | Event::Delete { job, .. } => Some(job.clone()),
            Event::HostRefused { container, .. } | Event::HostPrepared { container, .. } => {
                Some(container.task.job.clone())
            }
            Event::HostReported { statuses, .. } => match statuses.as_slice() {
                [one] => Some(one.id.task.job.clone()),
                _ => None,
            },
            Event::Placement(_) | Event::HostListed { .. } | Event::HostNotice(_) | Event::Quarantine { .. } => None,
        }
    }

    fn quarantine(&mut self, job: &JobId) {
        self.region.notice(Notice {
            kind: "job_quarantined",
            subject: job.to_string(),
            message: format!(
                "handling job {job} failed again and again, so it is set aside; its containers go on running; this is a defect of Polder: keep the log and report it"
            ),
        });
    }

    fn quarantined(&mut self, job: &JobId, event: Event) -> Option<Event> {
        match event {
            // A person's word ends the quarantine: it may well mend what was wrong.
            Event::Apply { .. } | Event::Stop { .. } | Event::Delete { .. } => Some(event),
            _ => {
                tracing::debug!(%job, "left an event of a job in quarantine alone");
                None
            }
        }
    }

    fn poisoned(&mut self, blame: Option<&JobId>, panic: &Panic) {
        self.region.step_failed(&OwnerKey::shard(self.shard), blame, panic);
    }
}
