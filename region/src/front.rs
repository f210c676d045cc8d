//! The region's API: what `polder-api` asks of whoever serves it.

mod admission;
mod hosts;
mod jobs;
mod logs;

use crate::{keys, meter, region::Region, views};
use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use polder_api::{
    Code, Problem,
    dto::{
        ActorList, ApplyResponse, Check, DeleteResponse, DrainRequest, DrainView, EventList, EventView, HostList,
        HostView, JobList, JobStatus, LogQuery, Note, Page, QuotaList, QuotaPart, QuotaRemoved, QuotaRequest,
        QuotaView, Ready, SliceList, SliceStatus, StopResponse, WhyView,
    },
    server::{Front, RegionFront, Stream},
};
use polder_core::{
    allocator::{self, AccountView},
    job_shard::{JobShard, Origin},
    machine::Machine,
    message::{self, Notice},
};
use polder_node::{ANSWER_TIMEOUT, actor_view, page};
use polder_shell::Handle;
use polder_store::{Commit, Compare, Op, Txn, owner::OwnerKey};
use polder_types::{AccountId, Allotment, Amounts, HostId, JobId, JobSpec, Slice, SliceVersion, TaskId};
use std::{fmt, sync::Arc, time::Duration};

/// How often storing an allotment is tried when something comes between.
const ALLOTMENT_TRIES_MAX: usize = 3;
/// How often is looked whether the allocator knows it then.
const ALLOTMENT_PAUSE: Duration = Duration::from_millis(2);

/// The region's API.
#[derive(Debug)]
pub(crate) struct RegionApi {
    pub(crate) region: Arc<Region>,
}

fn not_ready() -> Problem {
    Problem::new(Code::NotReady, "this node does not own the region yet").with_hint("try again in a moment")
}

fn not_known() -> Problem {
    Problem::new(Code::Timeout, "the allotment is stored, and the allocator has not taken it yet")
        .with_hint("trying again does no harm")
}

/// Machines, as they are read for answers.
trait Read<M: Machine> {
    async fn read<T: Send + 'static>(&self, read: impl FnOnce(&M) -> T + Send + 'static) -> Result<T, Problem>;
}

impl<M: Machine> Read<M> for Handle<M> {
    async fn read<T: Send + 'static>(&self, read: impl FnOnce(&M) -> T + Send + 'static) -> Result<T, Problem> {
        polder_node::read_machine(self, not_ready, read).await
    }
}

/// How a slice of the federation's does. Jobs that were submitted to this region are none of its business: their
/// versions are counted here.
fn of_federation(shard: &JobShard, job: &JobId) -> Option<message::SliceStatus> {
    shard.job_record(job).filter(|record| record.origin == Origin::Federation)?;
    shard.slice_status(job)
}

impl RegionApi {
    fn quota_view(&self, view: AccountView) -> Option<QuotaView> {
        let limit = view.limit.filter(|limit| *limit != Amounts::UNLIMITED)?;
        let part = QuotaPart {
            region: self.region.config.region.clone(),
            allotment: limit,
            wanted: None,
            used: view.used,
            as_of: self.region.now(),
        };
        Some(QuotaView { account: view.account, limit, used: view.used, regions: vec![part] })
    }

    async fn account(&self, account: AccountId) -> Result<AccountView, Problem> {
        let actors = self.region.actors().ok_or_else(not_ready)?;
        actors.allocator.read(move |allocator| allocator.account_usage(&account)).await
    }

    /// Makes an allotment durable, then known to the allocator. An older one changes nothing.
    ///
    /// The answer means that nothing is admitted beyond it any more: what a smaller one sets free is another region's.
    async fn take_allotment(&self, allotment: Allotment) -> Result<Allotment, Problem> {
        let actors = self.region.actors().ok_or_else(not_ready)?;
        let (held, changed) = self.store_allotment(allotment).await?;
        // Also one that was stored before: whoever stored it may not have come this far.
        let known = allocator::Event::AllotmentChanged(held.clone());
        let sent = tokio::time::timeout(ANSWER_TIMEOUT, actors.allocator.port().send(known)).await;
        sent.map_err(|_| not_known())?.map_err(|_| not_ready())?;
        self.wait_for_allotment(&held).await?;
        if changed {
            self.region.notice(Notice {
                kind: "allotment_changed",
                subject: held.account.to_string(),
                message: format!(
                    "account {} may now use {} CPU, {} memory and {} tasks in this region",
                    held.account, held.limit.cpu, held.limit.memory, held.limit.tasks
                ),
            });
        }
        Ok(held)
    }

