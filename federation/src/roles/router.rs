//! The surroundings of the intent router.

use crate::{federation::Federation, keys};
use polder_core::{
    intent_router::{Answer, Delta, Effect, Event, IntentRecord, IntentRouter, Problem},
    message::Notice,
};
use polder_node::{OwnerJournal, Seat, Write, read_all, value};
use polder_shell::{ActorKind, Handle, Journal, Panic, RestoreError, Restored, Restoring, Role};
use polder_store::owner::OwnerKey;
use polder_types::{JobId, Timestamp};
use std::sync::Arc;

/// The intent router's surroundings.
pub(crate) struct RouterRole {
    federation: Arc<Federation>,
    seat: Arc<Seat>,
    handle: Handle<IntentRouter>,
    journal: Arc<OwnerJournal<Delta>>,
}

impl RouterRole {
    pub(crate) fn new(federation: Arc<Federation>, seat: Arc<Seat>, handle: Handle<IntentRouter>) -> Self {
        let journal = Arc::new(OwnerJournal::new(Arc::clone(&federation.store), encode));
        Self { federation, seat, handle, journal }
    }

    /// Who owns the intents.
    pub(crate) fn owner() -> OwnerKey {
        OwnerKey::new("federation/intents")
    }
}

fn encode(delta: Delta) -> Result<Write, String> {
    Ok(match delta {
        Delta::Put(record) => Write::Put { key: keys::intent(&record.spec.id), value: value(&*record)? },
        Delta::Delete(job) => Write::Delete { key: keys::intent(&job) },
    })
}

impl Role for RouterRole {
    const KIND: ActorKind = ActorKind::IntentRouter;

    type Machine = IntentRouter;
    type Key = JobId;

    async fn restore(&mut self, restoring: Restoring<'_, JobId>) -> Result<Restored<IntentRouter>, RestoreError> {
        let owned = self.seat.take(&Self::owner()).await?;
        let mut records: Vec<IntentRecord> = read_all(&*self.federation.store, keys::INTENTS).await?;
        records.retain(|record| !restoring.quarantined.contains(&record.spec.id));
        self.journal.own(owned);
        let restored = IntentRouter::restore(records, restoring.now);
        let port = self.handle.port().clone();
        for region in self.federation.links.keys().cloned() {
            let link = Arc::clone(&self.federation.links[&region]);
            // Its links say again all that the regions have, now that somebody new listens.
            let known = Event::RegionKnown { region };
            let port = port.clone();
            actix_web::rt::spawn(async move {
                if port.send(known).await.is_ok() {
                    link.say_all_again();
                }
            });
        }
        Ok(restored)
    }

    fn journal(&self) -> Arc<dyn Journal<Delta>> {
        Arc::clone(&self.journal) as Arc<dyn Journal<Delta>>
    }

    fn execute(&mut self, _now: Timestamp, effect: Effect) {
        match effect {
            Effect::PutSlice { region, slice } => self.federation.put_slice(&region, *slice),
            Effect::DropSlice { region, job, version } => self.federation.drop_slice(&region, job, version),
            Effect::Reply { reply, answer } => self.federation.intent_replies.answer(reply, answer),
            Effect::Notice(notice) => self.federation.notice(notice),
        }
    }

    fn culprit(&self, event: &Event) -> Option<JobId> {
        match event {
            Event::Apply { spec, .. } => Some(spec.id.clone()),
            Event::Stop { job, .. }
            | Event::Delete { job, .. }
            | Event::SliceAcked { job, .. }
            | Event::SliceDropped { job, .. }
            | Event::SliceRefused { job, .. } => Some(job.clone()),
            Event::RegionKnown { .. } | Event::RegionHeard { .. } | Event::RegionSilent { .. } => None,
        }
    }

    fn poisoned(&mut self, blame: Option<&JobId>, panic: &Panic) {
        self.federation.notice(Notice {
            kind: "step_failed",
            subject: blame.map_or_else(|| "the intent router".to_owned(), ToString::to_string),
            message: format!("a step failed and was undone: {panic}"),
        });
    }

    fn quarantine(&mut self, job: &JobId) {
        self.federation.notice(Notice {
            kind: "job_quarantined",
            subject: job.to_string(),
            message: format!(
                "handling job {job} failed again and again, so it is set aside here; regions go on with what they \
                 have of it; this is a defect of Polder: keep the log and report it"
            ),
        });
    }

    fn quarantined(&mut self, job: &JobId, event: Event) -> Option<Event> {
        if let Event::Apply { reply, .. } | Event::Stop { reply, .. } | Event::Delete { reply, .. } = event {
            let refused = Answer::Refused(Problem::NotFound { job: job.clone() });
            self.federation.intent_replies.answer(reply, refused);
        }
        None
    }
}
