//! A task has one live container, but for those that were put aside while their hosts were silent.

use super::{AT_MOST_ONE, World};
use crate::names::HostAt;
use polder_types::ContainerId;

impl World {
    /// A container starts: what else of its task runs?
    pub(crate) fn see_alone(&mut self, at: HostAt, id: &ContainerId) {
        self.counts.look(AT_MOST_ONE);
        let alive = self.oracles.alive.entry(id.task.clone()).or_default();
        let others: Vec<(HostAt, ContainerId)> = alive.iter().cloned().collect();
        alive.insert((at, id.clone()));
        for (host, other) in others {
            let books = &self.oracles.books[usize::from(host.region)];
            // Either may be the one that was put aside: its start may have been under way.
            let aside = [id, &other].into_iter().any(|id| books.placed.get(id).is_some_and(|placed| placed.lingering));
            let problem = if host == at {
                Some("on the same host")
            } else if host.region != at.region {
                Some("in another region")
            } else if !aside {
                Some("on another host, and was not put aside")
            } else {
                None
            };
            if let Some(problem) = problem {
                self.violated(AT_MOST_ONE, format!("{id} starts on {at} while {other} runs on {host}, {problem}"));
            }
        }
    }

    /// A container's processes have ended.
    pub(crate) fn see_gone(&mut self, at: HostAt, id: &ContainerId) {
        if let Some(alive) = self.oracles.alive.get_mut(&id.task) {
            alive.remove(&(at, id.clone()));
            if alive.is_empty() {
                self.oracles.alive.remove(&id.task);
            }
        }
    }
}
