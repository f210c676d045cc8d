//! The surroundings of the quota ledger.

use crate::{federation::Federation, keys};
use polder_core::{
    message::Notice,
    quota_ledger::{Delta, Effect, Event, QuotaLedger, QuotaRecord},
};
use polder_node::{OwnerJournal, Seat, Write, read_all, value};
use polder_shell::{ActorKind, Handle, Journal, Panic, RestoreError, Restored, Restoring, Role};
use polder_store::owner::OwnerKey;
use polder_types::{AccountId, Timestamp};
use std::sync::Arc;

/// The quota ledger's surroundings.
pub(crate) struct LedgerRole {
    federation: Arc<Federation>,
    seat: Arc<Seat>,
    handle: Handle<QuotaLedger>,
    journal: Arc<OwnerJournal<Delta>>,
}

impl LedgerRole {
    pub(crate) fn new(federation: Arc<Federation>, seat: Arc<Seat>, handle: Handle<QuotaLedger>) -> Self {
        let journal = Arc::new(OwnerJournal::new(Arc::clone(&federation.store), encode));
        Self { federation, seat, handle, journal }
    }
}

fn encode(delta: Delta) -> Result<Write, String> {
    let Delta::Put(record) = delta;
    Ok(Write::Put { key: keys::quota(&record.quota.account), value: value(&*record)? })
}

impl Role for LedgerRole {
    const KIND: ActorKind = ActorKind::QuotaLedger;

    type Machine = QuotaLedger;
    type Key = AccountId;

    async fn restore(&mut self, restoring: Restoring<'_, AccountId>) -> Result<Restored<QuotaLedger>, RestoreError> {
        let owned = self.seat.take(&OwnerKey::new("federation/quotas")).await?;
        let records: Vec<QuotaRecord> = read_all(&*self.federation.store, keys::QUOTAS).await?;
        self.journal.own(owned);
        let restored = QuotaLedger::restore(records, restoring.now);
        for link in self.federation.links.values().cloned() {
            let port = self.handle.port().clone();
            actix_web::rt::spawn(async move {
                let known = Event::RegionKnown { region: link.region.clone() };
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
            Effect::PutAllotment { region, allotment } => self.federation.put_allotment(&region, allotment),
            Effect::Reply { reply, answer } => self.federation.quota_replies.answer(reply, answer),
            Effect::Notice(notice) => self.federation.notice(notice),
        }
    }

    fn poisoned(&mut self, blame: Option<&AccountId>, panic: &Panic) {
        self.federation.notice(Notice {
            kind: "step_failed",
            subject: blame.map_or_else(|| "the quota ledger".to_owned(), ToString::to_string),
            message: format!("a step failed and was undone: {panic}"),
        });
    }
}
