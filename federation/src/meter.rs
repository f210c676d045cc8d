//! Gauges, from what the machines and links show: asked once a second at most, whoever scrapes.

use crate::{
    federation::{Actors, Federation},
    link::RegionLink,
};
use polder_core::{
    intent_router::{IntentRouter, IntentView, RegionHealth},
    machine::Machine,
};
use polder_observability::{self as observability, ActorKind, Mailbox};
use polder_shell::Handle;
use polder_types::{Amounts, Timestamp};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Gauges that are this new are shown again rather than asked for.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// How long machines may take to answer a scrape. One that does not is shown as it was.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(3);
/// Accounts of which quotas are shown.
const ACCOUNTS_SHOWN_MAX: usize = 1000;

const INTENT_STATES: [&str; 5] = ["sending", "placed", "refused", "stopped", "deleting"];

/// Keeps scrapes from asking machines too often.
#[derive(Debug)]
pub(crate) struct FederationMeter {
    began: Timestamp,
    refreshed: tokio::sync::Mutex<Option<Instant>>,
}

impl FederationMeter {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self { began: now, refreshed: tokio::sync::Mutex::default() }
    }
}

/// Brings the gauges up to date, unless they are.
pub(crate) async fn refresh(federation: &Federation) {
    let mut refreshed = federation.meter.refreshed.lock().await;
    if refreshed.is_some_and(|at| at.elapsed() < FRESH_FOR) {
        return;
    }
    // Who does not lead follows no region, and would only show that it hears nothing.
    if let Some(actors) = federation.actors() {
        let mailboxes =
            [mailbox(ActorKind::IntentRouter, &actors.router), mailbox(ActorKind::QuotaLedger, &actors.ledger)];
        observability::Actors::shared().show_mailboxes(mailboxes);
        show_silence(federation);
        tokio::join!(show_intents(actors), show_quotas(actors));
    }
    *refreshed = Some(Instant::now());
}

fn mailbox<M: Machine>(kind: ActorKind, actor: &Handle<M>) -> Mailbox {
    let status = actor.port().status();
    Mailbox { kind, depth: status.depth, oldest: Duration::from_millis(status.oldest_ms_max) }
}

async fn ask<M: Machine, T: Send + 'static>(
    actor: &Handle<M>,
    read: impl FnOnce(&M) -> T + Send + 'static,
) -> Option<T> {
    tokio::time::timeout(SCRAPE_TIMEOUT, actor.query(read)).await.ok()?.ok()
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
    let counted = ask(&actors.router, |router: &IntentRouter| {
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
    let quotas = ask(&actors.ledger, |ledger| {
        let quotas = ledger.quotas().take(ACCOUNTS_SHOWN_MAX);
        quotas.map(|view| (view.quota.account.to_string(), view.quota.limit)).collect::<Vec<_>>()
    });
    let Some(quotas) = quotas.await else { return };
    let amounts = quotas.into_iter().flat_map(|(account, Amounts { cpu, memory, tasks })| {
        let cores = f64::from(cpu.centi_cores()) / 100.0;
        [("cpu_cores", cores), ("memory_bytes", bytes(memory.get())), ("tasks", f64::from(tasks))]
            .map(|(resource, amount)| ([account.clone(), resource.to_owned()], amount))
    });
    observability::Federation::shared().quota_limit.show(amounts);
}

fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float; what is lost is less than a part in 2^52")]
const fn bytes(amount: u64) -> f64 {
    amount as f64
}
