//! Store operations.

use crate::{buckets, family::families, values::Timing};
use std::time::Duration;

families! {
    /// What a process asks of its store.
    pub struct Stores {
        /// How long store operations took, in seconds, by what the store is, what was asked and what came of it.
        seconds: Timings<3> = "polder_store_operation_seconds" ["store", "operation", "outcome"] in buckets::CALLS;
    }
}

/// What is asked of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reading one key.
    Get,
    /// Reading a range.
    List,
    /// A transaction.
    Commit,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Ok,
    /// A compare did not hold; nothing was done.
    Conflict,
    /// It may have been done, or not.
    Unknown,
    /// The store could not answer.
    Error,
}

impl Operation {
    const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Commit => "commit",
        }
    }
}

impl Outcome {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Conflict => "conflict",
            Self::Unknown => "unknown",
            Self::Error => "error",
        }
    }
}

/// The handles of one store.
#[derive(Clone, Debug)]
pub struct StoreMeter {
    get: [Timing; 2],
    list: [Timing; 2],
    commit: [Timing; 3],
}

impl StoreMeter {
    /// Those of a store: `embedded` or `etcd`.
    #[must_use]
    pub fn of(store: &'static str) -> Self {
        let timing = |operation: Operation, outcome: Outcome| {
            Stores::shared().seconds.of([store, operation.name(), outcome.name()])
        };
        let read = |operation| [timing(operation, Outcome::Ok), timing(operation, Outcome::Error)];
        Self {
            get: read(Operation::Get),
            list: read(Operation::List),
            commit: [Outcome::Ok, Outcome::Conflict, Outcome::Unknown]
                .map(|outcome| timing(Operation::Commit, outcome)),
        }
    }

    /// An operation took this long. A read either comes or fails; a commit never only fails.
    pub fn took(&self, operation: Operation, outcome: Outcome, took: Duration) {
        let timings: &[Timing] = match operation {
            Operation::Get => &self.get,
            Operation::List => &self.list,
            Operation::Commit => &self.commit,
        };
        let at = match (operation, outcome) {
            (_, Outcome::Ok) => 0,
            (Operation::Commit, Outcome::Conflict) => 1,
            (Operation::Commit, _) => 2,
            (Operation::Get | Operation::List, _) => 1,
        };
        if let Some(timing) = timings.get(at) {
            timing.took(took);
        }
    }
}
