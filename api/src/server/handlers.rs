//! The handlers that regions and the federation have in common.

use super::{answer::ProblemResponse, front::Front, region::mismatch, stream};
use crate::{
    dto::{
        ActorList, ApplyResponse, DeleteResponse, DrainRequest, DrainView, EventList, HostList, HostView, JobList,
        JobStatus, LogQuery, Note, Page, QuotaList, QuotaRemoved, QuotaRequest, QuotaView, Ready, StopResponse,
        WhyView,
    },
    job_file::{self, Format, JobFile},
    limits, paths,
    problem::{Code, Problem},
};
use actix_web::{
    HttpRequest, HttpResponse,
    http::header,
    web::{self, Data, Json, Path, Payload, Query},
};
use core::{fmt::Display, str::FromStr};
use futures::StreamExt as _;
use polder_types::{AccountId, HostId, JobId, JobSpec, TaskId};
use serde::{Deserialize, Serialize};

pub(super) type Answer<T> = Result<T, ProblemResponse>;
pub(super) type JsonAnswer<T> = Answer<Json<T>>;

pub(super) fn json<T: Serialize>(result: Result<T, Problem>) -> JsonAnswer<T> {
    result.map(Json).map_err(ProblemResponse)
}

/// An id of a path. actix-web has decoded it.
pub(super) fn id<T: FromStr<Err: Display>>(text: &str) -> Answer<T> {
    text.parse().map_err(|error: T::Err| Problem::new(Code::BadRequest, format!("in the path: {error}")).into())
}

fn checked(page: Query<Page>) -> Answer<Page> {
    let page = page.into_inner();
    if (1..=limits::PAGE_MAX).contains(&page.limit) {
        return Ok(page);
    }
    let detail = format!("`limit` is {}; 1 to {} is possible", page.limit, limits::PAGE_MAX);
    Err(Problem::new(Code::BadRequest, detail).into())
}

/// Jobs, in order of their ids.
#[utoipa::path(get, path = paths::JOBS, tag = "jobs", params(Page), responses((status = 200, body = JobList)))]
pub(super) async fn jobs(front: Data<dyn Front>, page: Query<Page>) -> JsonAnswer<JobList> {
    json(front.jobs(checked(page)?).await)
}

/// One job with its tasks.
#[utoipa::path(
    get, path = paths::JOB, tag = "jobs",
    params(("job" = String, Path, description = "The job, `account/name`, percent-encoded")),
    responses((status = 200, body = JobStatus), (status = 404, body = Problem))
)]
pub(super) async fn job(front: Data<dyn Front>, path: Path<String>) -> JsonAnswer<JobStatus> {
    json(front.job(id(&path)?).await)
}

/// Makes this the job's spec. The answer comes when it is durable. Applying the same again changes nothing.
#[utoipa::path(
    put, path = paths::JOB, tag = "jobs",
    params(("job" = String, Path, description = "The job, `account/name`, percent-encoded")),
    request_body(content((JobFile = "application/json"), (String = "application/toml"))),
    responses(
        (status = 200, body = ApplyResponse),
        (status = 400, body = Problem),
        (status = 403, body = Problem),
        (status = 422, body = Problem)
    )
)]
pub(super) async fn apply_job(
    front: Data<dyn Front>,
    path: Path<String>,
    request: HttpRequest,
    body: Payload,
) -> JsonAnswer<ApplyResponse> {
    let job: JobId = id(&path)?;
    let body = read(body, limits::JOB_FILE_BYTES_MAX).await?;
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let format = match kind.split(';').next().unwrap_or_default().trim() {
        "application/json" => Format::Json,
        "application/toml" => Format::Toml,
        _ => Format::of(&body),
    };
    let parsed = job_file::parse(&body, format).map_err(Problem::from)?;
    if parsed.spec.id != job {
        return Err(mismatch(&job, &parsed.spec.id).into());
    }
    absolute_image(&parsed.spec)?;
    json(front.apply_job(parsed.spec).await)
}

