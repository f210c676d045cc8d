//! Gauges, from what the machines and links show: asked once a second at most, whoever scrapes.

use crate::{
    federation::{Actors, Federation},
    link::RegionLink,
};
use polder_core::intent_router::{IntentRouter, IntentView, RegionHealth};
use polder_node::scrape::{ACCOUNTS_SHOWN_MAX, Scrapes, mailbox, number, show_amounts, shown_by};
use polder_observability::{self as observability, ActorKind};
use polder_types::Timestamp;
use std::collections::BTreeMap;

const INTENT_STATES: [&str; 5] = ["sending", "placed", "refused", "stopped", "deleting"];

/// What gauges need beside the machines.
#[derive(Debug)]
pub(crate) struct FederationMeter {
    began: Timestamp,
    scrapes: Scrapes,
}

impl FederationMeter {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self { began: now, scrapes: Scrapes::default() }
    }
}

/// Brings the gauges up to date, unless they are.
pub(crate) async fn refresh(federation: &Federation) {
    let update = async {
        // Who does not lead follows no region, and would only show that it hears nothing.
        if let Some(actors) = federation.actors() {
            let mailboxes =
                [mailbox(ActorKind::IntentRouter, &actors.router), mailbox(ActorKind::QuotaLedger, &actors.ledger)];
            observability::Actors::shared().show_mailboxes(mailboxes);
            show_silence(federation);
            tokio::join!(show_intents(actors), show_quotas(actors));
        }
    };
    federation.meter.scrapes.refresh(update).await;
}

fn show_silence(federation: &Federation) {
    let now = federation.now();
    let silence = |link: &RegionLink| {
        // One that was never heard has been silent for as long as somebody listens.
        let heard = link.reach().as_of.unwrap_or(federation.meter.began);
        now.since(heard).to_duration().as_secs_f64()
    };
    let all = federation.links.values().map(|link| ([link.region.to_string()], silence(link)));
    observability::Federation::shared().region_silence.show(all);
}

async fn show_intents(actors: &Actors) {
    let counted = shown_by(&actors.router, |router: &IntentRouter| {
        let mut intents = BTreeMap::<&'static str, u32>::new();
        for intent in router.intents() {
            *intents.entry(intent_state(&intent)).or_default() += 1;
        }
        let heard = router.regions().filter(|region| region.health == RegionHealth::Heard).count();
        (intents, heard, router.regions().count())
    });
    let Some((intents, heard, all)) = counted.await else { return };
    let shown = observability::Federation::shared();
    for state in INTENT_STATES {
        shown.intents.set([state], f64::from(intents.get(state).copied().unwrap_or(0)));
    }
    shown.regions.set(["heard"], number(heard));
    shown.regions.set(["silent"], number(all.saturating_sub(heard)));
}

fn intent_state(intent: &IntentView<'_>) -> &'static str {
    let sent = |acked: Option<polder_types::SliceVersion>, version| acked.is_some_and(|acked| acked >= version);
    if intent.record.deleting {
        "deleting"
    } else if intent.regions.iter().any(|share| share.refused.is_some()) {
        "refused"
    } else if !intent.regions.iter().all(|share| sent(share.acked, share.version)) {
        "sending"
    } else if intent.record.stopped {
        "stopped"
    } else {
        "placed"
    }
}

async fn show_quotas(actors: &Actors) {
    let quotas = shown_by(&actors.ledger, |ledger| {
        let quotas = ledger.quotas().take(ACCOUNTS_SHOWN_MAX);
        quotas.map(|view| (view.quota.account.clone(), view.quota.limit)).collect::<Vec<_>>()
    });
    let Some(quotas) = quotas.await else { return };
    let limits = quotas.iter().map(|(account, limit)| (account, *limit));
    show_amounts(&observability::Federation::shared().quota_limit, limits);
}
