//! The OpenAPI documents, generated from the handlers.

use super::{handlers, region};
use crate::{dto, job_file, problem::Problem};
use actix_web::HttpResponse;
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(title = "Polder", description = "Runs containers on fleets of machines in many regions."),
    paths(
        handlers::jobs,
        handlers::job,
        handlers::apply_job,
        handlers::stop_job,
        handlers::delete_job,
        handlers::why,
        handlers::logs,
        handlers::hosts,
        handlers::cordon,
        handlers::uncordon,
        handlers::readmit,
        handlers::drain,
        handlers::begin_drain,
        handlers::abort_drain,
        handlers::quotas,
        handlers::quota,
        handlers::put_quota,
        handlers::remove_quota,
        handlers::events,
        handlers::actors,
        handlers::healthz,
        handlers::readyz,
        handlers::metrics
    ),
    components(schemas(Problem, job_file::JobFile, dto::EventView))
)]
struct Common;

#[derive(OpenApi)]
#[openapi(paths(region::slices, region::put_slice, region::delete_slice, region::put_allotment, region::watch_status))]
struct RegionOnly;

/// The document of the federation's API.
#[must_use]
pub fn federation_openapi() -> utoipa::openapi::OpenApi {
    Common::openapi()
}

/// The document of a region's API.
#[must_use]
pub fn region_openapi() -> utoipa::openapi::OpenApi {
    Common::openapi().merge_from(RegionOnly::openapi())
}

pub(super) async fn serve_federation() -> HttpResponse {
    HttpResponse::Ok().json(federation_openapi())
}

pub(super) async fn serve_region() -> HttpResponse {
    HttpResponse::Ok().json(region_openapi())
}
