//! The paths of the API: patterns for servers, builders for clients.
//!
//! Ids with slashes in them (`shop/checkout/web`) are one percent-encoded segment: `/v1/jobs/shop%2Fcheckout%2Fweb`.

use core::fmt::Display;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use polder_types::{AccountId, HostId, JobId, TaskId};

/// `GET`: all jobs.
pub const JOBS: &str = "/v1/jobs";
/// `GET`, `PUT` (apply), `DELETE` (stop): one job.
pub const JOB: &str = "/v1/jobs/{job}";
/// `POST`: forgets a stopped job.
pub const JOB_DELETE: &str = "/v1/jobs/{job}/delete";
/// `GET`: why a task is where it is, or what it waits for.
pub const TASK_WHY: &str = "/v1/tasks/{task}/why";
/// `GET`: what a task has printed, as text; `?follow=true&tail=100`.
pub const TASK_LOGS: &str = "/v1/tasks/{task}/logs";
/// `GET`: all hosts.
pub const HOSTS: &str = "/v1/hosts";
/// `POST`: no new tasks on this host.
pub const HOST_CORDON: &str = "/v1/hosts/{host}/cordon";
/// `POST`: new tasks again.
pub const HOST_READMIT: &str = "/v1/hosts/{host}/readmit";
/// `POST`: lets tasks come to a host again.
pub const HOST_UNCORDON: &str = "/v1/hosts/{host}/uncordon";
/// `POST` (begin), `GET`, `DELETE` (abort): the drain of a host.
pub const HOST_DRAIN: &str = "/v1/hosts/{host}/drain";
/// `GET`: all quotas.
pub const QUOTAS: &str = "/v1/quotas";
/// `GET`, `PUT`, `DELETE`: the quota of one account.
pub const QUOTA: &str = "/v1/quotas/{account}";
/// `GET`: what happened, newest last; with `?follow=true` a stream of server-sent events.
pub const EVENTS: &str = "/v1/events";
/// `GET`, region only: every slice with its status.
pub const SLICES: &str = "/v1/slices";
/// `PUT`, region only: a slice's whole content. `DELETE ?version=N`: forgets one of which nothing is left.
pub const SLICE: &str = "/v1/slices/{job}";
/// `PUT`, region only: an account's allotment.
pub const ALLOTMENT: &str = "/v1/allotments/{account}";
/// `GET`, region only: changes of slices' status as server-sent events.
pub const STATUS_WATCH: &str = "/v1/status/watch";
/// `GET`: every actor of this node, with its state and its mailbox.
pub const ACTORS: &str = "/v1/actors";
/// `GET`: the OpenAPI document.
pub const OPENAPI: &str = "/v1/openapi.json";
/// `GET`: whether the process lives.
pub const HEALTHZ: &str = "/healthz";
/// `GET`: whether the process can do its work; 503 when not.
pub const READYZ: &str = "/readyz";

/// `GET`: all that the process has counted and measured, as Prometheus reads it.
pub const METRICS: &str = "/metrics";

/// Everything but what may stand in a segment as it is.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

fn with(pattern: &str, id: &dyn Display) -> String {
    let id = id.to_string();
    let encoded = utf8_percent_encode(&id, SEGMENT).to_string();
    match (pattern.find('{'), pattern.find('}')) {
        (Some(from), Some(to)) => format!("{}{encoded}{}", &pattern[..from], &pattern[to + 1..]),
        _ => pattern.to_owned(),
    }
}

/// The path of a job.
#[must_use]
pub fn job(job: &JobId) -> String {
    with(JOB, job)
}

/// The path that forgets a stopped job.
#[must_use]
pub fn job_delete(job: &JobId) -> String {
    with(JOB_DELETE, job)
}

/// The path of a task's explanation.
#[must_use]
pub fn task_why(task: &TaskId) -> String {
    with(TASK_WHY, task)
}

/// The path of a task's logs.
#[must_use]
pub fn task_logs(task: &TaskId) -> String {
    with(TASK_LOGS, task)
}

/// The path that cordons a host.
#[must_use]
pub fn host_cordon(host: &HostId) -> String {
    with(HOST_CORDON, host)
}

/// The path that ends a host's cordon.
#[must_use]
pub fn host_uncordon(host: &HostId) -> String {
    with(HOST_UNCORDON, host)
}

/// The path that frees a silent host's name.
#[must_use]
pub fn host_readmit(host: &HostId) -> String {
    with(HOST_READMIT, host)
}

/// The path of a host's drain.
#[must_use]
pub fn host_drain(host: &HostId) -> String {
    with(HOST_DRAIN, host)
}

/// The path of an account's quota.
#[must_use]
pub fn quota(account: &AccountId) -> String {
    with(QUOTA, account)
}

/// The path of a job's slice in a region.
#[must_use]
pub fn slice(job: &JobId) -> String {
    with(SLICE, job)
}

/// The path of an account's allotment in a region.
#[must_use]
pub fn allotment(account: &AccountId) -> String {
    with(ALLOTMENT, account)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_with_slashes_are_one_segment() {
        let id: JobId = "shop/checkout/web".parse().unwrap();
        assert_eq!(job(&id), "/v1/jobs/shop%2Fcheckout%2Fweb");
        let task = TaskId { job: id, index: 3 };
        assert_eq!(task_logs(&task), "/v1/tasks/shop%2Fcheckout%2Fweb%2F3/logs");
        assert_eq!(host_drain(&HostId::new("eu-h1").unwrap()), "/v1/hosts/eu-h1/drain");
    }
}
