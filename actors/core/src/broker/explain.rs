//! Answers to people: how hosts are and how drains go.

use alloc::{
    format,
    string::{String, ToString as _},
};
use core::ops::Bound;
use polder_types::HostId;

use super::{
    hosts::{Broker, Host},
    state::HostRecord,
    view::{DrainProgress, HostView},
};
use crate::{message::HostNotice, wording::counted};

impl Broker {
    /// What the allocator and the shards should know of every host: for one that was just restored.
    pub fn notices(&self) -> impl Iterator<Item = HostNotice> + '_ {
        self.notices_after(None)
    }

    /// The same for the hosts whose names come after this one: to tell many of them bit by bit.
    pub fn notices_after(&self, host: Option<&HostId>) -> impl Iterator<Item = HostNotice> + use<'_> {
        let from = host.map_or(Bound::Unbounded, Bound::Excluded);
        self.hosts.range::<HostId, _>((from, Bound::Unbounded)).map(|(_, host)| host.notice())
    }

    /// A host as it is stored.
    #[must_use]
    pub fn host_record(&self, host: &HostId) -> Option<&HostRecord> {
        self.hosts.get(host).map(|entry| &entry.record)
    }

    /// A host, for people.
    #[must_use]
    pub fn host(&self, host: &HostId) -> Option<HostView> {
        self.hosts.get(host).map(|entry| self.show(entry))
    }

    /// All hosts, by name.
    pub fn hosts(&self) -> impl Iterator<Item = HostView> + '_ {
        self.hosts.values().map(|entry| self.show(entry))
    }

    fn show(&self, entry: &Host) -> HostView {
        HostView {
            info: entry.record.info.clone(),
            boot: entry.record.boot.clone(),
            health: entry.health,
            linked: entry.linked,
            heard_at: entry.heard_at,
            registered_at: entry.record.registered_at,
            cordon: entry.record.cordon.clone(),
            drain: entry.record.drain.clone(),
            progress: self.progress(entry),
        }
    }

    fn progress(&self, entry: &Host) -> Option<DrainProgress> {
        let drain = entry.draining()?;
        let end = drain.deadline + self.config.attest_margin;
        let left = counted(entry.remaining.len(), "container");
        let forcing = matches!(entry.order, Some(super::hosts::Pending { what: super::hosts::What::Force, .. }));
        let (reason, deadline, then) = if entry.is_silent() {
            (String::from("the host is not heard"), end, "the drain ends as unattested")
        } else if forcing {
            (format!("what is left is being killed: {left}"), end, "the drain ends as unattested")
        } else if !entry.accepted {
            (String::from("the host has not answered the order yet"), drain.deadline, "what is left is killed")
        } else {
            (format!("it has {left} left"), drain.deadline, "what is left is killed")
        };
        Some(DrainProgress {
            accepted: entry.accepted,
            remaining: entry.remaining.clone(),
            reason,
            deadline,
            then: then.to_string(),
        })
    }
}
