//! The door: a job that is this region's own and can never run as a whole within its account's allotment is refused
//! before it becomes a slice. What the federation sends is not held up here: it has looked at the whole.

use super::{Read as _, RegionApi, not_ready};
use polder_api::{Code, Problem};
use polder_core::{
    allocator::Allocator,
    demand::{self, Demand},
    job_shard::JobShard,
};
use polder_types::{AccountId, Amounts, JobId, JobSpec};
use std::collections::BTreeMap;

impl RegionApi {
    pub(super) async fn refuse_over_allotment(&self, spec: &JobSpec) -> Result<(), Problem> {
        let actors = self.region.actors().ok_or_else(not_ready)?;
        let mut demand = Demand::new(spec.id.clone());
        let accounts: Vec<AccountId> = demand.accounts().cloned().collect();
        let read = move |allocator: &Allocator| {
            let limit = |account| Some((allocator.account_usage(&account).limit?, account));
            let limits = accounts.into_iter().filter_map(limit);
            limits.map(|(limit, account)| (account, limit)).collect::<BTreeMap<AccountId, Amounts>>()
        };
        let limits = actors.allocator.read(read).await?;
        if limits.is_empty() {
            return Ok(());
        }
        for shard in &actors.shards {
            let job = spec.id.clone();
            for (id, amounts) in shard.read(move |shard| asked(shard, &job)).await? {
                demand.add(&id, amounts);
            }
        }
        demand.admit(demand::of_tasks(spec, spec.tasks), &limits).map_err(|excess| {
            let account = excess.account.clone();
            Problem::new(Code::QuotaExceeded, format!("in region {}: {excess}", self.region.config.region)).with_hint(
                format!("`polder quota get {account}` shows what is used; ask for less, or stop another job"),
            )
        })
    }
}

/// What each job of a shard asks for; of others than the one that is taken in, only what is not done.
fn asked(shard: &JobShard, taken_in: &JobId) -> Vec<(JobId, Amounts)> {
    let of_job = |id: &JobId| {
        let slice = &shard.job_record(id)?.slice;
        let status = shard.slice_status(id).filter(|_| id != taken_in);
        let done = status.map_or(0, |status| status.completed.saturating_add(status.failed));
        let tasks = if slice.stopped { 0 } else { slice.slots.count().saturating_sub(done) };
        Some((id.clone(), demand::of_tasks(&slice.spec, tasks)))
    };
    shard.job_ids().filter_map(of_job).collect()
}
