//! The door: a job that can never run as a whole within its account's quota is refused before it becomes an intent.
//!
//! What counts here is what jobs ask for, not what runs. Two jobs that come at the same moment may both be let in: then
//! the allocators admit tasks until the quota is reached, and the rest waits with that reason.

use super::{FederationApi, not_ready, unread};
use polder_api::{Code, Problem};
use polder_core::{
    demand::{self, Demand},
    intent_router::{IntentRouter, IntentView, ShareView},
    quota_ledger::QuotaLedger,
};
use polder_types::{AccountId, Amounts, JobSpec};
use std::collections::BTreeMap;

impl FederationApi {
    pub(super) async fn refuse_over_quota(&self, spec: &JobSpec) -> Result<(), Problem> {
        let actors = self.federation.actors().ok_or_else(not_ready)?;
        let demand = Demand::new(spec.id.clone());
        let accounts: Vec<AccountId> = demand.accounts().cloned().collect();
        let read = move |ledger: &QuotaLedger| {
            let limit = |account: AccountId| ledger.quota(&account).map(|quota| (account, quota.quota.limit));
            accounts.into_iter().filter_map(limit).collect::<BTreeMap<AccountId, Amounts>>()
        };
        let limits = actors.ledger.query(read).await.map_err(unread)?;
        if limits.is_empty() {
            return Ok(());
        }
        let job = spec.id.clone();
        let count = move |router: &IntentRouter| {
            let mut demand = demand;
            for intent in router.intents() {
                // A person who applies a job again is not held to what of it is done.
                let done = if intent.record.spec.id == job { 0 } else { done(&intent) };
                demand.add(&intent.record.spec.id, asks_for(&intent, done));
            }
            demand
        };
        let demand = actors.router.query(count).await.map_err(unread)?;
        demand.admit(demand::of_tasks(spec, spec.tasks), &limits).map_err(|excess| {
            let account = excess.account.clone();
            Problem::new(Code::QuotaExceeded, excess.to_string()).with_hint(format!(
                "`polder quota get {account}` shows what is used; ask for less, stop another job, or raise the quota"
            ))
        })
    }
}

fn asks_for(intent: &IntentView<'_>, done: u32) -> Amounts {
    let spec = &intent.record.spec;
    let tasks = if intent.record.stopped { 0 } else { spec.tasks.saturating_sub(done) };
    demand::of_tasks(spec, tasks)
}

/// Tasks that have come to their end for good, by what regions said last.
fn done(intent: &IntentView<'_>) -> u32 {
    let of_share = |share: &ShareView| {
        let status = share.status.as_ref().filter(|status| status.version >= share.version);
        status.map_or(0, |status| status.completed.saturating_add(status.failed))
    };
    intent.regions.iter().map(of_share).fold(0, u32::saturating_add)
}
