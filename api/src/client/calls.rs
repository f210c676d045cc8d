//! The calls, one for each path.

use super::{Client, ClientError, Stream, sse};
use crate::{
    dto::{
        ActorList, ApplyResponse, DeleteResponse, DrainRequest, DrainView, EventList, EventView, HostList, HostView,
        JobList, JobStatus, JobSummary, LogQuery, Note, Page, QuotaList, QuotaRemoved, QuotaRequest, QuotaView, Ready,
        SliceList, SliceQuery, SliceStatus, StopResponse, WhyView,
    },
    job_file::JobFile,
    limits, paths,
};
use bytes::Bytes;
use polder_types::{AccountId, Allotment, HostId, JobId, Slice, SliceVersion, TaskId};
use reqwest::Method;
use serde::{Serialize, de::DeserializeOwned};

/// Each method sends one request to the path of its name.
///
/// # Errors
/// All fail with a [`ClientError`]: when nobody answers, or the server says no.
impl Client {
    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.answer(self.request(Method::GET, path)).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.answer(self.request(Method::POST, path)).await
    }

    async fn put<B: Serialize + Sync, T: DeserializeOwned>(&self, path: &str, body: &B) -> Result<T, ClientError> {
        self.answer(self.request(Method::PUT, path).json(body)).await
    }

    async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.answer(self.request(Method::DELETE, path)).await
    }

    /// Makes this the job's spec; durable when it answers.
    pub async fn apply(&self, file: &JobFile) -> Result<ApplyResponse, ClientError> {
        let job = JobId { account: file.account.clone(), name: file.name.clone() };
        self.put(&paths::job(&job), file).await
    }

    /// One job with its tasks.
    pub async fn job(&self, job: &JobId) -> Result<JobStatus, ClientError> {
        self.get(&paths::job(job)).await
    }

    /// A page of jobs.
    pub async fn jobs(&self, page: &Page) -> Result<JobList, ClientError> {
        self.answer(self.request(Method::GET, paths::JOBS).query(page)).await
    }

    /// All jobs, page by page.
    pub async fn all_jobs(&self) -> Result<Vec<JobSummary>, ClientError> {
        let mut page = Page { limit: limits::PAGE_MAX, after: None };
        let mut all = Vec::new();
        loop {
            let list = self.jobs(&page).await?;
            all.extend(list.jobs);
            // A server that never ends its pages must not keep anybody for ever.
            if list.next.is_none() || list.next == page.after {
                return Ok(all);
            }
            page.after = list.next;
        }
    }

    /// Stops a job; the order is durable when it answers.
    pub async fn stop_job(&self, job: &JobId) -> Result<StopResponse, ClientError> {
        self.delete(&paths::job(job)).await
    }

    /// Forgets a stopped job; the order is durable when it answers.
    pub async fn delete_job(&self, job: &JobId) -> Result<DeleteResponse, ClientError> {
        self.post(&paths::job_delete(job)).await
    }

    /// Why a task is where it is, or what it waits for.
    pub async fn why(&self, task: &TaskId) -> Result<WhyView, ClientError> {
        self.get(&paths::task_why(task)).await
    }

    /// What a task has printed, in pieces.
    pub async fn logs(&self, task: &TaskId, query: &LogQuery) -> Result<Stream<Bytes>, ClientError> {
        let response = self.open(self.request(Method::GET, &paths::task_logs(task)).query(query)).await?;
        // A task may be silent for as long as it likes.
        Ok(sse::chunks(self.clone(), response, None))
    }

    /// A page of hosts.
    pub async fn hosts(&self, page: &Page) -> Result<HostList, ClientError> {
        self.answer(self.request(Method::GET, paths::HOSTS).query(page)).await
    }

    /// All hosts, page by page.
    pub async fn all_hosts(&self) -> Result<HostList, ClientError> {
        let mut page = Page { limit: limits::PAGE_MAX, after: None };
        let mut all = HostList::default();
        loop {
            let list = self.hosts(&page).await?;
            all.hosts.extend(list.hosts);
            all.parts = list.parts;
            if list.next.is_none() || list.next == page.after {
                return Ok(all);
            }
            page.after = list.next;
        }
    }

    /// Keeps new tasks away from a host.
    pub async fn cordon(&self, host: &HostId) -> Result<HostView, ClientError> {
        self.post(&paths::host_cordon(host)).await
    }

    /// Lets new tasks come to a host again.
    pub async fn uncordon(&self, host: &HostId) -> Result<HostView, ClientError> {
        self.post(&paths::host_uncordon(host)).await
    }

    /// Lets an agent with another data folder take the name of a silent host.
    pub async fn readmit(&self, host: &HostId, note: &Note) -> Result<HostView, ClientError> {
        self.answer(self.request(Method::POST, &paths::host_readmit(host)).json(note)).await
    }

    /// Begins to empty a host; the order is durable when it answers.
    pub async fn begin_drain(&self, host: &HostId, request: &DrainRequest) -> Result<DrainView, ClientError> {
        self.answer(self.request(Method::POST, &paths::host_drain(host)).json(request)).await
    }

    /// How the drain of a host goes, or how its last one ended.
    pub async fn drain(&self, host: &HostId) -> Result<DrainView, ClientError> {
        self.get(&paths::host_drain(host)).await
    }

    /// Calls a drain off.
    pub async fn abort_drain(&self, host: &HostId) -> Result<DrainView, ClientError> {
        self.delete(&paths::host_drain(host)).await
    }

    /// All quotas.
    pub async fn quotas(&self) -> Result<QuotaList, ClientError> {
        self.get(paths::QUOTAS).await
    }

    /// The quota of an account.
    pub async fn quota(&self, account: &AccountId) -> Result<QuotaView, ClientError> {
        self.get(&paths::quota(account)).await
    }

    /// Sets the quota of an account.
    pub async fn set_quota(&self, account: &AccountId, request: &QuotaRequest) -> Result<QuotaView, ClientError> {
        self.put(&paths::quota(account), request).await
    }

    /// Has an account use what there is.
    pub async fn remove_quota(&self, account: &AccountId) -> Result<QuotaRemoved, ClientError> {
        self.delete(&paths::quota(account)).await
    }

    /// The latest events.
    pub async fn events(&self) -> Result<EventList, ClientError> {
        self.get(paths::EVENTS).await
    }

    /// The latest events and what happens from now on.
    pub async fn follow_events(&self) -> Result<Stream<EventView>, ClientError> {
        let response = self.open(self.request(Method::GET, paths::EVENTS).query(&[("follow", true)])).await?;
        Ok(sse::events(self.clone(), response))
    }

    /// Gives a region a slice; durable when it answers.
    pub async fn put_slice(&self, slice: &Slice) -> Result<SliceStatus, ClientError> {
        self.put(&paths::slice(&slice.spec.id), slice).await
    }

    /// Has a region forget a slice of which nothing is left.
    pub async fn delete_slice(&self, job: &JobId, version: SliceVersion) -> Result<DeleteResponse, ClientError> {
        self.answer(self.request(Method::DELETE, &paths::slice(job)).query(&SliceQuery { version })).await
    }

    /// Every slice of a region with its status.
    pub async fn slices(&self) -> Result<SliceList, ClientError> {
        self.get(paths::SLICES).await
    }

    /// Gives a region an allotment. The answer is the one that holds now.
    pub async fn put_allotment(&self, allotment: &Allotment) -> Result<Allotment, ClientError> {
        self.put(&paths::allotment(&allotment.account), allotment).await
    }

    /// The status of every slice of a region, and then each change.
    pub async fn watch_status(&self) -> Result<Stream<SliceStatus>, ClientError> {
        let response = self.open(self.request(Method::GET, paths::STATUS_WATCH)).await?;
        Ok(sse::events(self.clone(), response))
    }

    /// Every actor of a node.
    pub async fn actors(&self) -> Result<ActorList, ClientError> {
        self.get(paths::ACTORS).await
    }

    /// All that the process has counted and measured, in Prometheus's text format.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        let text = self.answer_bytes(self.request(Method::GET, paths::METRICS)).await?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Whether the process can do its work. One that says it can't is an answer as well.
    pub async fn ready(&self) -> Result<Ready, ClientError> {
        let request = self.request(Method::GET, paths::READYZ).timeout(self.timeout);
        let response = request.send().await.map_err(|error| self.failed(&error))?;
        let body = self.read(response).await?;
        serde_json::from_slice(&body)
            .map_err(|error| ClientError::Answer { address: self.address().to_owned(), reason: error.to_string() })
    }
}
