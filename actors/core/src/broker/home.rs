//! Whose a host's name is: the data folder's whose agent spoke first, until a person gives it to another.
//!
//! Only the records in that folder know which containers are on the machine. An agent with another folder has nothing to
//! list, and if it could speak for the host, everything would seem to be gone.

use alloc::{format, string::String};
use polder_types::{HomeId, HostId, Timestamp};

use super::{
    drain::{cut, done},
    event::{Done, Refused},
    hosts::{Broker, Host, Out, tell},
    state::DrainState,
};
use crate::message::HostHealth;

impl Host {
    pub(super) fn belongs_to(&self, now: Timestamp, home: HomeId) -> Result<(), Refused> {
        match self.record.home {
            Some(owner) if owner != home => Err(Refused::NameTaken {
                host: self.record.info.id.clone(),
                home: owner,
                silent: match self.health {
                    HostHealth::Unknown { since } => Some(now.since(self.heard_at.unwrap_or(since))),
                    HostHealth::Ready => None,
                },
            }),
            _ => Ok(()),
        }
    }
}

impl Broker {
    pub(super) fn answer(&mut self, id: &HostId) -> Result<Done, Refused> {
        self.known(id).map(|entry| done(entry, false))
    }

    pub(super) fn readmit(
        &mut self,
        out: &mut Out,
        now: Timestamp,
        id: &HostId,
        by: String,
        reason: String,
    ) -> Result<Done, Refused> {
        let entry = self.known(id)?;
        if !entry.is_silent() {
            return Err(Refused::Heard { host: id.clone() });
        }
        let Some(old) = entry.record.home.take() else { return Ok(done(entry, false)) };
        // Links are numbered by folder.
        entry.session = Default::default();
        entry.linked = false;
        let left = entry.remaining.clone();
        // Whoever takes the name can't swear for the folder that is gone.
        let unsworn = match entry.record.drain.as_mut() {
            Some(drain) if drain.state == DrainState::Draining => {
                drain.state = DrainState::Unattested;
                drain.ended_at = Some(now);
                drain.left = left;
                true
            }
            _ => false,
        };
        let answer = done(entry, true);
        self.save(out, id);
        let drain = if unsworn { "; its drain ended as unattested" } else { "" };
        let message = format!(
            "its name was freed by {} ({}): the next agent that calls itself so takes it over from data folder {old}{drain}",
            cut(by),
            cut(reason)
        );
        tell(out, "host_readmitted", id, message);
        Ok(answer)
    }
}