/// A path is looked up on hosts, which stand elsewhere than whoever wrote it.
fn absolute_image(spec: &JobSpec) -> Answer<()> {
    if spec.image.split_once(':').is_some_and(|(_, path)| path.starts_with('/')) {
        return Ok(());
    }
    let detail = format!("the image `{}` has a relative path", spec.image);
    Err(Problem::new(Code::JobFileInvalid, detail)
        .with_hint("write the whole path, as it is on the hosts; `polder apply` does that by itself")
        .with_field("image", "its path is relative")
        .into())
}

/// Reads a body of a limited size.
async fn read(mut body: Payload, max: usize) -> Answer<web::Bytes> {
    let mut all = web::BytesMut::new();
    while let Some(chunk) = body.next().await {
        let chunk =
            chunk.map_err(|error| Problem::new(Code::BadRequest, format!("the body could not be read: {error}")))?;
        if all.len() + chunk.len() > max {
            return Err(Problem::new(Code::BodyTooLarge, format!("{max} bytes at most")).into());
        }
        all.extend_from_slice(&chunk);
    }
    Ok(all.freeze())
}

/// Stops a job. The answer comes when the order is durable.
#[utoipa::path(
    delete, path = paths::JOB, tag = "jobs",
    params(("job" = String, Path, description = "The job, `account/name`, percent-encoded")),
    responses((status = 200, body = StopResponse), (status = 404, body = Problem))
)]
pub(super) async fn stop_job(front: Data<dyn Front>, path: Path<String>) -> JsonAnswer<StopResponse> {
    json(front.stop_job(id(&path)?).await)
}

/// Forgets a stopped job of which nothing is left: its name is free again. The answer comes when the order is durable.
#[utoipa::path(
    post, path = paths::JOB_DELETE, tag = "jobs",
    params(("job" = String, Path, description = "The job, `account/name`, percent-encoded")),
    responses((status = 200, body = DeleteResponse), (status = 404, body = Problem), (status = 409, body = Problem))
)]
pub(super) async fn delete_job(front: Data<dyn Front>, path: Path<String>) -> JsonAnswer<DeleteResponse> {
    json(front.delete_job(id(&path)?).await)
}

/// Why a task is where it is, or what it waits for.
#[utoipa::path(
    get, path = paths::TASK_WHY, tag = "tasks",
    params(("task" = String, Path, description = "The task, `account/job/slot`, percent-encoded")),
    responses((status = 200, body = WhyView), (status = 404, body = Problem))
)]
pub(super) async fn why(front: Data<dyn Front>, path: Path<String>) -> JsonAnswer<WhyView> {
    let task: TaskId = id(&path)?;
    json(front.why(task).await)
}

/// What a task has printed, as text.
#[utoipa::path(
    get, path = paths::TASK_LOGS, tag = "tasks",
    params(("task" = String, Path, description = "The task, `account/job/slot`, percent-encoded"), LogQuery),
    responses((status = 200, body = String, content_type = "text/plain"), (status = 404, body = Problem))
)]
pub(super) async fn logs(front: Data<dyn Front>, path: Path<String>, query: Query<LogQuery>) -> Answer<HttpResponse> {
    Ok(stream::text(front.logs(id(&path)?, query.into_inner()).await?))
}

/// Hosts, in order of region and name.
#[utoipa::path(get, path = paths::HOSTS, tag = "hosts", params(Page), responses((status = 200, body = HostList)))]
pub(super) async fn hosts(front: Data<dyn Front>, page: Query<Page>) -> JsonAnswer<HostList> {
    json(front.hosts(checked(page)?).await)
}

/// Keeps new tasks away from a host.
#[utoipa::path(
    post, path = paths::HOST_CORDON, tag = "hosts", params(("host" = String, Path, description = "The host")),
    responses((status = 200, body = HostView), (status = 404, body = Problem))
)]
pub(super) async fn cordon(front: Data<dyn Front>, path: Path<String>) -> JsonAnswer<HostView> {
    let host: HostId = id(&path)?;
    json(front.set_cordon(host, true).await)
}