    /// Refuses to change a quota of which this region holds a part only.
    fn refuse_for_federation(&self, account: &AccountId, verb: &str) -> Result<(), Problem> {
        let Some(federation) = &self.region.config.federation else { return Ok(()) };
        let detail = format!("the quota of {account} is the federation's to {verb}: this region holds a part of it");
        Err(Problem::new(Code::QuotaOfFederation, detail)
            .with_hint(format!("{verb} it at the federation: `polder --addr {federation} quota {verb} {account}`")))
    }

    /// Makes this the account's next allotment, in a region without a federation.
    async fn set_allotment(&self, account: &AccountId, limit: Amounts) -> Result<Allotment, Problem> {
        let held = self.region.store.get(&keys::allotment(account)).await;
        let held = held.map_err(|error| Problem::new(Code::StoreUnavailable, error.to_string()))?;
        let version = match &held {
            Some(entry) => polder_node::read::<Allotment>(entry).map_or(0, |allotment| allotment.version),
            None => 0,
        };
        self.take_allotment(Allotment { account: account.clone(), version: version + 1, limit }).await
    }

    /// Stores an allotment unless the same or a newer one is there. What is stored then, and whether it is new.
    async fn store_allotment(&self, allotment: Allotment) -> Result<(Allotment, bool), Problem> {
        let store = &self.region.store;
        let unavailable = |error: &dyn fmt::Display| Problem::new(Code::StoreUnavailable, error.to_string());
        let key = keys::allotment(&allotment.account);
        let mut conflict = None;
        for _ in 0..ALLOTMENT_TRIES_MAX {
            // A node that was deposed must not agree to anything: the new owner's allocator would not know of it.
            let actors = self.region.actors().ok_or_else(not_ready)?;
            let mut compares = actors.seat.fence(&OwnerKey::allocator()).ok_or_else(not_ready)?;
            match store.get(&key).await.map_err(|error| unavailable(&error))? {
                Some(entry) => {
                    let held: Allotment = polder_node::read(&entry).map_err(|error| unavailable(&error))?;
                    if held.version >= allotment.version {
                        return Ok((held, false));
                    }
                    compares.push(Compare::unchanged(&entry));
                }
                None => compares.push(Compare::absent(&key)),
            }
            let value = polder_node::value(&allotment).map_err(|error| Problem::new(Code::Internal, error))?;
            let txn = Txn::new(compares, vec![Op::put(key.clone(), value)]).map_err(|error| unavailable(&error))?;
            match store.commit(txn).await {
                Commit::Committed { .. } => return Ok((allotment, true)),
                // Another one came meanwhile, or the allocator is being restored.
                Commit::Conflict(other) => conflict = Some(other),
                Commit::Unknown { why } => return Err(unavailable(&why)),
            }
        }
        let why = conflict.map_or_else(String::new, |conflict| conflict.to_string());
        Err(Problem::new(Code::NotReady, format!("the allotment could not be stored: {why}"))
            .with_hint("try again in a moment"))
    }

    /// Waits until the allocator admits against this allotment, or a newer one.
    async fn wait_for_allotment(&self, allotment: &Allotment) -> Result<(), Problem> {
        let actors = self.region.actors().ok_or_else(not_ready)?;
        let wait = async {
            loop {
                let (account, version) = (allotment.account.clone(), allotment.version);
                let known = actors
                    .allocator
                    .read(move |allocator| allocator.allotment(&account).is_some_and(|known| known.version >= version));
                if known.await? {
                    return Ok(());
                }
                tokio::time::sleep(ALLOTMENT_PAUSE).await;
            }
        };
        tokio::time::timeout(ANSWER_TIMEOUT, wait).await.unwrap_or_else(|_| Err(not_known()))
    }

