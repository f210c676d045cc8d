//! The handlers of the API, once, for regions and the federation alike.
//!
//! Whoever serves the API implements [`Front`] (a region also [`RegionFront`]) and hands it to [`configure`]:
//!
//! ```no_run
//! # use std::sync::Arc;
//! # async fn serve<F: polder_api::server::RegionFront>(front: F) -> std::io::Result<()> {
//! let front: Arc<dyn polder_api::server::RegionFront> = Arc::new(front);
//! actix_web::HttpServer::new(move || {
//!     actix_web::App::new().configure(polder_api::server::configure_region(Arc::clone(&front)))
//! })
//! .bind(("127.0.0.1", 7000))?
//! .run()
//! .await
//! # }
//! ```
//!
//! What comes in is parsed and within its limits before a method is called; what goes out is JSON, a stream, or a
//! [`Problem`].

mod answer;
mod front;
mod handlers;
mod openapi;
mod region;
mod stream;

pub use answer::ProblemResponse;
pub use front::{Front, RegionFront, Stream};
pub use openapi::{federation_openapi, region_openapi};

use crate::{
    limits, paths,
    problem::{Code, Problem},
};
use actix_web::{
    HttpRequest, HttpResponse, Resource,
    web::{self, Data, ServiceConfig},
};
use std::sync::Arc;

/// Registers the paths that regions and the federation have in common.
pub fn configure(front: Arc<dyn Front>) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        common(config, front);
        config.service(resource(paths::OPENAPI).get(openapi::serve_federation));
    }
}

/// Registers the paths of a region: the common ones, and those that the federation uses.
pub fn configure_region(front: Arc<dyn RegionFront>) -> impl FnOnce(&mut ServiceConfig) {
    move |config| {
        let base: Arc<dyn Front> = front.clone();
        common(config, base);
        config
            .app_data(Data::from(front))
            .service(resource(paths::SLICES).get(region::slices))
            .service(resource(paths::SLICE).put(region::put_slice).delete(region::delete_slice))
            .service(resource(paths::ALLOTMENT).put(region::put_allotment))
            .service(resource(paths::STATUS_WATCH).get(region::watch_status))
            .service(resource(paths::OPENAPI).get(openapi::serve_region));
    }
}

fn common(config: &mut ServiceConfig, front: Arc<dyn Front>) {
    config
        .app_data(Data::from(front))
        .app_data(web::PayloadConfig::new(limits::BODY_BYTES_MAX))
        .app_data(web::JsonConfig::default().limit(limits::BODY_BYTES_MAX).error_handler(answer::bad_json))
        .app_data(web::PathConfig::default().error_handler(answer::bad_path))
        .app_data(web::QueryConfig::default().error_handler(answer::bad_query))
        .service(resource(paths::JOBS).get(handlers::jobs))
        .service(resource(paths::JOB).get(handlers::job).put(handlers::apply_job).delete(handlers::stop_job))
        .service(resource(paths::JOB_DELETE).post(handlers::delete_job))
        .service(resource(paths::TASK_WHY).get(handlers::why))
        .service(resource(paths::TASK_LOGS).get(handlers::logs))
        .service(resource(paths::HOSTS).get(handlers::hosts))
        .service(resource(paths::HOST_CORDON).post(handlers::cordon))
        .service(resource(paths::HOST_UNCORDON).post(handlers::uncordon))
        .service(resource(paths::HOST_READMIT).post(handlers::readmit))
        .service(
            resource(paths::HOST_DRAIN).get(handlers::drain).post(handlers::begin_drain).delete(handlers::abort_drain),
        )
        .service(resource(paths::QUOTAS).get(handlers::quotas))
        .service(resource(paths::QUOTA).get(handlers::quota).put(handlers::put_quota).delete(handlers::remove_quota))
        .service(resource(paths::EVENTS).get(handlers::events))
        .service(resource(paths::ACTORS).get(handlers::actors))
        .service(resource(paths::HEALTHZ).get(handlers::healthz))
        .service(resource(paths::READYZ).get(handlers::readyz))
        .service(resource(paths::METRICS).get(handlers::metrics))
        .default_service(web::to(nothing_here));
}

/// A resource that answers a method it does not have with a problem.
fn resource(path: &str) -> Resource {
    web::resource(path).default_service(web::to(wrong_method))
}

async fn wrong_method(request: HttpRequest) -> HttpResponse {
    let detail = format!("{} {}", request.method(), request.path());
    answer::response(&Problem::new(Code::MethodNotAllowed, detail))
}

async fn nothing_here(request: HttpRequest) -> HttpResponse {
    let detail = format!("{} {}", request.method(), request.path());
    let problem = Problem::new(Code::PathNotFound, detail).with_hint(format!("{} lists what there is", paths::OPENAPI));
    answer::response(&problem)
}
