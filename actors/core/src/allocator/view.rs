//! What others may read of the allocator.

use super::{
    CHOICES_SHOWN_MAX,
    quota::Admission,
    score::{self, Score},
    search::Search,
    state::Allocator,
};
use crate::message::{PlacementReport, RequestId, TaskShape};
use alloc::{collections::BTreeSet, string::String, vec::Vec};
use polder_types::{AccountId, Allotment, Amounts, HostId, JobId, TaskId, Timestamp, Usage};

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
    /// What its shard was told last of the first of them; none before the first try.
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

impl Allocator {
    /// Where one more task of a job would go now, and why, or why nowhere.
    #[must_use]
    pub fn explain(&self, job: &JobId, shape: &TaskShape) -> Explanation {
        let mut search = Search::new(&self.books, job, shape);
        let mut report = search.report(None);
        // A slot that no job has, so that nothing of it is charged.
        let new = TaskId { job: job.clone(), index: u32::MAX };
        let admission = Admission::new(&self.books, &self.allotments, &job.account, shape.resources);
        report.quota = admission.look(&new).err();
        let scores = search.choices(CHOICES_SHOWN_MAX + 1);
        let choice = |at: usize| Choice {
            host: scores[at].host.clone(),
            score: scores[at].clone(),
            why: score::why(&scores[at], scores.get(at + 1)),
        };
        Explanation { report, choices: (0..scores.len().min(CHOICES_SHOWN_MAX)).map(choice).collect() }
    }

    /// What is charged on a host, grants that are not placed yet included.
    #[must_use]
    pub fn host_usage(&self, host: &HostId) -> Usage {
        self.books.hosts.get(host).map(|host| host.used).unwrap_or_default()
    }

    /// What is charged on each host.
    pub fn host_usages(&self) -> impl Iterator<Item = HostUsageView> + '_ {
        self.books.hosts.iter().map(|(id, host)| HostUsageView { host: id.clone(), used: host.used })
    }

    /// What an account and those below it use, and may use.
    #[must_use]
    pub fn account_usage(&self, account: &AccountId) -> AccountView {
        AccountView {
            account: account.clone(),
            limit: self.allotments.get(account).map(|allotment| allotment.limit),
            used: self.books.accounts.get(account).copied().unwrap_or_default(),
        }
    }

    /// The allotment that an account is admitted against.
    #[must_use]
    pub fn allotment(&self, account: &AccountId) -> Option<&Allotment> {
        self.allotments.get(account)
    }

    /// Every account that uses anything or has an allotment, in order.
    #[must_use]
    pub fn account_usages(&self) -> Vec<AccountView> {
        let accounts: BTreeSet<&AccountId> = self.books.accounts.keys().chain(self.allotments.keys()).collect();
        accounts.into_iter().map(|account| self.account_usage(account)).collect()
    }

    /// Every request of which tasks wait.
    pub fn waiting(&self) -> impl Iterator<Item = WaitingView> + '_ {
        self.queue.requests.iter().map(|(id, waiting)| WaitingView {
            request: *id,
            job: waiting.job.clone(),
            tasks: waiting.tasks.keys().copied().collect(),
            since: waiting.since,
            report: waiting.told.values().next().map(|(report, _)| (**report).clone()),
        })
    }

    /// How many grants are not placed yet.
    #[must_use]
    pub fn unplaced(&self) -> usize {
        self.books.overdue.len()
    }
}
