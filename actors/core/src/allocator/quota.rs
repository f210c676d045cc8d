//! Whether an account may have one more task.

use super::books::Books;
use crate::message::QuotaShortfall;
use alloc::{collections::BTreeMap, vec::Vec};
use polder_types::{AccountId, Allotment, Amounts, Resources, TaskId};

/// An account and those above it: `shop/checkout`, `shop`.
#[must_use]
pub fn account_and_above(account: &AccountId) -> Vec<AccountId> {
    let text = account.as_str();
    let above = text.match_indices('/').rev().filter_map(|(at, _)| AccountId::new(&text[..at]).ok());
    core::iter::once(account.clone()).chain(above).collect()
}

/// What quota counts for a task with one container of these resources.
pub(super) fn amounts_of(resources: &Resources) -> Amounts {
    Amounts { cpu: resources.cpu, memory: resources.memory, tasks: 1 }
}

/// What quota counts for a task whose containers have these resources: the task once, with the largest of each
/// amount. None without a container.
#[must_use]
pub fn task_amounts(containers: &[Resources]) -> Option<Amounts> {
    containers.iter().map(amounts_of).reduce(|a, b| Amounts {
        cpu: a.cpu.max(b.cpu),
        memory: a.memory.max(b.memory),
        tasks: 1,
    })
}

/// Admits tasks of one job against the allotments of its accounts, counting those it has admitted before.
#[derive(Debug)]
pub(super) struct Admission<'a> {
    books: &'a Books,
    /// Each account on the way up that has an allotment, with what it uses.
    limits: Vec<(AccountId, Amounts, Amounts)>,
    resources: Resources,
}

impl<'a> Admission<'a> {
    pub(super) fn new(
        books: &'a Books,
        allotments: &BTreeMap<AccountId, Allotment>,
        account: &AccountId,
        resources: Resources,
    ) -> Self {
        let limit_and_use = |account: AccountId| {
            let limit = allotments.get(&account)?.limit;
            let used = books.accounts.get(&account).copied().unwrap_or_default();
            Some((account, limit, used))
        };
        let limits = account_and_above(account).into_iter().filter_map(limit_and_use).collect();
        Self { books, limits, resources }
    }

    /// Whether one more container of this task may be granted. What the task is charged already is never asked for
    /// again, so a task that runs is never refused, however far its account is above a limit that shrank.
    pub(super) fn look(&self, task: &TaskId) -> Result<Amounts, QuotaShortfall> {
        let asked = self.books.addition(task, &self.resources);
        let blocks = |limit: Amounts, used: Amounts| {
            let with = used.plus(asked);
            (asked.cpu.centi_cores() > 0 && with.cpu > limit.cpu)
                || (asked.memory.get() > 0 && with.memory > limit.memory)
                || (asked.tasks > 0 && with.tasks > limit.tasks)
        };
        match self.limits.iter().find(|(_, limit, used)| blocks(*limit, *used)) {
            Some((account, limit, used)) => {
                Err(QuotaShortfall { account: account.clone(), limit: *limit, used: *used, asked })
            }
            None => Ok(asked),
        }
    }

    /// Counts what [`Self::look`] said that a task adds.
    pub(super) fn take(&mut self, asked: Amounts) {
        for (_, _, used) in &mut self.limits {
            *used = used.plus(asked);
        }
    }
}
