//! The links that hosts hold open to this node: one session each, orders down, reports up.
//!
//! ```text
//!   admit ──▶ waits for the end of an older session ──▶ serves ──▶ over: out of the list, logs end
//!                            ▲                                        │
//!                            └────────────── told by ─────────────────┘
//! ```
//!
//! A session says nothing before the older one of its host has said its last, so what a shard hears of a host last is
//! what the host said last. A link never waits for a shard: what a shard has no room for is owed to it, and paid with
//! all that the host has, once there is room.

mod logs;
mod session;

pub(crate) use logs::{LogError, LogStream};
pub(crate) use session::open;

use crate::region::Speaker;
use polder_core::{broker, message::HostOrder};
use polder_types::{BootId, ContainerId, ContainerPhase, ContainerStatus, HomeId, HostId, ShardId};
use polder_wire::{LogChunk, ToHost};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError, RwLock, atomic::AtomicU64},
};
use tokio::sync::{Notify, mpsc, watch};

/// Messages that may wait for one host. What does not fit is dropped: whoever ordered it orders it again until the
/// host reports it done.
pub(crate) const QUEUE_MAX: usize = 4096;
/// Containers of a host that a link remembers; a host that reports more is faulty, and its link is closed.
pub(crate) const CONTAINERS_MAX: usize = 64 << 10;
/// Logs that may be read over one link at a time.
pub(crate) const LOGS_PER_HOST_MAX: usize = 16;
/// Pieces of a log that may wait for a slow reader before reading it is given up: a whole log that a host keeps.
const LOG_CHUNKS_MAX: usize = 96;

/// One host's open link.
#[derive(Debug)]
pub(crate) struct Link {
    /// The data folder of the agent at the other end.
    home: HomeId,
    pub(crate) session: u64,
    /// Told when a newer session has taken this one's place.
    replaced: Notify,
    /// Whether it has said its last.
    over: watch::Sender<bool>,
    /// What the host last said of its containers, so that a restored shard can be told without asking the host.
    seen: Mutex<Seen>,
    /// Shards that are to be told all of it.
    owed: Mutex<BTreeSet<ShardId>>,
    owing: Notify,
    to_host: mpsc::Sender<ToHost>,
    /// None when the link is over: no piece of a log can come any more.
    logs: Mutex<Option<BTreeMap<u64, mpsc::Sender<LogChunk>>>>,
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
    fn new(home: HomeId, session: u64) -> (Self, mpsc::Receiver<ToHost>) {
        let (to_host, queue) = mpsc::channel(QUEUE_MAX);
        let link = Self {
            home,
            session,
            replaced: Notify::new(),
            over: watch::Sender::new(false),
            seen: Mutex::default(),
            owed: Mutex::default(),
            owing: Notify::new(),
            to_host,
            logs: Mutex::new(Some(BTreeMap::new())),
            next_log: AtomicU64::new(1),
        };
        (link, queue)
    }

    /// Who speaks over it.
    fn speaker(&self) -> Speaker {
        Speaker { home: self.home, session: broker::Session(self.session) }
    }

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

    /// Takes changes. False when there is no room for so many containers.
    fn learn(&self, statuses: &[ContainerStatus]) -> bool {
        let mut seen = self.seen();
        for status in statuses {
            seen.containers.insert(status.id.clone(), status.phase.clone());
        }
        seen.containers.len() <= CONTAINERS_MAX
    }

    /// Whether the host has said what it has.
    fn is_listed(&self) -> bool {
        self.seen().boot.is_some()
    }

    /// The host's boot and those of its containers that `of` picks, once it has said them.
    fn inventory(&self, of: impl Fn(&ContainerId) -> bool) -> Option<(BootId, Vec<ContainerStatus>)> {
        let seen = self.seen();
        let boot = seen.boot.clone()?;
        let picked = seen.containers.iter().filter(|(id, _)| of(id));
        Some((boot, picked.map(|(id, phase)| ContainerStatus { id: id.clone(), phase: phase.clone() }).collect()))
    }

