//! The surroundings of a broker.

use crate::{keys, meter::RegionMeter, region::Region};
use polder_core::{
    broker::{Broker, Config, Delta, Effect, Event, HostRecord},
    machine::Effects,
};
use polder_node::{OwnerJournal, Seat, Write, read_all, value};
use polder_shell::{ActorKind, Journal, Panic, RestoreError, Restoring, Role};
use polder_store::owner::OwnerKey;
use polder_types::{DatacenterId, HostId, Timestamp};
use std::sync::Arc;

/// A broker's surroundings.
pub(crate) struct BrokerRole {
    region: Arc<Region>,
    seat: Arc<Seat>,
    datacenter: DatacenterId,
    journal: Arc<OwnerJournal<Delta>>,
}

impl BrokerRole {
    pub(crate) fn new(region: Arc<Region>, seat: Arc<Seat>, datacenter: DatacenterId) -> Self {
        let store = Arc::clone(&region.store);
        let place = datacenter.clone();
        let journal = Arc::new(OwnerJournal::new(store, move |delta| encode(&place, delta)));
        Self { region, seat, datacenter, journal }
    }
}

fn encode(datacenter: &DatacenterId, delta: Delta) -> Result<Write, String> {
    match delta {
        Delta::PutHost(record) => {
            let value = value(&*record)?;
            Ok(Write::Put { key: keys::broker_host(datacenter, &record.info.id), value })
        }
    }
}

impl Role for BrokerRole {
    const KIND: ActorKind = ActorKind::Broker;

    type Machine = Broker;
    type Key = HostId;

    async fn restore(&mut self, restoring: Restoring<'_, HostId>) -> Result<(Broker, Effects<Broker>), RestoreError> {
        let owned = self.seat.take(&OwnerKey::broker(&self.datacenter)).await?;
        let hosts: Vec<HostRecord> = read_all(&*self.region.store, &keys::broker(&self.datacenter)).await?;
        for host in &hosts {
            if let Err(problem) = self.region.brokers.learn(&host.info.id, &self.datacenter) {
                tracing::warn!("{problem}");
            }
        }
        self.journal.own(owned);
        let mut config = Config::new(self.datacenter.clone());
        config.silent_after = self.region.config.silent_after;
        Ok(Broker::restore(config, hosts, restoring.now))
    }

    fn journal(&self) -> Arc<dyn Journal<Delta>> {
        Arc::clone(&self.journal) as Arc<dyn Journal<Delta>>
    }

    fn execute(&mut self, _now: Timestamp, effect: Effect) {
        match effect {
            Effect::Host(notice) => self.region.spread_host_notice(&notice),
            Effect::Order { host, order } => self.region.order(&host, order),
            Effect::LinkReply { reply, result } => self.region.link_replies.answer(reply, result),
            Effect::Reply { reply, result } => self.region.broker_replies.answer(reply, result),
            Effect::Notice(notice) => {
                RegionMeter::noticed(notice.kind);
                self.region.notice(notice);
            }
        }
    }

    fn poisoned(&mut self, blame: Option<&HostId>, panic: &Panic) {
        self.region.step_failed(&OwnerKey::broker(&self.datacenter), blame, panic);
    }

    fn culprit(&self, event: &Event) -> Option<HostId> {
        Some(match event {
            Event::HostLinked { info, .. } => info.id.clone(),
            Event::HostHeard { host, .. }
            | Event::HostUnlinked { host, .. }
            | Event::DrainAttested { host, .. }
            | Event::StartRefused { host, .. }
            | Event::Cordon { host, .. }
            | Event::Uncordon { host, .. }
            | Event::Drain { host, .. }
            | Event::AbortDrain { host, .. }
            | Event::Readmit { host, .. } => host.clone(),
        })
    }
}