/// Lets new tasks come to a host again.
#[utoipa::path(
    post, path = paths::HOST_UNCORDON, tag = "hosts", params(("host" = String, Path, description = "The host")),
    responses((status = 200, body = HostView), (status = 404, body = Problem))
)]
pub(super) async fn uncordon(front: Data<dyn Front>, path: Path<String>) -> JsonAnswer<HostView> {
    let host: HostId = id(&path)?;
    json(front.set_cordon(host, false).await)
}

/// How the drain of a host goes, or how its last one ended.
#[utoipa::path(
    get, path = paths::HOST_DRAIN, tag = "hosts", params(("host" = String, Path, description = "The host")),
    responses((status = 200, body = DrainView), (status = 404, body = Problem))
)]
pub(super) async fn drain(front: Data<dyn Front>, path: Path<String>) -> JsonAnswer<DrainView> {
    json(front.drain(id(&path)?).await)
}

/// Begins to empty a host. The answer comes when the order is durable.
#[utoipa::path(
    post, path = paths::HOST_DRAIN, tag = "hosts", params(("host" = String, Path, description = "The host")),
    request_body = DrainRequest,
    responses((status = 200, body = DrainView), (status = 404, body = Problem), (status = 409, body = Problem))
)]
pub(super) async fn begin_drain(
    front: Data<dyn Front>,
    path: Path<String>,
    request: Json<DrainRequest>,
) -> JsonAnswer<DrainView> {
    let host: HostId = id(&path)?;
    if request.deadline.0 == 0 || request.deadline > limits::DRAIN_DEADLINE_MAX {
        let detail = format!(
            "`deadline` is {}; more than nothing, and {} at most",
            request.deadline,
            limits::DRAIN_DEADLINE_MAX
        );
        return Err(Problem::new(Code::BadRequest, detail).with_field("deadline", "out of range").into());
    }
    short(&request.reason, &request.owner)?;
    json(front.begin_drain(host, request.into_inner()).await)
}

fn short(reason: &str, owner: &str) -> Answer<()> {
    if reason.len() > limits::TEXT_BYTES_MAX || owner.len() > limits::TEXT_BYTES_MAX {
        let detail = format!("`reason` and `owner` have {} bytes at most", limits::TEXT_BYTES_MAX);
        return Err(Problem::new(Code::BadRequest, detail).into());
    }
    Ok(())
}

/// Lets an agent with another data folder take the name of a silent host: its machine was reinstalled or replaced. Who
/// asks vouches that nothing of the host's old tasks runs any more.
#[utoipa::path(
    post, path = paths::HOST_READMIT, tag = "hosts", params(("host" = String, Path, description = "The host")),
    request_body = Note,
    responses((status = 200, body = HostView), (status = 404, body = Problem), (status = 409, body = Problem))
)]
pub(super) async fn readmit(front: Data<dyn Front>, path: Path<String>, note: Json<Note>) -> JsonAnswer<HostView> {
    let host: HostId = id(&path)?;
    short(&note.reason, &note.owner)?;
    json(front.readmit(host, note.into_inner()).await)
}

/// Calls a drain off. A host that was drained may take tasks again.
#[utoipa::path(
    delete, path = paths::HOST_DRAIN, tag = "hosts", params(("host" = String, Path, description = "The host")),
    responses((status = 200, body = DrainView), (status = 404, body = Problem))
)]
pub(super) async fn abort_drain(front: Data<dyn Front>, path: Path<String>) -> JsonAnswer<DrainView> {
    json(front.abort_drain(id(&path)?).await)
}

/// All quotas.
#[utoipa::path(get, path = paths::QUOTAS, tag = "quotas", responses((status = 200, body = QuotaList)))]
pub(super) async fn quotas(front: Data<dyn Front>) -> JsonAnswer<QuotaList> {
    json(front.quotas().await)
}

