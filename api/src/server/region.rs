//! The handlers that only a region has.

use super::{
    answer::ProblemResponse,
    front::RegionFront,
    handlers::{Answer, JsonAnswer, id, json},
    stream,
};
use crate::{
    dto::{DeleteResponse, SliceList, SliceQuery, SliceStatus},
    paths,
    problem::{Code, Problem},
};
use actix_web::{
    HttpResponse,
    web::{Data, Json, Path, Query},
};
use polder_types::{AccountId, Allotment, JobId, Slice};

/// Every slice with its status.
#[utoipa::path(get, path = paths::SLICES, tag = "region", responses((status = 200, body = SliceList)))]
pub(super) async fn slices(front: Data<dyn RegionFront>) -> JsonAnswer<SliceList> {
    json(front.slices().await)
}

/// Takes a slice: its whole content, versioned. An older version than the one there is refused.
#[utoipa::path(
    put, path = paths::SLICE, tag = "region",
    params(("job" = String, Path, description = "The job, `account/name`, percent-encoded")),
    request_body(content = Object, description = "The slice"),
    responses((status = 200, body = SliceStatus), (status = 409, body = Problem))
)]
pub(super) async fn put_slice(
    front: Data<dyn RegionFront>,
    path: Path<String>,
    slice: Json<Slice>,
) -> JsonAnswer<SliceStatus> {
    let job: JobId = id(&path)?;
    if slice.spec.id != job {
        return Err(mismatch(&job, &slice.spec.id).into());
    }
    json(front.put_slice(slice.into_inner()).await)
}

/// Forgets a slice of the federation's that is stopped and of which nothing is left.
#[utoipa::path(
    delete, path = paths::SLICE, tag = "region",
    params(("job" = String, Path, description = "The job, `account/name`, percent-encoded"), SliceQuery),
    responses((status = 200, body = DeleteResponse), (status = 404, body = Problem), (status = 409, body = Problem))
)]
pub(super) async fn delete_slice(
    front: Data<dyn RegionFront>,
    path: Path<String>,
    query: Query<SliceQuery>,
) -> JsonAnswer<DeleteResponse> {
    json(front.delete_slice(id(&path)?, query.version).await)
}

pub(super) fn mismatch(path: &dyn core::fmt::Display, body: &dyn core::fmt::Display) -> Problem {
    Problem::new(Code::JobMismatch, format!("the path names `{path}`, the body `{body}`"))
}

/// Takes an allotment, and answers with the one that holds now.
#[utoipa::path(
    put, path = paths::ALLOTMENT, tag = "region",
    params(("account" = String, Path, description = "The account, percent-encoded")),
    request_body(content = Object, description = "The allotment"),
    responses((status = 200, body = Object, description = "The allotment"), (status = 409, body = Problem))
)]
pub(super) async fn put_allotment(
    front: Data<dyn RegionFront>,
    path: Path<String>,
    allotment: Json<Allotment>,
) -> JsonAnswer<Allotment> {
    let account: AccountId = id(&path)?;
    if allotment.account != account {
        let detail = format!("the path names the account `{account}`, the body `{}`", allotment.account);
        return Err(ProblemResponse(Problem::new(Code::BadRequest, detail)));
    }
    json(front.put_allotment(allotment.into_inner()).await)
}

/// The status of every slice, and then each change, as server-sent events.
#[utoipa::path(
    get, path = paths::STATUS_WATCH, tag = "region",
    responses((status = 200, body = SliceStatus, content_type = "text/event-stream"))
)]
pub(super) async fn watch_status(front: Data<dyn RegionFront>) -> Answer<HttpResponse> {
    Ok(stream::events(front.watch_status().await?))
}
