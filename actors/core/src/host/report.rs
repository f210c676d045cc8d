//! What the region is told, and when it is told again.
//!
//! A report may be lost between the link and the machine that it is for, and a machine that was restored has lost all
//! it heard. So everything is said again from time to time, and ends more often, until they are forgotten.

use super::{
    ALIVE_EVERY, ENDED_EVERY, FULL_EVERY, REPORT_CONTAINERS_MAX,
    event::Effect,
    state::{Host, Link},
};
use crate::{machine::Effects, message::HostReport};
use alloc::vec::Vec;
use core::mem;
use polder_types::{ContainerId, ContainerStatus, Timestamp};

impl Host {
    /// Everything, at the beginning of a link.
    pub(super) fn report_inventory(&mut self, fx: &mut Effects<Self>, now: Timestamp) {
        self.changed.clear();
        for container in self.containers.values_mut() {
            container.said_at = now;
        }
        self.attested = self.attestation();
        let known = self.containers.iter().filter(|(_, container)| container.is_known());
        let containers = known.map(|(id, container)| container.status(id, now)).collect();
        fx.after(Effect::Report(HostReport::Inventory {
            info: self.config.info.clone(),
            boot: self.config.boot.clone(),
            containers,
            drain: self.attested.clone(),
        }));
    }

    /// What changed in this step.
    pub(super) fn report_changes(&mut self, fx: &mut Effects<Self>, now: Timestamp) {
        let changed = mem::take(&mut self.changed);
        if self.link.is_none() {
            return;
        }
        self.say(fx, now, changed.into_iter().collect());
        let attestation = self.attestation();
        if let Some(attestation) = attestation.as_ref().filter(|_| attestation != self.attested) {
            fx.after(Effect::Report(HostReport::Drain(attestation.clone())));
        }
        self.attested = attestation;
    }

    /// What is said again because time has passed.
    pub(super) fn wake_link(&mut self, fx: &mut Effects<Self>, now: Timestamp) {
        let Some(link) = self.link else { return };
        if link.alive_at > now && link.full_at > now {
            return;
        }
        let full = link.full_at <= now;
        let again: Vec<ContainerId> = self
            .containers
            .iter()
            .filter(|(_, container)| full || (container.is_over() && now.since(container.said_at) >= ENDED_EVERY))
            .map(|(id, _)| id.clone())
            .collect();
        let full_at = if full { now + FULL_EVERY } else { link.full_at };
        self.link = Some(Link { alive_at: now + ALIVE_EVERY, full_at, ..link });
        fx.after(Effect::Report(HostReport::Alive));
        self.say(fx, now, again);
        if full {
            self.attested = None;
        }
    }

    fn say(&mut self, fx: &mut Effects<Self>, now: Timestamp, containers: Vec<ContainerId>) {
        for some in containers.chunks(REPORT_CONTAINERS_MAX) {
            let statuses: Vec<ContainerStatus> = some
                .iter()
                .filter_map(|id| {
                    let container = self.containers.get_mut(id).filter(|container| container.is_known())?;
                    container.said_at = now;
                    Some(container.status(id, now))
                })
                .collect();
            if !statuses.is_empty() {
                fx.after(Effect::Report(HostReport::Changed { containers: statuses }));
            }
        }
    }
}
