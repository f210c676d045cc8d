//! Which broker knows which host.

use polder_core::broker::{Broker, Event};
use polder_shell::{Handle, Port};
use polder_types::{DatacenterId, HostId, ShardId};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, OnceLock, PoisonError, RwLock},
};
use tokio::sync::{mpsc, oneshot};

/// Datacenters of a region; a host that names one more is refused, so that a typing error in a loop can't fill memory.
pub const DATACENTERS_MAX: usize = 256;
/// Hosts of a region, for the same reason.
pub(crate) const HOSTS_MAX: usize = 1_000_000;
/// Requests for new brokers that may wait.
pub(crate) const STARTS_WAITING_MAX: usize = 64;

/// Somebody who is told how hosts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Listener {
    Allocator,
    Shard(ShardId),
}

/// Asks for the broker of a datacenter to be started.
#[derive(Debug)]
pub(crate) struct StartBroker {
    pub(crate) datacenter: DatacenterId,
    pub(crate) answer: oneshot::Sender<Result<(), String>>,
}

#[derive(Debug, Default)]
struct Known {
    brokers: BTreeMap<DatacenterId, Handle<Broker>>,
    hosts: BTreeMap<HostId, DatacenterId>,
}

/// The brokers of this node.
#[derive(Debug, Default)]
pub(crate) struct Brokers {
    known: RwLock<Known>,
    starts: OnceLock<mpsc::Sender<StartBroker>>,
    /// Those who missed something that a broker said, because their inboxes were full.
    missed: Mutex<BTreeSet<Listener>>,
}

impl Brokers {
    fn read(&self) -> std::sync::RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes requests for new brokers from now on.
    pub(crate) fn accept_starts(&self) -> Option<mpsc::Receiver<StartBroker>> {
        let (sender, receiver) = mpsc::channel(STARTS_WAITING_MAX);
        self.starts.set(sender).ok()?;
        Some(receiver)
    }

    /// Adds a broker that was started.
    pub(crate) fn add(&self, datacenter: DatacenterId, broker: Handle<Broker>) {
        self.write().brokers.insert(datacenter, broker);
    }

    /// Whether a datacenter has its broker.
    pub(crate) fn has(&self, datacenter: &DatacenterId) -> bool {
        self.read().brokers.contains_key(datacenter)
    }

    /// All brokers, by datacenter.
    pub(crate) fn all(&self) -> Vec<Handle<Broker>> {
        self.read().brokers.values().cloned().collect()
    }

    /// The broker of a datacenter; started if need be.
    pub(crate) async fn of_datacenter(&self, datacenter: &DatacenterId) -> Result<Port<Event>, String> {
        if let Some(broker) = self.read().brokers.get(datacenter) {
            return Ok(broker.port().clone());
        }
        if self.read().brokers.len() >= DATACENTERS_MAX {
            return Err(format!(
                "datacenter {datacenter} is unknown, and the region has {DATACENTERS_MAX} already, which is its limit: check the host's --datacenter"
            ));
        }
        let starting = "this node does not own the region yet: try again in a moment";
        let starts = self.starts.get().ok_or(starting)?;
        let (answer, answered) = oneshot::channel();
        starts.send(StartBroker { datacenter: datacenter.clone(), answer }).await.map_err(|_| starting)?;
        answered.await.map_err(|_| starting)??;
        let broker = self.read().brokers.get(datacenter).cloned().ok_or(starting)?;
        Ok(broker.port().clone())
    }

    /// Remembers where a host is. A name stands for one machine: it can't be in two datacenters.
    pub(crate) fn learn(&self, host: &HostId, datacenter: &DatacenterId) -> Result<(), String> {
        let mut known = self.write();
        match known.hosts.get(host) {
            Some(other) if other != datacenter => Err(format!(
                "host {host} is known in datacenter {other} and says it is in {datacenter}: names are unique in a region; choose another name"
            )),
            Some(_) => Ok(()),
            None if known.hosts.len() >= HOSTS_MAX => Err(format!(
                "host {host} is new, and the region has {HOSTS_MAX} already, which is its limit: put it into another region"
            )),
            None => {
                known.hosts.insert(host.clone(), datacenter.clone());
                Ok(())
            }
        }
    }

    /// The broker that knows a host.
    pub(crate) fn of_host(&self, host: &HostId) -> Option<Handle<Broker>> {
        let known = self.read();
        known.brokers.get(known.hosts.get(host)?).cloned()
    }

    /// Notes that all that brokers have said must be said to somebody again.
    pub(crate) fn missed(&self, listener: Listener) {
        self.missed.lock().unwrap_or_else(PoisonError::into_inner).insert(listener);
    }

    /// Who must be told everything again; each is told of once.
    pub(crate) fn take_missed(&self) -> BTreeSet<Listener> {
        std::mem::take(&mut *self.missed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
