//! What others may read of the allocator.

use super::score::Score;
use crate::message::{PlacementReport, RequestId};
use alloc::{string::String, vec::Vec};
use polder_types::{AccountId, Amounts, HostId, JobId, Timestamp, Usage};

/// How an account does in this region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountView {
    /// The account.
    pub account: AccountId,
    /// What it may use here; none means without limit.
    pub limit: Option<Amounts>,
    /// What it and the accounts below it use.
    pub used: Amounts,
}

/// A host that could take a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The host.
    pub host: HostId,
    /// Its score; the least is the best.
    pub score: Score,
    /// Why it comes before the next one, for people.
    pub why: String,
}

/// Where one more task of a job would go, and why, or why nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Hosts looked at and ruled out, and the quota that blocks.
    pub report: PlacementReport,
    /// The best hosts, best first, [`super::CHOICES_SHOWN_MAX`] at most.
    pub choices: Vec<Choice>,
}

/// A request of which tasks still wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingView {
    /// The request.
    pub request: RequestId,
    /// The job.
    pub job: JobId,
    /// The slots.
    pub tasks: Vec<u32>,
    /// Since when.
    pub since: Timestamp,
    /// Why, as of the last try; none before the first.
    pub report: Option<PlacementReport>,
}

/// What is charged on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostUsageView {
    /// The host.
    pub host: HostId,
    /// What is charged.
    pub used: Usage,
}
