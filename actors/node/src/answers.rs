//! Parts of answers that every API of Polder gives alike.

use crate::replies::NoAnswer;
use polder_api::{Code, Problem, dto::Page};
use polder_core::machine::Machine;
use polder_shell::{Handle, QueryError};
use std::time::Duration;

/// How long a machine may take until it can be read: it can't be while it is restored.
pub const READ_TIMEOUT: Duration = Duration::from_secs(5);

impl From<NoAnswer> for Problem {
    fn from(what: NoAnswer) -> Self {
        match what {
            NoAnswer::Busy => Self::new(Code::Overloaded, "too many requests wait, or the actor is starting"),
            NoAnswer::Unknown => {
                Self::new(Code::Timeout, "no answer came in time, so whether it was done is not known")
                    .with_hint("look at the status before trying again; trying again does no harm")
            }
        }
    }
}

/// What to say when a machine can't be read; `stopped` when there is none.
pub fn unread(error: QueryError, stopped: impl FnOnce() -> Problem) -> Problem {
    match error {
        QueryError::Closed => stopped(),
        QueryError::Panicked => Problem::new(Code::Internal, "reading the state failed; the node's log says where"),
    }
}

/// Reads a machine for an answer.
///
/// # Errors
/// When it was stopped, in the words of `stopped`, when it can't be read in time, or when reading it panics.
pub async fn read_machine<M: Machine, T: Send + 'static>(
    machine: &Handle<M>,
    stopped: impl FnOnce() -> Problem,
    read: impl FnOnce(&M) -> T + Send + 'static,
) -> Result<T, Problem> {
    match tokio::time::timeout(READ_TIMEOUT, machine.query(read)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(unread(error, stopped)),
        Err(_) => {
            let detail = format!("{} could not be read in time: {}", machine.name(), machine.status().state);
            Err(Problem::new(Code::NotReady, detail).with_hint("try again in a moment"))
        }
    }
}

/// One page of a list, and where the next one begins.
///
/// The list is put in the order of `key`, since that is what pages are told apart by: an order of other things, such as
/// of accounts before names, would make pages skip what it sorts otherwise.
pub fn page<T>(mut items: Vec<T>, page: &Page, key: impl Fn(&T) -> String) -> (Vec<T>, Option<String>) {
    items.sort_by_cached_key(&key);
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let mut rest = items.into_iter().filter(|item| page.after.as_ref().is_none_or(|after| key(item) > *after));
    let taken: Vec<T> = rest.by_ref().take(limit).collect();
    let next = if rest.next().is_some() { taken.last().map(key) } else { None };
    (taken, next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use polder_types::JobId;

    #[test]
    fn pages_follow_each_other_without_a_gap() {
        // Ids sort by account first, and texts do not.
        let mut all: Vec<JobId> = ["a/x", "a-b/x", "a/y", "c/x", "c-d/x"].map(|id| id.parse().unwrap()).to_vec();
        all.sort();
        let mut after = None;
        let mut seen = Vec::new();
        loop {
            let (items, next) = page(all.clone(), &Page { limit: 2, after }, JobId::to_string);
            assert!(items.len() <= 2);
            seen.extend(items);
            let Some(next) = next else { break };
            after = Some(next);
        }
        seen.sort();
        assert_eq!(seen, all);
    }
}
