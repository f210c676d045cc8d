//! Drained means gone: when a drain ends as drained or forced, no process of a task is left, and none comes until the host
//! is opened.

use super::{DRAINED, World};
use crate::names::{HostAt, host_number};
use polder_core::broker::{DrainState, HostRecord};
use polder_types::ContainerId;

impl World {
    /// A host's record is written.
    pub(crate) fn see_host(&mut self, region: u8, record: HostRecord) {
        let old = self.region(region).store.hosts.get(&record.info.id);
        let ended = |record: &HostRecord| {
            let drain = record.drain.as_ref()?;
            matches!(drain.state, DrainState::Drained | DrainState::Forced).then_some((drain.version, drain.state))
        };
        let was = old.and_then(ended);
        if let Some((old, new)) = old.map(|old| (old.drains, record.drains))
            && new < old
        {
            self.violated(DRAINED, format!("the drains of {} go back from {old} to {new}", record.info.id));
        }
        if let (Some(drain), Some(host)) = (&record.drain, host_number(&record.info.id)) {
            self.oracles.drains.insert((HostAt { region, host }, drain.version), drain.deadline);
        }
        if let Some((version, state)) = ended(&record)
            && was.map(|(version, _)| version) != Some(version)
            && let Some(host) = host_number(&record.info.id)
        {
            self.counts.look(DRAINED);
            let sim = self.host(HostAt { region, host });
            let left = sim.running().map(|(id, _)| id).chain(sim.launches.keys()).next().cloned();
            if let Some(left) = left {
                let what = format!("drain {version} of {} ends as {state}, and {left} is left", record.info.id);
                self.violated(DRAINED, what);
            }
        }
        self.region_mut(region).store.hosts.insert(record.info.id.clone(), record);
    }

    /// A container starts: its host may not be one that is drained.
    pub(crate) fn see_start_while_drained(&mut self, at: HostAt, id: &ContainerId) {
        let record = self.region(at.region).store.hosts.get(&self.host(at).id);
        let drain = record.and_then(|record| record.drain.as_ref()).filter(|drain| drain.closes());
        if let Some(drain) = drain
            && matches!(drain.state, DrainState::Drained | DrainState::Forced)
        {
            let what = format!("{id} starts on {at}, whose drain {} has ended as {}", drain.version, drain.state);
            self.violated(DRAINED, what);
        }
    }
}
