//! Drains: no more starts, and an oath when nothing is left.

use super::{
    container::Run,
    event::{Delta, Effect},
    order::end_unstarted,
    record::{DrainRecord, DrainState},
    state::Host,
};
use crate::{
    machine::Effects,
    message::{DrainAttestation, DrainOrder},
};
use alloc::vec::Vec;
use polder_types::{ContainerId, DrainVersion, Timestamp};

impl Host {
    pub(super) fn on_drain(&mut self, fx: &mut Effects<Self>, order: DrainOrder) {
        let forced = match &self.drain {
            Some(known) if known.version > order.version => return,
            Some(DrainRecord { version, state }) if *version == order.version => match state {
                DrainState::Over => return,
                DrainState::Open { deadline, .. } if *deadline == order.deadline => {
                    // A repetition: whoever repeats it has not heard the oath.
                    self.attested = None;
                    return;
                }
                DrainState::Open { forced, .. } => forced.clone(),
            },
            _ => None,
        };
        self.put_drain(fx, order.version, DrainState::Open { deadline: order.deadline, forced });
    }

    pub(super) fn on_force_drain(&mut self, fx: &mut Effects<Self>, now: Timestamp, version: DrainVersion) {
        let (deadline, earlier) = match &self.drain {
            Some(known) if known.version > version => return,
            Some(DrainRecord { version: known, state }) if *known == version => match state {
                DrainState::Over => return,
                DrainState::Open { deadline, forced } => (*deadline, forced.clone()),
            },
            // The order to drain was lost on its way.
            _ => (now, None),
        };
        let mut forced = earlier.clone().unwrap_or_default();
        for (id, container) in &mut self.containers {
            match container.run {
                Run::Waiting => {
                    end_unstarted(fx, container, "its host was drained by force before it started", now);
                    self.changed.insert(id.clone());
                }
                Run::Launching | Run::Running | Run::Unseen => {
                    if !forced.contains(id) {
                        forced.push(id.clone());
                    }
                    if let Some(record) =
                        container.record.as_mut().filter(|record| record.kill_at.is_none_or(|at| at > now))
                    {
                        record.kill_at = Some(now);
                        fx.persist(Delta::PutContainer(record.clone()));
                        self.changed.insert(id.clone());
                    }
                    container.killed(now);
                    fx.after(Effect::Kill { id: id.clone() });
                }
                Run::Removing { .. } | Run::Gone => {}
            }
        }
        if earlier.as_ref() == Some(&forced) && self.open_drain() == Some(version) {
            self.attested = None;
        } else {
            self.put_drain(fx, version, DrainState::Open { deadline, forced: Some(forced) });
        }
    }

    pub(super) fn on_end_drain(&mut self, fx: &mut Effects<Self>, version: DrainVersion) {
        let known = self.drain.as_ref().map(|drain| drain.version);
        let over = self.drain.as_ref().is_some_and(|drain| drain.state == DrainState::Over);
        if known > Some(version) || (known == Some(version) && over) {
            return;
        }
        self.put_drain(fx, version, DrainState::Over);
    }

    fn put_drain(&mut self, fx: &mut Effects<Self>, version: DrainVersion, state: DrainState) {
        let record = DrainRecord { version, state };
        fx.persist(Delta::PutDrain(record.clone()));
        self.drain = Some(record);
        self.attested = None;
    }

    /// What the host can swear about its open drain.
    pub(super) fn attestation(&self) -> Option<DrainAttestation> {
        let DrainRecord { version, state: DrainState::Open { forced, .. } } = self.drain.as_ref()? else { return None };
        let remaining: Vec<ContainerId> = self
            .containers
            .iter()
            .filter(|(_, container)| container.run != Run::Gone)
            .map(|(id, _)| id.clone())
            .collect();
        let forced = forced.clone().unwrap_or_default();
        Some(DrainAttestation { version: *version, boot: self.config.boot.clone(), remaining, forced })
    }
}
