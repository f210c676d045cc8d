//! Silence is no verdict: a task is replaced only when its host was not heard for as long as the job says.

use super::{SILENCE, World};
use crate::names::{BrokerAt, HostAt, host_number};
use polder_core::broker::{Event, limits::RECOVERED_AFTER, limits::SILENT_AFTER};
use polder_core::job_shard::Placement;
use polder_types::{ContainerId, HostId, JobId};
use std::collections::BTreeMap;

/// How long a shard may go without knowing that a host was heard again.
const LAG: u64 = 90_000;

/// When a host was heard.
#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    /// Last, or when its broker began to listen.
    last: u64,
    /// Earlier silence that was not made up for.
    earlier: u64,
    healthy_since: u64,
}

/// What is remembered of hosts.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    hosts: BTreeMap<HostAt, Heard>,
    /// How it was before it was heard again, and when that was.
    before: BTreeMap<HostAt, Vec<(u64, Heard)>>,
}

impl Silence {
    fn hear(&mut self, at: HostAt, now: u64) {
        let heard = self.hosts.entry(at).or_insert(Heard { last: now, earlier: 0, healthy_since: now });
        let gap = now - heard.last;
        if gap >= SILENT_AFTER.0 {
            self.before.entry(at).or_default().push((now, *heard));
            *heard = Heard { last: now, earlier: heard.earlier + gap, healthy_since: now };
            return;
        }
        if now - heard.healthy_since >= RECOVERED_AFTER.0 {
            heard.earlier = 0;
        }
        heard.last = now;
    }

    fn begin(&mut self, at: HostAt, now: u64) {
        let fresh = Heard { last: now, earlier: 0, healthy_since: now };
        if let Some(was) = self.hosts.insert(at, fresh) {
            self.before.entry(at).or_default().push((now, was));
        }
    }

    /// The longest silence that a shard may believe in.
    fn longest(&self, at: HostAt, now: u64) -> u64 {
        let of = |heard: &Heard| heard.earlier + (now - heard.last);
        let lately = self.before.get(&at).into_iter().flatten().filter(|(until, _)| until + LAG >= now);
        let earlier = lately.map(|(_, heard)| of(heard)).max().unwrap_or_default();
        self.hosts.get(&at).map(of).unwrap_or_default().max(earlier)
    }
}

impl World {
    fn host_named(&self, region: u8, id: &HostId) -> Option<HostAt> {
        Some(HostAt { region, host: host_number(id)? })
    }

    /// A broker hears a host.
    pub(crate) fn see_heard(&mut self, at: BrokerAt, event: &Event) {
        let id = match event {
            Event::HostLinked { info, .. } => &info.id,
            Event::HostHeard { host, .. } | Event::DrainAttested { host, .. } => host,
            _ => return,
        };
        let now = self.now;
        if let Some(host) = self.host_named(at.node.region, id) {
            self.oracles.silence.hear(host, now);
        }
    }

    /// A broker begins to listen.
    pub(crate) fn broker_restored(&mut self, at: BrokerAt) {
        let now = self.now;
        let hosts: Vec<HostAt> = self
            .hosts()
            .filter(|(host, sim)| host.region == at.node.region && sim.datacenter == at.datacenter)
            .map(|(host, _)| host)
            .collect();
        for host in hosts {
            self.oracles.silence.begin(host, now);
        }
    }

    /// A container is put aside because its host is silent.
    pub(crate) fn see_replaced(&mut self, region: u8, shard: u16, id: &ContainerId, placement: &Placement) {
        self.counts.look(SILENCE);
        let job: &JobId = &id.task.job;
        let Some(patience) = self.region(region).store.jobs.get(&(shard, job.clone())) else { return };
        let patience = patience.slice.spec.replace_after.0;
        let Some(at) = self.host_named(region, &placement.host) else { return };
        let silent = self.oracles.silence.longest(at, self.now);
        if silent < patience {
            self.violated(
                SILENCE,
                format!(
                    "{id} is replaced after its host {at} was silent for {silent} ms, and its job allows {patience} ms"
                ),
            );
        }
    }
}
