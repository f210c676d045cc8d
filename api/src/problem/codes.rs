//! The codes of errors: an append-only list. A code that was published keeps its meaning for ever.

use core::fmt;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $status:literal, $retry:literal, $title:literal;)+) => {
        /// What kind of error it is: stable, for programs. New ones are only added.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[doc = $doc])+ $name,)+
            /// A code of a newer server, which this program does not know.
            Other(String),
        }

        impl Code {
            /// Every code that this version knows, oldest first.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Its text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$name => $text,)+
                    Self::Other(text) => text,
                }
            }

            /// The HTTP status it comes with.
            #[must_use]
            pub const fn status(&self) -> u16 {
                match self {
                    $(Self::$name => $status,)+
                    Self::Other(_) => 500,
                }
            }

            /// Whether the same request may succeed later.
            #[must_use]
            pub const fn retryable(&self) -> bool {
                match self {
                    $(Self::$name => $retry,)+
                    Self::Other(_) => false,
                }
            }

            /// What happened, in a few words that are the same each time.
            #[must_use]
            pub fn title(&self) -> &str {
                match self {
                    $(Self::$name => $title,)+
                    Self::Other(text) => text,
                }
            }

            /// What it means and what to do, for the reference.
            #[must_use]
            pub const fn doc(&self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($doc, "\n"),+),)+
                    Self::Other(_) => "",
                }
            }
        }

        impl From<&str> for Code {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$name,)+
                    other => Self::Other(other.chars().take(CODE_CHARS_MAX).collect()),
                }
            }
        }
    };
}

/// Longest code that is kept of a server's answer.
const CODE_CHARS_MAX: usize = 64;

codes! {
    /// The text is not TOML or JSON at all: a bracket is missing, a string is not closed. Correct it at the line given.
    JobFileSyntax = "job_file_syntax", 400, false, "the job file can't be read";
    /// The text is over the limit of its size, depth or encoding. Limits are in the job file's reference.
    JobFileLimit = "job_file_limit", 400, false, "the job file is over a limit";
    /// A field has the wrong type, is missing, is unknown or contradicts another. Each is listed in `fields`.
    JobFileInvalid = "job_file_invalid", 422, false, "the job file is not valid";
    /// The request is malformed: an id in the path that is no id, a query that can't be understood, a body that is not JSON.
    BadRequest = "bad_request", 400, false, "the request is malformed";
    /// The body is larger than the server reads.
    BodyTooLarge = "body_too_large", 413, false, "the body is too large";
    /// The job in the path is not the one in the body.
    JobMismatch = "job_mismatch", 400, false, "path and body name different jobs";
    /// There is no such job. `polder status` lists those there are.
    JobNotFound = "job_not_found", 404, false, "no such job";
    /// The job has no such task, or no longer.
    TaskNotFound = "task_not_found", 404, false, "no such task";
    /// There is no such host. `polder hosts` lists those there are.
    HostNotFound = "host_not_found", 404, false, "no such host";
    /// The host has no drain, now or before.
    DrainNotFound = "drain_not_found", 404, false, "no such drain";
    /// The account has no quota. Set one with `polder quota set`.
    QuotaNotFound = "quota_not_found", 404, false, "no such quota";
    /// The federation knows no region of that name.
    RegionNotFound = "region_not_found", 404, false, "no such region";
    /// There is nothing at this path. `/v1/openapi.json` lists what there is.
    PathNotFound = "path_not_found", 404, false, "no such path";
    /// The path exists, but not with this method.
    MethodNotAllowed = "method_not_allowed", 405, false, "no such method here";
    /// The account's quota leaves too little. The detail says by how much; ask for more or stop something.
    QuotaExceeded = "quota_exceeded", 403, false, "the account is over its quota";
    /// The parts of the regions add up to more than the quota.
    QuotaInconsistent = "quota_inconsistent", 422, false, "the quota's parts don't fit in the whole";
    /// What was sent is older than what is there, or somebody changed it meanwhile. Read it again and decide anew.
    VersionConflict = "version_conflict", 409, false, "somebody changed it meanwhile";
    /// A drain of this host is in progress with another deadline. Abort it first, or wait.
    DrainInProgress = "drain_in_progress", 409, false, "the host is being drained";
    /// The task has no container whose logs could be read: it waits, or its host forgot it.
    LogsNotFound = "logs_not_found", 404, false, "there are no logs";
    /// The host that holds what was asked for is not heard. What it runs goes on running.
    HostUnreachable = "host_unreachable", 503, true, "the host can't be reached";
    /// The region that holds what was asked for is not heard. What it runs goes on running.
    RegionUnreachable = "region_unreachable", 503, true, "the region can't be reached";
    /// The process starts, or its store or leader is changing. Try again in a moment.
    NotReady = "not_ready", 503, true, "not ready yet";
    /// Too much is waiting to be done. Try again in a moment.
    Overloaded = "overloaded", 429, true, "too many requests";
    /// The answer did not come in time. What was asked may still happen.
    Timeout = "timeout", 504, true, "no answer in time";
    /// The store could not be written, or it is unknown whether it was. Look before you try again.
    StoreUnavailable = "store_unavailable", 503, true, "the store is not available";
    /// The host is heard, so its name can't be given to another agent. Stop the one that speaks for it first.
    HostHeard = "host_heard", 409, false, "the host is heard";
    /// The quota is the federation's to set: a region holds a part of it. Set it at the federation's address.
    QuotaOfFederation = "quota_of_federation", 409, false, "the quota is the federation's";
    /// The job was applied at the federation, which alone changes, stops and deletes it. Use the federation's address.
    JobOfFederation = "job_of_federation", 409, false, "the job is the federation's";
    /// A job of that name was applied at the region itself. Stop and delete it there, or choose another name.
    JobNameTaken = "job_name_taken", 409, false, "the name is taken";
    /// A service can't become a batch, nor the other way round. Delete the job first, or choose another name.
    JobKindChanged = "job_kind_changed", 409, false, "a job can't change its kind";
    /// Only a job that was stopped is deleted. `polder delete JOB --stop` does both.
    JobNotStopped = "job_not_stopped", 409, false, "the job is not stopped";
    /// Something of the job is left, or may be: a container that ends, a region that is not heard. Wait until it is gone.
    JobNotGone = "job_not_gone", 409, false, "something of the job is left";
    /// The job is being deleted: its name is free when every region has said that it has forgotten it.
    JobBeingDeleted = "job_being_deleted", 409, false, "the job is being deleted";
    /// A fault of Polder's own. The server's log has more.
    Internal = "internal", 500, false, "an internal error";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from(String::deserialize(deserializer)?.as_str()))
    }
}
