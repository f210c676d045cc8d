//! Recounts the books.

use super::{books::Books, queue, state::Allocator};
use crate::machine::Violation;
use alloc::format;

impl Allocator {
    /// Recounts everything that is cached from the charges alone, and looks at the rules of the queue.
    pub(super) fn recount(&self) -> Result<(), Violation> {
        let mut again = Books::default();
        for held in self.books.held.values() {
            again.charge(held.clone());
        }
        for (id, host) in &self.books.hosts {
            let counted = again.hosts.remove(id).unwrap_or_default();
            if (counted.used, &counted.ports) != (host.used, &host.ports) {
                let found = format!("{id} has {:?}, its charges give {:?}", host.used, counted.used);
                return Err(Violation { rule: "a host is charged what its containers take", found });
            }
            if host.known.is_none() && host.used.containers == 0 {
                let found = format!("{id} is kept without a charge");
                return Err(Violation { rule: "a forgotten host is kept for its charges only", found });
            }
        }
        if let Some(id) = again.hosts.keys().next() {
            let found = format!("{id} has charges and is not on record");
            return Err(Violation { rule: "a host is charged what its containers take", found });
        }
        if again.accounts != self.books.accounts {
            let found = format!("{:?}, tasks give {:?}", self.books.accounts, again.accounts);
            return Err(Violation { rule: "an account is charged what its tasks take", found });
        }
        if again.overdue != self.books.overdue {
            let found = format!("{} timers for {} grants", self.books.overdue.len(), again.overdue.len());
            return Err(Violation { rule: "each grant that is not placed has a timer", found });
        }
        self.recount_queue()
    }

    fn recount_queue(&self) -> Result<(), Violation> {
        let rule = "what is to be tried waits";
        for place in &self.queue.untried {
            let waiting = self.queue.requests.get(&place.2);
            if waiting.is_none_or(|waiting| queue::place(place.2, waiting) != *place) {
                return Err(Violation { rule, found: format!("{place:?} does not") });
            }
        }
        for (id, waiting) in &self.queue.requests {
            if waiting.tasks.is_empty() {
                return Err(Violation { rule: "a waiting request has tasks", found: format!("{id:?} has none") });
            }
            if self.owners.get(&id.shard).is_none_or(|owner| *owner != id.owner) {
                let found = format!("{id:?} is of another owner");
                return Err(Violation { rule: "only the newest owner's requests wait", found });
            }
        }
        Ok(())
    }
}