    /// Has a shard told all that the host has of it, behind whatever the host has said so far.
    pub(crate) fn owe(&self, shard: ShardId) {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner).insert(shard);
        self.owing.notify_one();
    }

    fn take_owed(&self) -> BTreeSet<ShardId> {
        std::mem::take(&mut *self.owed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until the link has said its last.
    async fn ended(&self) {
        // It can't fail: the sender is in `self`.
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }
}

/// All open links.
#[derive(Debug, Default)]
pub(crate) struct Links(RwLock<BTreeMap<HostId, Arc<Link>>>);

/// A session that is the host's link now.
struct Admitted {
    link: Arc<Link>,
    /// What is to be sent to the host.
    queue: mpsc::Receiver<ToHost>,
    /// The session whose place it took.
    older: Option<Arc<Link>>,
}

impl Links {
    /// Hosts with an open link.
    pub(crate) fn count(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }

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

    /// Makes a session the host's link, unless a newer one is there, or one of another agent.
    fn admit(&self, host: &HostId, home: HomeId, session: u64) -> Result<Admitted, String> {
        let mut links = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match links.get(host) {
            Some(link) if link.home != home => {
                return Err(format!(
                    "another agent, with data folder {}, is linked as {host}: give this host a name of its own",
                    link.home
                ));
            }
            Some(link) if link.session >= session => return Err("a newer link of this host is open".to_owned()),
            _ => {}
        }
        let (link, queue) = Link::new(home, session);
        let link = Arc::new(link);
        let older = links.insert(host.clone(), Arc::clone(&link));
        if let Some(older) = &older {
            older.replaced.notify_one();
        }
        Ok(Admitted { link, queue, older })
    }

    /// Forgets a session, unless a newer one has taken its place, and says to all who wait that it is over.
    fn dismiss(&self, host: &HostId, link: &Link) {
        {
            let mut links = self.0.write().unwrap_or_else(PoisonError::into_inner);
            if links.get(host).is_some_and(|newest| newest.session == link.session) {
                links.remove(host);
            }
        }
        link.end_logs();
        link.over.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use polder_types::{Epoch, TaskId, Timestamp};

    fn host() -> HostId {
        "h1".parse().unwrap()
    }

    #[test]
    fn the_highest_session_speaks_and_waits_for_the_older_ones_last_word() {
        let links = Links::default();
        let first = links.admit(&host(), HomeId(1), 5).unwrap();
        assert!(first.older.is_none());
        for (home, session, why) in [(1, 5, "newer link"), (1, 4, "newer link"), (2, 6, "another agent")] {
            let refused = links.admit(&host(), HomeId(home), session).map(drop).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        let second = links.admit(&host(), HomeId(1), 6).unwrap();
        assert!(first.link.replaced.notified().now_or_never().is_some(), "told even before it listens");
        let older = second.older.unwrap();
        assert!(older.ended().now_or_never().is_none());
        links.dismiss(&host(), &first.link);
        assert!(older.ended().now_or_never().is_some());
        assert_eq!(links.get(&host()).unwrap().session, 6, "the end of an old session is not the end of the new one");
        links.dismiss(&host(), &second.link);
        assert!(links.get(&host()).is_none());
    }

    #[test]
    fn a_host_can_not_fill_memory() {
        let (link, _queue) = Link::new(HomeId(1), 1);
        let task: TaskId = "a/b/0".parse().unwrap();
        let status = |epoch| ContainerStatus {
            id: ContainerId { task: task.clone(), epoch: Epoch(epoch) },
            phase: ContainerPhase::Running { started_at: Timestamp(1), pid: 1, ready: true },
        };
        let all: Vec<_> = (0..CONTAINERS_MAX as u64).map(status).collect();
        assert!(link.learn(&all));
        assert!(link.learn(&[status(0)]), "one that is known needs no room");
        assert!(!link.learn(&[status(CONTAINERS_MAX as u64)]));
    }
}