    async fn slice_status(&self, job: JobId) -> Result<Option<SliceStatus>, Problem> {
        let shard = self.region.owner_of(&job).ok_or_else(not_ready)?;
        let status = shard.read(move |shard| of_federation(shard, &job)).await?;
        Ok(status.map(|status| views::slice(status, self.region.now())))
    }

    async fn all_slices(&self) -> Result<Vec<SliceStatus>, Problem> {
        let actors = self.region.actors().ok_or_else(not_ready)?;
        let mut slices = Vec::new();
        for shard in &actors.shards {
            let of_shard = shard
                .read(|shard| {
                    let jobs: Vec<JobId> = shard.job_ids().cloned().collect();
                    jobs.iter().filter_map(|job| of_federation(shard, job)).collect::<Vec<_>>()
                })
                .await?;
            slices.extend(of_shard.into_iter().map(|status| views::slice(status, self.region.now())));
        }
        slices.sort_by(|one, other| one.job.cmp(&other.job));
        Ok(slices)
    }
}

#[async_trait(?Send)]
impl Front for RegionApi {
    async fn jobs(&self, wanted: Page) -> Result<JobList, Problem> {
        let (jobs, next) = page(self.job_summaries().await?, &wanted, |job| job.job.to_string());
        Ok(JobList { jobs, next })
    }

    async fn job(&self, job: JobId) -> Result<JobStatus, Problem> {
        self.job_status(job).await
    }

    async fn apply_job(&self, spec: JobSpec) -> Result<ApplyResponse, Problem> {
        self.refuse_over_allotment(&spec).await?;
        self.apply_local(spec).await
    }

    async fn stop_job(&self, job: JobId) -> Result<StopResponse, Problem> {
        self.stop_local(job).await
    }

    async fn delete_job(&self, job: JobId) -> Result<DeleteResponse, Problem> {
        self.delete_local(job).await
    }

    async fn why(&self, task: TaskId) -> Result<WhyView, Problem> {
        self.why_task(task).await
    }

    async fn logs(&self, task: TaskId, query: LogQuery) -> Result<Stream<Result<Bytes, Problem>>, Problem> {
        self.read_logs(task, query).await
    }

    async fn hosts(&self, wanted: Page) -> Result<HostList, Problem> {
        let (hosts, next) = page(self.host_views().await?, &wanted, |host| host.id.to_string());
        Ok(HostList { hosts, parts: vec![self.part_age()], next })
    }

    async fn set_cordon(&self, host: HostId, cordoned: bool) -> Result<HostView, Problem> {
        self.cordon_host(host, cordoned).await
    }

    async fn begin_drain(&self, host: HostId, request: DrainRequest) -> Result<DrainView, Problem> {
        self.drain_host(host, request).await
    }

    async fn drain(&self, host: HostId) -> Result<DrainView, Problem> {
        self.drain_view(&host).await
    }

    async fn abort_drain(&self, host: HostId) -> Result<DrainView, Problem> {
        self.abort_host_drain(host).await
    }

    async fn readmit(&self, host: HostId, note: Note) -> Result<HostView, Problem> {
        self.readmit_host(host, note).await
    }

    async fn quotas(&self) -> Result<QuotaList, Problem> {
        let actors = self.region.actors().ok_or_else(not_ready)?;
        let accounts = actors.allocator.read(allocator::Allocator::account_usages).await?;
        Ok(QuotaList { quotas: accounts.into_iter().filter_map(|view| self.quota_view(view)).collect() })
    }

    async fn quota(&self, account: AccountId) -> Result<QuotaView, Problem> {
        let view = self.account(account.clone()).await?;
        self.quota_view(view).ok_or_else(|| {
            Problem::new(Code::QuotaNotFound, format!("account {account} has no quota: it may use what there is"))
                .with_hint(format!("`polder quota set {account}` sets one"))
        })
    }

