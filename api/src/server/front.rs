//! What a server of the API must be able to do.

use crate::{
    dto::{
        ActorList, ApplyResponse, DeleteResponse, DrainRequest, DrainView, EventList, EventView, HostList, HostView,
        JobList, JobStatus, LogQuery, Note, Page, QuotaList, QuotaRemoved, QuotaRequest, QuotaView, Ready, SliceList,
        SliceStatus, StopResponse, WhyView,
    },
    problem::Problem,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::LocalBoxStream;
use polder_types::{AccountId, Allotment, HostId, JobId, JobSpec, Slice, SliceVersion, TaskId};

/// A stream of an answer. It ends when the client goes away (it is dropped) or when there is nothing more.
pub type Stream<T> = LocalBoxStream<'static, T>;

/// What a region and the federation can both do. Futures need not be `Send`: each worker runs its own.
#[async_trait(?Send)]
pub trait Front: Send + Sync + 'static {
    /// Jobs, in order of their ids.
    async fn jobs(&self, page: Page) -> Result<JobList, Problem>;
    /// One job with its tasks.
    async fn job(&self, job: JobId) -> Result<JobStatus, Problem>;
    /// Makes this the job's spec. Answers when that is durable. Applying the same again changes nothing.
    async fn apply_job(&self, spec: JobSpec) -> Result<ApplyResponse, Problem>;
    /// Stops a job. Answers when the order is durable.
    async fn stop_job(&self, job: JobId) -> Result<StopResponse, Problem>;
    /// Forgets a stopped job of which nothing is left. Answers when the order is durable.
    async fn delete_job(&self, job: JobId) -> Result<DeleteResponse, Problem>;
    /// Why a task is where it is, or what it waits for.
    async fn why(&self, task: TaskId) -> Result<WhyView, Problem>;
    /// What a task has printed.
    async fn logs(&self, task: TaskId, query: LogQuery) -> Result<Stream<Result<Bytes, Problem>>, Problem>;
    /// Hosts, in order of region and name.
    async fn hosts(&self, page: Page) -> Result<HostList, Problem>;
    /// Keeps new tasks away from a host, or lets them come again.
    async fn set_cordon(&self, host: HostId, cordoned: bool) -> Result<HostView, Problem>;
    /// Begins to empty a host. Answers when the order is durable.
    async fn begin_drain(&self, host: HostId, request: DrainRequest) -> Result<DrainView, Problem>;
    /// How the drain of a host goes, or how its last one ended.
    async fn drain(&self, host: HostId) -> Result<DrainView, Problem>;
    /// Calls a drain in progress off. One that has ended keeps its host closed until it is uncordoned.
    async fn abort_drain(&self, host: HostId) -> Result<DrainView, Problem>;
    /// Lets an agent with another data folder take the name of a silent host.
    async fn readmit(&self, host: HostId, note: Note) -> Result<HostView, Problem>;
    /// All quotas.
    async fn quotas(&self) -> Result<QuotaList, Problem>;
    /// The quota of an account.
    async fn quota(&self, account: AccountId) -> Result<QuotaView, Problem>;
    /// Sets the quota of an account.
    async fn set_quota(&self, account: AccountId, request: QuotaRequest) -> Result<QuotaView, Problem>;
    /// Has an account use what there is.
    async fn remove_quota(&self, account: AccountId) -> Result<QuotaRemoved, Problem>;
    /// The latest events.
    async fn events(&self) -> Result<EventList, Problem>;
    /// The latest events and what happens from now on.
    async fn follow_events(&self) -> Result<Stream<EventView>, Problem>;
    /// Every actor of this process.
    async fn actors(&self) -> Result<ActorList, Problem>;
    /// All that this process has counted and measured, as Prometheus reads it.
    async fn metrics(&self) -> String;
    /// Whether this process can do its work.
    async fn ready(&self) -> Ready;
}

/// What only a region can do, for the federation.
#[async_trait(?Send)]
pub trait RegionFront: Front {
    /// Takes a slice. Answers with its status when it is durable; an older version than the one there is refused.
    async fn put_slice(&self, slice: Slice) -> Result<SliceStatus, Problem>;
    /// Forgets a slice of the federation's that is stopped and of which nothing is left. A version newer than this one
    /// is refused; one that is not there has been forgotten.
    async fn delete_slice(&self, job: JobId, version: SliceVersion) -> Result<DeleteResponse, Problem>;
    /// Every slice with its status.
    async fn slices(&self) -> Result<SliceList, Problem>;
    /// Takes an allotment, and answers with the one that holds now: smaller ones are agreed to only as far as what is
    /// used allows.
    async fn put_allotment(&self, allotment: Allotment) -> Result<Allotment, Problem>;
    /// The status of every slice, and then each change.
    async fn watch_status(&self) -> Result<Stream<SliceStatus>, Problem>;
}
