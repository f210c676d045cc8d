//! What every part of a federation node can reach: its actors, its links, and what waits for answers.

use crate::{config::FederationConfig, link::RegionLink, meter::FederationMeter};
use polder_core::{
    intent_router::{self, IntentRouter},
    message::{Notice, ReplyId},
    quota_ledger::{self, QuotaLedger},
};
use polder_node::{EventLog, NoAnswer, Replies};
use polder_shell::{Clock, Handle};
use polder_store::Store;
use polder_types::{Allotment, JobId, RegionId, Slice, SliceVersion, Timestamp};
use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

/// The actors that lead the federation.
#[derive(Debug)]
pub(crate) struct Actors {
    pub(crate) router: Handle<IntentRouter>,
    pub(crate) ledger: Handle<QuotaLedger>,
}

/// A federation node.
#[derive(Debug)]
pub(crate) struct Federation {
    /// How it was set up.
    pub(crate) config: FederationConfig,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) events: EventLog,
    pub(crate) links: BTreeMap<RegionId, Arc<RegionLink>>,
    pub(crate) intent_replies: Replies<intent_router::Answer>,
    pub(crate) quota_replies: Replies<quota_ledger::Answer>,
    pub(crate) meter: FederationMeter,
    actors: OnceLock<Actors>,
}

impl Federation {
    pub(crate) fn new(
        config: FederationConfig,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        links: BTreeMap<RegionId, Arc<RegionLink>>,
    ) -> Self {
        Self {
            meter: FederationMeter::new(clock.now()),
            config,
            store,
            clock,
            events: EventLog::new(None),
            links,
            intent_replies: Replies::default(),
            quota_replies: Replies::default(),
            actors: OnceLock::new(),
        }
    }

    /// Makes the actors known, once.
    pub(crate) fn set_actors(&self, actors: Actors) {
        // A second set can only come from a mistake in the start-up order; the first ones stay.
        let _ = self.actors.set(actors);
    }

    /// The actors; none until this node leads.
    pub(crate) fn actors(&self) -> Option<&Actors> {
        self.actors.get()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Tells people.
    pub(crate) fn notice(&self, notice: Notice) {
        self.events.add(self.now(), notice);
    }

    /// Hands a slice to its region's link, or drops it: it is repeated.
    pub(crate) fn put_slice(&self, region: &RegionId, slice: Slice) {
        let job = slice.spec.id.clone();
        if !self.links.get(region).is_some_and(|link| link.put_slice(slice)) {
            tracing::debug!(%region, %job, "a slice found no room in its link; it will be repeated");
        }
    }

    /// Hands the order to forget a slice to its region's link, or drops it: it is repeated.
    pub(crate) fn drop_slice(&self, region: &RegionId, job: JobId, version: SliceVersion) {
        let text = job.to_string();
        if !self.links.get(region).is_some_and(|link| link.drop_slice(job, version)) {
            tracing::debug!(%region, job = text, "a deletion found no room in its link; it will be repeated");
        }
    }

    /// Hands an allotment to its region's link, or drops it: it is repeated.
    pub(crate) fn put_allotment(&self, region: &RegionId, allotment: Allotment) {
        let account = allotment.account.clone();
        if !self.links.get(region).is_some_and(|link| link.put_allotment(allotment)) {
            tracing::debug!(%region, %account, "an allotment found no room in its link; it will be repeated");
        }
    }

    /// Asks the intent router, and waits for its answer.
    pub(crate) async fn ask_router(
        &self,
        event: impl FnOnce(ReplyId) -> intent_router::Event,
    ) -> Result<intent_router::Answer, NoAnswer> {
        let port = self.actors().map(|actors| actors.router.port().clone());
        let ask = |reply| {
            let event = event(reply);
            async move {
                match port {
                    Some(port) => port.send(event).await.is_ok(),
                    None => false,
                }
            }
        };
        self.intent_replies.ask(ask).await
    }

    /// Asks the quota ledger, and waits for its answer.
    pub(crate) async fn ask_ledger(
        &self,
        event: impl FnOnce(ReplyId) -> quota_ledger::Event,
    ) -> Result<quota_ledger::Answer, NoAnswer> {
        let port = self.actors().map(|actors| actors.ledger.port().clone());
        let ask = |reply| {
            let event = event(reply);
            async move {
                match port {
                    Some(port) => port.send(event).await.is_ok(),
                    None => false,
                }
            }
        };
        self.quota_replies.ask(ask).await
    }
}
