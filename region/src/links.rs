//! The links that hosts hold open to this node: one session each, orders down, reports up.

mod logs;
mod session;

pub(crate) use logs::LogError;
pub(crate) use session::open;

use polder_core::message::HostOrder;
use polder_types::{BootId, ContainerId, ContainerPhase, ContainerStatus, HostId};
use polder_wire::{LogChunk, ToHost};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::{Notify, mpsc};

/// Messages that may wait for one host. What does not fit is dropped: whoever ordered it orders it again until the
/// host reports it done.
pub(crate) const QUEUE_MAX: usize = 4096;
/// Logs that may be read over one link at a time.
pub(crate) const LOGS_PER_HOST_MAX: usize = 64;
/// Pieces of a log that may wait for a slow reader before reading it is given up.
const LOG_CHUNKS_MAX: usize = 256;

/// One host's open link.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) session: u64,
    /// Told when a newer session has taken this one's place.
    replaced: Notify,
    /// What the host last said of its containers, so that a restored shard can be told without asking the host.
    seen: Mutex<Seen>,
    to_host: mpsc::Sender<ToHost>,
    logs: Mutex<BTreeMap<u64, mpsc::Sender<LogChunk>>>,
    next_log: AtomicU64,
}

/// A host's containers as last heard over one link.
#[derive(Debug, Default)]
struct Seen {
    /// None until the inventory has come.
    boot: Option<BootId>,
    containers: BTreeMap<ContainerId, ContainerPhase>,
}

impl Link {
    /// Sends if there is room.
    pub(crate) fn send(&self, message: ToHost) -> bool {
        self.to_host.try_send(message).is_ok()
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the host's whole inventory.
    fn learn_all(&self, boot: BootId, statuses: &[ContainerStatus]) {
        let containers = statuses.iter().map(|status| (status.id.clone(), status.phase.clone())).collect();
        *self.seen() = Seen { boot: Some(boot), containers };
    }

    /// Takes changes.
    fn learn(&self, statuses: &[ContainerStatus]) {
        let mut seen = self.seen();
        for status in statuses {
            seen.containers.insert(status.id.clone(), status.phase.clone());
        }
    }

    /// The host's boot and containers, once it has said them.
    pub(crate) fn inventory(&self) -> Option<(BootId, Vec<ContainerStatus>)> {
        let seen = self.seen();
        let statuses = seen
            .containers
            .iter()
            .map(|(id, phase)| ContainerStatus { id: id.clone(), phase: phase.clone() })
            .collect();
        Some((seen.boot.clone()?, statuses))
    }

    fn logs(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, mpsc::Sender<LogChunk>>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All open links.
#[derive(Debug, Default)]
pub(crate) struct Links(RwLock<BTreeMap<HostId, Arc<Link>>>);

impl Links {
    /// The link of a host, if it has one.
    pub(crate) fn get(&self, host: &HostId) -> Option<Arc<Link>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(host).cloned()
    }

    /// Sends an order to a host. False when it was dropped.
    pub(crate) fn order(&self, host: &HostId, order: HostOrder) -> bool {
        let Some(link) = self.get(host) else { return false };
        if let HostOrder::Forget { container, .. } = &order {
            link.seen().containers.remove(container);
        }
        link.send(ToHost::Order(order))
    }

    /// Makes a session the host's link, unless a newer one is there.
    fn admit(&self, host: &HostId, session: u64) -> Option<(Arc<Link>, mpsc::Receiver<ToHost>)> {
        let mut links = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if links.get(host).is_some_and(|link| link.session >= session) {
            return None;
        }
        let (to_host, queue) = mpsc::channel(QUEUE_MAX);
        let link = Arc::new(Link {
            session,
            replaced: Notify::new(),
            seen: Mutex::default(),
            to_host,
            logs: Mutex::default(),
            next_log: AtomicU64::new(1),
        });
        if let Some(older) = links.insert(host.clone(), Arc::clone(&link)) {
            older.replaced.notify_one();
        }
        Some((link, queue))
    }

    /// Forgets a session, unless a newer one has taken its place.
    fn dismiss(&self, host: &HostId, session: u64) {
        let mut links = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if links.get(host).is_some_and(|link| link.session == session) {
            links.remove(host);
        }
    }
}

impl Link {
    fn next_log_id(&self) -> u64 {
        self.next_log.fetch_add(1, Ordering::Relaxed)
    }
}
