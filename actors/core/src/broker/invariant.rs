//! What must always hold, recounted from the records.

use alloc::{collections::BTreeSet, format, string::String};

use super::{
    hosts::{Broker, Pending, What},
    state::DrainState,
};
use crate::machine::Violation;

fn hold(rule: &'static str, holds: bool, found: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { rule, found: found() }) }
}

impl Broker {
    pub(super) fn recount(&self) -> Result<(), Violation> {
        let due: BTreeSet<_> =
            self.hosts.iter().filter_map(|(id, entry)| entry.due.map(|at| (at, id.clone()))).collect();
        hold("each deadline is known once", due == self.due, || format!("{:?} instead of {due:?}", self.due))?;
        for (id, entry) in &self.hosts {
            let record = &entry.record;
            let name = || format!("{id}: {record:?}, {:?}", entry.order);
            hold("a host is filed under its name", record.info.id == *id && *entry.info == record.info, name)?;
            hold("a host that is heard was heard", entry.is_silent() || entry.heard_at.is_some(), name)?;
            let standing = record.closing_drain().is_some();
            let told = match entry.order {
                Some(Pending { what: What::Drain | What::Force, .. }) => standing,
                Some(Pending { what: What::End(_), .. }) => !standing,
                None => true,
            };
            hold("a host is told what is so of its drain", told, name)?;
            if let Some(drain) = &record.drain {
                hold("the newest drain has the highest number", drain.version == record.drains, name)?;
                hold(
                    "a drain that ended says when",
                    (drain.state == DrainState::Draining) == drain.ended_at.is_none(),
                    name,
                )?;
                hold(
                    "only what was killed makes a drain forced",
                    (drain.state != DrainState::Forced) || !drain.forced.is_empty(),
                    name,
                )?;
                hold(
                    "a drain in progress keeps its host closed",
                    drain.state != DrainState::Draining || drain.closes(),
                    name,
                )?;
            }
        }
        Ok(())
    }
}
