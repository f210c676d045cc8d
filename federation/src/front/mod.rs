//! The federation's API: what `polder-api` asks of whoever serves it, answered out of what regions say.

mod admission;
mod events;
mod hosts;
mod jobs;
mod quotas;
mod regions;
mod tasks;

use crate::{federation::Federation, meter};
use async_trait::async_trait;
use bytes::Bytes;
use polder_api::{
    Code, Problem,
    dto::{
        ActorList, ApplyResponse, Check, DeleteResponse, DrainRequest, DrainView, EventList, EventView, HostList,
        HostView, JobList, JobStatus, LogQuery, Note, Page, QuotaList, QuotaRemoved, QuotaRequest, QuotaView, Ready,
        StopResponse, WhyView,
    },
    server::{Front, Stream},
};
use polder_shell::QueryError;
use polder_types::{AccountId, HostId, JobId, JobSpec, TaskId};
use std::sync::Arc;

/// The federation's API.
#[derive(Debug)]
pub(crate) struct FederationApi {
    pub(crate) federation: Arc<Federation>,
}

fn not_ready() -> Problem {
    Problem::new(Code::NotReady, "this node does not lead the federation")
        .with_hint("try again in a moment, or ask another node of the federation")
}

fn unread(error: QueryError) -> Problem {
    polder_node::unread(error, not_ready)
}

#[async_trait(?Send)]
impl Front for FederationApi {
    async fn jobs(&self, wanted: Page) -> Result<JobList, Problem> {
        self.job_list(&wanted).await
    }

    async fn job(&self, job: JobId) -> Result<JobStatus, Problem> {
        self.job_status(job).await
    }

    async fn apply_job(&self, spec: JobSpec) -> Result<ApplyResponse, Problem> {
        self.refuse_over_quota(&spec).await?;
        self.apply_intent(spec).await
    }

    async fn stop_job(&self, job: JobId) -> Result<StopResponse, Problem> {
        self.stop_intent(job).await
    }

    async fn delete_job(&self, job: JobId) -> Result<DeleteResponse, Problem> {
        self.delete_intent(job).await
    }

    async fn why(&self, task: TaskId) -> Result<WhyView, Problem> {
        self.why_task(task).await
    }

    async fn logs(&self, task: TaskId, query: LogQuery) -> Result<Stream<Result<Bytes, Problem>>, Problem> {
        self.read_logs(task, query).await
    }

    async fn hosts(&self, wanted: Page) -> Result<HostList, Problem> {
        Ok(self.host_list(&wanted).await)
    }

    async fn set_cordon(&self, host: HostId, cordoned: bool) -> Result<HostView, Problem> {
        let (link, host) = self.find_host(&host).await?;
        let client = link.client();
        let answer = if cordoned { client.cordon(&host).await } else { client.uncordon(&host).await };
        answer.map_err(|error| regions::unreached(&link.region, error))
    }

    async fn begin_drain(&self, host: HostId, request: DrainRequest) -> Result<DrainView, Problem> {
        let (link, host) = self.find_host(&host).await?;
        let answer = link.client().begin_drain(&host, &request).await;
        answer.map_err(|error| regions::unreached(&link.region, error))
    }

    async fn drain(&self, host: HostId) -> Result<DrainView, Problem> {
        let (link, host) = self.find_host(&host).await?;
        link.client().drain(&host).await.map_err(|error| regions::unreached(&link.region, error))
    }

    async fn abort_drain(&self, host: HostId) -> Result<DrainView, Problem> {
        let (link, host) = self.find_host(&host).await?;
        link.client().abort_drain(&host).await.map_err(|error| regions::unreached(&link.region, error))
    }

    async fn readmit(&self, host: HostId, note: Note) -> Result<HostView, Problem> {
        let (link, host) = self.find_host(&host).await?;
        link.client().readmit(&host, &note).await.map_err(|error| regions::unreached(&link.region, error))
    }

    async fn quotas(&self) -> Result<QuotaList, Problem> {
        self.quota_list().await
    }

    async fn quota(&self, account: AccountId) -> Result<QuotaView, Problem> {
        self.quota_view(account).await
    }

    async fn set_quota(&self, account: AccountId, request: QuotaRequest) -> Result<QuotaView, Problem> {
        self.set_account_quota(account, request).await
    }

    async fn remove_quota(&self, account: AccountId) -> Result<QuotaRemoved, Problem> {
        self.remove_account_quota(account).await
    }

    async fn events(&self) -> Result<EventList, Problem> {
        Ok(self.latest_events().await)
    }

    async fn follow_events(&self) -> Result<Stream<EventView>, Problem> {
        Ok(self.event_stream().await)
    }

    async fn actors(&self) -> Result<ActorList, Problem> {
        let actors = self.federation.actors().ok_or_else(not_ready)?;
        let statuses = [actors.router.status(), actors.ledger.status()];
        Ok(ActorList { actors: statuses.into_iter().map(polder_node::actor_view).collect() })
    }

    async fn metrics(&self) -> String {
        meter::refresh(&self.federation).await;
        polder_observability::encode()
    }

    async fn ready(&self) -> Ready {
        let mut checks = Vec::new();
        let leads = self.federation.actors().is_some();
        let detail = if leads { "this node leads the federation" } else { "another node leads, or none yet" };
        checks.push(Check { name: "leader".to_owned(), ok: leads, detail: detail.to_owned() });
        if let Some(actors) = self.federation.actors() {
            for (name, status) in [("intents", actors.router.status()), ("quotas", actors.ledger.status())] {
                let ok = status.state.is_working();
                checks.push(Check { name: name.to_owned(), ok, detail: status.state.to_string() });
            }
        }
        let ready = checks.iter().all(|check| check.ok);
        // A region that is not heard is shown, but does not keep the federation from its work.
        for link in self.federation.links.values() {
            let reach = link.reach();
            let ok = reach.trouble.is_none() && reach.as_of.is_some();
            let detail = reach.trouble.unwrap_or_else(|| if ok { "heard" } else { "not heard yet" }.to_owned());
            checks.push(Check { name: format!("region {}", link.region), ok, detail });
        }
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ready { ready, role: "federation".to_owned(), region: None, version, checks }
    }
}