    async fn set_quota(&self, account: AccountId, request: QuotaRequest) -> Result<QuotaView, Problem> {
        self.refuse_for_federation(&account, "set")?;
        let limit: Amounts = request.regions.get(&self.region.config.region).copied().unwrap_or(request.limit);
        if !limit.within(request.limit) {
            return Err(Problem::new(Code::QuotaInconsistent, "this region's part is above the whole"));
        }
        self.set_allotment(&account, limit).await?;
        self.quota(account).await
    }

    async fn remove_quota(&self, account: AccountId) -> Result<QuotaRemoved, Problem> {
        self.refuse_for_federation(&account, "remove")?;
        self.quota(account.clone()).await?;
        self.set_allotment(&account, Amounts::UNLIMITED).await?;
        Ok(QuotaRemoved { account })
    }

    async fn events(&self) -> Result<EventList, Problem> {
        Ok(EventList { events: self.region.events.recent() })
    }

    async fn follow_events(&self) -> Result<Stream<EventView>, Problem> {
        Ok(self.region.events.follow().boxed_local())
    }

    async fn actors(&self) -> Result<ActorList, Problem> {
        let actors = self.region.actors().ok_or_else(not_ready)?;
        let mut statuses = vec![actors.allocator.status()];
        statuses.extend(actors.shards.iter().map(Handle::status));
        statuses.extend(self.region.brokers.all().iter().map(Handle::status));
        Ok(ActorList { actors: statuses.into_iter().map(actor_view).collect() })
    }

    async fn metrics(&self) -> String {
        meter::refresh(&self.region).await;
        polder_observability::encode()
    }

    async fn ready(&self) -> Ready {
        let owner = self.region.actors().is_some();
        let mut checks = vec![Check {
            name: "owner".to_owned(),
            ok: owner,
            detail: if owner { "this node owns the region" } else { "another node owns the region, or none yet" }
                .to_owned(),
        }];
        if let Some(actors) = self.region.actors() {
            let allocator = actors.allocator.status();
            checks.push(Check {
                name: "allocator".to_owned(),
                ok: allocator.state.is_working(),
                detail: allocator.state.to_string(),
            });
            let working = actors.shards.iter().filter(|shard| shard.status().state.is_working()).count();
            checks.push(Check {
                name: "shards".to_owned(),
                ok: working == actors.shards.len(),
                detail: format!("{working} of {} run", actors.shards.len()),
            });
        }
        Ready {
            ready: checks.iter().all(|check| check.ok),
            role: "region".to_owned(),
            region: Some(self.region.config.region.clone()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            checks,
        }
    }
}

#[async_trait(?Send)]
impl RegionFront for RegionApi {
    async fn put_slice(&self, slice: Slice) -> Result<SliceStatus, Problem> {
        let job = slice.spec.id.clone();
        self.apply_slice(slice).await?;
        self.slice_status(job).await?.ok_or_else(|| Problem::new(Code::Internal, "the slice is gone again"))
    }

    async fn delete_slice(&self, job: JobId, version: SliceVersion) -> Result<DeleteResponse, Problem> {
        self.delete_of_federation(job, version).await
    }

    async fn slices(&self) -> Result<SliceList, Problem> {
        Ok(SliceList { region: self.region.config.region.clone(), slices: self.all_slices().await? })
    }

    async fn put_allotment(&self, allotment: Allotment) -> Result<Allotment, Problem> {
        self.take_allotment(allotment).await
    }

    async fn watch_status(&self) -> Result<Stream<SliceStatus>, Problem> {
        // Subscribed first, so that nothing falls between the list and the changes.
        let changes = self.region.watch_slices();
        let before = stream::iter(self.all_slices().await?);
        let api = Self { region: Arc::clone(&self.region) };
        let after = stream::unfold((changes, api), |(mut changes, api)| async move {
            loop {
                // When anything is missed the stream ends: the watcher asks again and gets everything.
                let Ok(job) = changes.recv().await else { return None };
                match api.slice_status(job).await {
                    Ok(Some(status)) => return Some((status, (changes, api))),
                    // Deleted: there is nothing to tell of it.
                    Ok(None) => {}
                    Err(problem) => {
                        tracing::debug!(problem = problem.detail, "a watcher of statuses has to begin anew");
                        return None;
                    }
                }
            }
        });
        Ok(before.chain(after).boxed_local())
    }
}
