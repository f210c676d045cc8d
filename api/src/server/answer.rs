//! Problems as HTTP answers, actix-web's own errors included.

use crate::problem::{CONTENT_TYPE, Code, Problem};
use actix_web::{HttpRequest, HttpResponse, ResponseError, error, http::StatusCode};
use core::fmt;

/// A problem on its way out of a handler.
#[derive(Debug)]
pub struct ProblemResponse(pub Problem);

impl fmt::Display for ProblemResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl From<Problem> for ProblemResponse {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl ResponseError for ProblemResponse {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn error_response(&self) -> HttpResponse {
        response(&self.0)
    }
}

pub(super) fn response(problem: &Problem) -> HttpResponse {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    HttpResponse::build(status).content_type(CONTENT_TYPE).json(problem)
}

pub(super) fn bad_json(error: error::JsonPayloadError, _: &HttpRequest) -> error::Error {
    let code = match error {
        error::JsonPayloadError::Overflow { .. } | error::JsonPayloadError::OverflowKnownLength { .. } => {
            Code::BodyTooLarge
        }
        _ => Code::BadRequest,
    };
    ProblemResponse(Problem::new(code, format!("the body: {error}"))).into()
}

pub(super) fn bad_path(error: error::PathError, request: &HttpRequest) -> error::Error {
    ProblemResponse(Problem::new(Code::BadRequest, format!("{}: {error}", request.path()))).into()
}

pub(super) fn bad_query(error: error::QueryPayloadError, _: &HttpRequest) -> error::Error {
    ProblemResponse(Problem::new(Code::BadRequest, format!("the query: {error}"))).into()
}
