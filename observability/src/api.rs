//! Requests.

use crate::{buckets, family::families};

families! {
    /// Requests to the HTTP API. The route is the pattern (`/v1/jobs/{job}`), never the path.
    pub struct Api {
        /// Requests that were answered, by the pattern of their path, their method and the status of the answer.
        requests: Counters<3> = "polder_http_requests_total" ["route", "method", "status"];
        /// How long requests took to answer, in seconds; streams are left out.
        seconds: Timings<2> = "polder_http_request_seconds" ["route", "method"] in buckets::CALLS;
    }
}