/// The quota of an account.
#[utoipa::path(
    get, path = paths::QUOTA, tag = "quotas",
    params(("account" = String, Path, description = "The account, percent-encoded")),
    responses((status = 200, body = QuotaView), (status = 404, body = Problem))
)]
pub(super) async fn quota(front: Data<dyn Front>, path: Path<String>) -> JsonAnswer<QuotaView> {
    json(front.quota(id(&path)?).await)
}

/// Sets the quota of an account.
#[utoipa::path(
    put, path = paths::QUOTA, tag = "quotas",
    params(("account" = String, Path, description = "The account, percent-encoded")),
    request_body = QuotaRequest,
    responses((status = 200, body = QuotaView), (status = 422, body = Problem))
)]
pub(super) async fn put_quota(
    front: Data<dyn Front>,
    path: Path<String>,
    request: Json<QuotaRequest>,
) -> JsonAnswer<QuotaView> {
    let account: AccountId = id(&path)?;
    let sum = request.regions.values().fold(polder_types::Amounts::default(), |sum, part| sum.plus(*part));
    if !sum.within(request.limit) {
        let over = sum.minus(request.limit);
        let detail = format!(
            "the parts of the regions are more than the limit, by {} CPU, {} memory, {} tasks",
            over.cpu, over.memory, over.tasks
        );
        return Err(Problem::new(Code::QuotaInconsistent, detail).into());
    }
    json(front.set_quota(account, request.into_inner()).await)
}

/// Has an account use what there is.
#[utoipa::path(
    delete, path = paths::QUOTA, tag = "quotas",
    params(("account" = String, Path, description = "The account, percent-encoded")),
    responses((status = 200, body = QuotaRemoved), (status = 404, body = Problem))
)]
pub(super) async fn remove_quota(front: Data<dyn Front>, path: Path<String>) -> JsonAnswer<QuotaRemoved> {
    json(front.remove_quota(id(&path)?).await)
}

/// Whether events are to go on.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventQuery {
    /// Go on with what happens from now on, as server-sent events.
    #[serde(default)]
    follow: bool,
}

/// The latest events, newest last; with `follow`, a stream that goes on.
#[utoipa::path(
    get, path = paths::EVENTS, tag = "events", params(EventQuery),
    responses((status = 200, body = EventList))
)]
pub(super) async fn events(front: Data<dyn Front>, query: Query<EventQuery>) -> Answer<HttpResponse> {
    if query.follow {
        return Ok(stream::events(front.follow_events().await?));
    }
    Ok(HttpResponse::Ok().json(front.events().await?))
}

/// Whether the process lives: it answers.
#[utoipa::path(get, path = paths::HEALTHZ, tag = "node", responses((status = 200, body = String)))]
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Every actor of this node, with its state and its mailbox.
#[utoipa::path(get, path = paths::ACTORS, tag = "node", responses((status = 200, body = ActorList)))]
pub(super) async fn actors(front: Data<dyn Front>) -> JsonAnswer<ActorList> {
    json(front.actors().await)
}

/// Whether the process can do its work.
#[utoipa::path(
    get, path = paths::READYZ, tag = "node",
    responses((status = 200, body = Ready), (status = 503, body = Ready))
)]
pub(super) async fn readyz(front: Data<dyn Front>) -> HttpResponse {
    let ready = front.ready().await;
    if ready.ready { HttpResponse::Ok().json(ready) } else { HttpResponse::ServiceUnavailable().json(ready) }
}

/// All that the process has counted and measured, in Prometheus's text format.
#[utoipa::path(
    get, path = paths::METRICS, tag = "node",
    responses((status = 200, body = String, content_type = "text/plain"))
)]
pub(super) async fn metrics(front: Data<dyn Front>) -> HttpResponse {
    HttpResponse::Ok().content_type("text/plain; version=0.0.4; charset=utf-8").body(front.metrics().await)
}
