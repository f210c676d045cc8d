//! Counts and times requests, by the pattern of their path.

use actix_web::{
    Error,
    body::{BodySize, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::{Method, StatusCode},
    middleware::Next,
};
use polder_observability::Api;
use std::time::Instant;

/// The label of a request that no pattern matches: its path is anybody's text.
const NO_ROUTE: &str = "none";

/// Methods that anybody may make up are one.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

pub(crate) async fn count<B: MessageBody>(request: ServiceRequest, next: Next<B>) -> Result<ServiceResponse<B>, Error> {
    let began = Instant::now();
    let method = method_name(request.method());
    let result = next.call(request).await;
    let (route, status, streams) = match &result {
        Ok(response) => {
            let status = response.status();
            let streams = status == StatusCode::SWITCHING_PROTOCOLS
                || matches!(response.response().body().size(), BodySize::Stream);
            (response.request().match_pattern(), status, streams)
        }
        Err(error) => (None, error.as_response_error().status_code(), false),
    };
    let route = route.as_deref().unwrap_or(NO_ROUTE);
    let metrics = Api::shared();
    metrics.requests.count([route, method, status.as_str()]);
    if !streams {
        metrics.seconds.took([route, method], began.elapsed());
    }
    result
}
