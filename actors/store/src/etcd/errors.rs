//! What an error of etcd's client says about a request.

use etcd_client::Error;
use std::{error::Error as StdError, io};

/// The codes of gRPC that matter here.
mod code {
    pub(super) const INVALID_ARGUMENT: i32 = 3;
    pub(super) const NOT_FOUND: i32 = 5;
    pub(super) const ALREADY_EXISTS: i32 = 6;
    pub(super) const PERMISSION_DENIED: i32 = 7;
    pub(super) const RESOURCE_EXHAUSTED: i32 = 8;
    pub(super) const FAILED_PRECONDITION: i32 = 9;
    pub(super) const OUT_OF_RANGE: i32 = 11;
    pub(super) const UNIMPLEMENTED: i32 = 12;
    pub(super) const UNAUTHENTICATED: i32 = 16;
}

/// What became of a request.
#[derive(Debug)]
pub(super) enum Failure {
    /// It reached nobody, so it may be sent again.
    NotSent(String),
    /// It may have been done.
    Unsure(String),
    /// It was understood and refused, and will be again.
    Refused(String),
    /// It was refused because its lease does not exist.
    LeaseGone,
}

pub(super) fn classify(error: &Error) -> Failure {
    let why = describe(error);
    let Error::GRpcStatus(status) = error else {
        return match error {
            Error::InvalidArgs(_) | Error::InvalidUri(_) => Failure::Refused(why),
            _ => Failure::Unsure(why),
        };
    };
    if was_not_sent(status) {
        return Failure::NotSent(why);
    }
    match status.code() as i32 {
        code::NOT_FOUND if status.message().contains("lease not found") => Failure::LeaseGone,
        // "too many requests" passes; a full database does not.
        code::RESOURCE_EXHAUSTED if status.message().contains("too many requests") => Failure::NotSent(why),
        code::INVALID_ARGUMENT
        | code::NOT_FOUND
        | code::ALREADY_EXISTS
        | code::PERMISSION_DENIED
        | code::RESOURCE_EXHAUSTED
        | code::FAILED_PRECONDITION
        | code::OUT_OF_RANGE
        | code::UNIMPLEMENTED
        | code::UNAUTHENTICATED => Failure::Refused(why),
        _ => Failure::Unsure(why),
    }
}

/// An error with what caused it.
pub(super) fn describe(error: &Error) -> String {
    let Error::GRpcStatus(status) = error else { return error.to_string() };
    let mut text = status.message().to_owned();
    let mut cause = status.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    text
}

/// Whether no member can have taken the request: nothing listens at the address, or the member has no leader to give it
/// to and says so before it looks at the request.
fn was_not_sent(status: &(impl StdError + 'static)) -> bool {
    if status.to_string().contains("etcdserver: no leader") {
        return true;
    }
    let mut cause = status.source();
    while let Some(inner) = cause {
        let refused = inner.downcast_ref::<io::Error>().map(io::Error::kind) == Some(io::ErrorKind::ConnectionRefused);
        if refused {
            return true;
        }
        cause = inner.source();
    }
    false
}
