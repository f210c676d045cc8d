//! What every part of a region node can reach: its actors, its links, and what waits for answers.

use crate::{brokers::Brokers, config::RegionConfig, links::Links, views::Addresses};
use polder_core::{
    allocator::{self, Allocator},
    broker,
    job_shard::{self, JobShard},
    message::{DrainAttestation, HostNotice, HostOrder, Notice, ReplyId},
};
use polder_node::{EventLog, NoAnswer, Replies};
use polder_shell::{Clock, Handle};
use polder_store::{
    Store,
    registry::{self, HostRecord},
};
use polder_types::{BootId, HostId, HostInfo, Incarnation, JobId, ShardId, TaskId, Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, OnceLock, PoisonError, RwLock},
};
use tokio::sync::broadcast;

/// Changes of slices that a slow watcher may lag behind before it is told to read them all again.
const SLICE_CHANGES_MAX: usize = 4096;

/// The actors of the region that this node runs.
#[derive(Debug)]
pub(crate) struct Actors {
    pub(crate) allocator: Handle<Allocator>,
    /// By shard number.
    pub(crate) shards: Vec<Handle<JobShard>>,
}

/// A region node.
#[derive(Debug)]
pub(crate) struct Region {
    /// How it was set up.
    pub(crate) config: RegionConfig,
    /// The incarnation of its store.
    pub(crate) incarnation: Incarnation,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) events: EventLog,
    pub(crate) links: Links,
    pub(crate) brokers: Brokers,
    pub(crate) shard_replies: Replies<Result<job_shard::Applied, job_shard::Refused>>,
    pub(crate) broker_replies: Replies<Result<broker::Done, broker::Refused>>,
    slice_changes: broadcast::Sender<JobId>,
    /// Where each host's tasks are reached.
    addresses: RwLock<Addresses>,
    /// What was on each host when its drain began, to show where it went.
    drained: Mutex<BTreeMap<HostId, BTreeSet<TaskId>>>,
    /// The boot of each host that is in the registry.
    boots: Mutex<BTreeMap<HostId, BootId>>,
    actors: OnceLock<Actors>,
}

impl Region {
    pub(crate) fn new(
        config: RegionConfig,
        incarnation: Incarnation,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            events: EventLog::new(Some(config.region.clone())),
            config,
            incarnation,
            store,
            clock,
            links: Links::default(),
            brokers: Brokers::default(),
            shard_replies: Replies::default(),
            broker_replies: Replies::default(),
            slice_changes: broadcast::Sender::new(SLICE_CHANGES_MAX),
            addresses: RwLock::default(),
            drained: Mutex::default(),
            boots: Mutex::default(),
            actors: OnceLock::new(),
        }
    }

    /// Makes the actors known, once.
    pub(crate) fn set_actors(&self, actors: Actors) {
        // A second set can only come from a mistake in the start-up order; the first ones stay.
        let _ = self.actors.set(actors);
    }

    /// The actors; none until this node owns the region.
    pub(crate) fn actors(&self) -> Option<&Actors> {
        self.actors.get()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Where hosts can link.
    pub(crate) fn nodes(&self) -> Vec<String> {
        vec![self.config.advertise.clone()]
    }

    /// Tells people.
    pub(crate) fn notice(&self, notice: Notice) {
        self.events.add(self.now(), notice);
    }

    // ---- shards ----

    pub(crate) fn shard_ids(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.config.shards).map(ShardId)
    }

    pub(crate) fn shard_of(&self, job: &JobId) -> ShardId {
        ShardId::of(job, self.config.shards)
    }

    pub(crate) fn shard(&self, shard: ShardId) -> Option<&Handle<JobShard>> {
        self.actors()?.shards.get(usize::from(shard.0))
    }

    /// The shard that owns a job.
    pub(crate) fn owner_of(&self, job: &JobId) -> Option<&Handle<JobShard>> {
        self.shard(self.shard_of(job))
    }

    /// Tells a shard, waiting for room.
    pub(crate) async fn tell_shard(&self, shard: ShardId, event: job_shard::Event) {
        let Some(handle) = self.shard(shard) else { return };
        if handle.port().send(event).await.is_err() {
            tracing::debug!(%shard, "told a shard that was stopped");
        }
    }

    /// Tells a shard if it has room: for what is repeated anyway.
    pub(crate) fn try_tell_shard(&self, shard: ShardId, event: job_shard::Event) {
        let Some(handle) = self.shard(shard) else { return };
        if handle.port().try_send(event).is_err() {
            tracing::warn!(%shard, "a shard's inbox is full: dropped an event that will come again");
        }
    }

    /// Asks the shard that owns a job, and waits for its answer.
    pub(crate) async fn ask_shard(
        &self,
        job: &JobId,
        event: impl FnOnce(ReplyId) -> job_shard::Event,
    ) -> Result<Result<job_shard::Applied, job_shard::Refused>, NoAnswer> {
        let port = self.owner_of(job).map(|handle| handle.port().clone());
        self.shard_replies
            .ask(|reply| {
                let event = event(reply);
                async move {
                    match port {
                        Some(port) => port.send(event).await.is_ok(),
                        None => false,
                    }
                }
            })
            .await
    }

    /// Says that a slice does differently now.
    pub(crate) fn slice_changed(&self, job: JobId) {
        // Nobody watching is fine.
        let _ = self.slice_changes.send(job);
    }

    pub(crate) fn watch_slices(&self) -> broadcast::Receiver<JobId> {
        self.slice_changes.subscribe()
    }

    // ---- allocator ----

    /// Tells the allocator if it has room.
    ///
    /// # Errors
    /// When it has none, or this node has no allocator; the event comes back.
    pub(crate) fn try_tell_allocator(&self, event: allocator::Event) -> Result<(), allocator::Event> {
        match self.actors() {
            Some(actors) => actors.allocator.port().try_send(event).map_err(polder_shell::PortError::into_event),
            None => Err(event),
        }
    }

    // ---- hosts ----

    pub(crate) fn addresses(&self) -> Addresses {
        self.addresses.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn drained(&self) -> std::sync::MutexGuard<'_, BTreeMap<HostId, BTreeSet<TaskId>>> {
        self.drained.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what was on a host when its drain began.
    pub(crate) fn remember_drain(&self, host: &HostId, tasks: BTreeSet<TaskId>) {
        self.drained().insert(host.clone(), tasks);
    }

    pub(crate) fn drained_tasks(&self, host: &HostId) -> BTreeSet<TaskId> {
        self.drained().get(host).cloned().unwrap_or_default()
    }

    /// Sends an order to a host, or drops it: it is repeated.
    pub(crate) fn order(&self, host: &HostId, order: HostOrder) {
        if !self.links.order(host, order) {
            tracing::debug!(%host, "an order found no link; it will be repeated");
        }
    }

    /// What a broker says of a host, to all whom it concerns.
    pub(crate) fn spread_host_notice(&self, notice: &HostNotice) {
        let (host, address) = (notice.info.id.clone(), notice.info.address.clone());
        self.addresses.write().unwrap_or_else(PoisonError::into_inner).insert(host, address);
        if self.try_tell_allocator(allocator::Event::Host(notice.clone())).is_err() {
            self.brokers.repeat_later();
        }
        for shard in self.shard_ids() {
            let Some(handle) = self.shard(shard) else { continue };
            if handle.port().try_send(job_shard::Event::HostNotice(notice.clone())).is_err() {
                self.brokers.repeat_later();
            }
        }
    }

    /// A host's link said what the host is. Starts the broker of its datacenter if there is none yet.
    pub(crate) async fn host_linked(
        &self,
        info: HostInfo,
        boot: BootId,
        session: broker::Session,
        drain: Option<DrainAttestation>,
    ) -> Result<(), String> {
        let port = self.brokers.of_datacenter(&info.datacenter).await?;
        self.brokers.learn(&info.id, &info.datacenter)?;
        self.register(&info, &boot).await;
        let linked = broker::Event::HostLinked { info: Box::new(info), boot, session, drain };
        port.send(linked).await.map_err(|_| "this node is stopping".to_owned())
    }

    /// Keeps the host's record of this boot in the store, for whoever looks there.
    async fn register(&self, info: &HostInfo, boot: &BootId) {
        let newest = self.boots.lock().unwrap_or_else(PoisonError::into_inner).insert(info.id.clone(), boot.clone());
        if newest.as_ref() == Some(boot) {
            return;
        }
        let record = HostRecord {
            id: info.id.clone(),
            datacenter: info.datacenter.clone(),
            boot_id: boot.clone(),
            agent_version: info.agent.clone(),
            address: info.address.clone(),
        };
        if let Err(error) = registry::register_host(&*self.store, &record).await {
            tracing::warn!(host = %info.id, %error, "the host is not in the registry");
            self.boots.lock().unwrap_or_else(PoisonError::into_inner).remove(&info.id);
        }
    }

    /// Something came over a host's link.
    pub(crate) fn host_heard(&self, host: &HostId, session: broker::Session) {
        let Some(broker) = self.brokers.of_host(host) else { return };
        // The next message of the host says the same.
        let _ = broker.port().try_send(broker::Event::HostHeard { host: host.clone(), session });
    }

    pub(crate) async fn host_unlinked(&self, host: &HostId, session: broker::Session) {
        self.tell_broker_of(host, broker::Event::HostUnlinked { host: host.clone(), session }).await;
    }

    /// Tells the broker that knows a host, if one does.
    pub(crate) async fn tell_broker_of(&self, host: &HostId, event: broker::Event) {
        let Some(broker) = self.brokers.of_host(host) else { return };
        if broker.port().send(event).await.is_err() {
            tracing::debug!(%host, "told a broker that was stopped");
        }
    }

    /// Asks the broker that knows a host, and waits for its answer. None when no broker knows it.
    pub(crate) async fn ask_broker(
        &self,
        host: &HostId,
        event: impl FnOnce(ReplyId) -> broker::Event,
    ) -> Option<Result<Result<broker::Done, broker::Refused>, NoAnswer>> {
        let port = self.brokers.of_host(host)?.port().clone();
        let answer = self
            .broker_replies
            .ask(|reply| {
                let event = event(reply);
                async move { port.send(event).await.is_ok() }
            })
            .await;
        Some(answer)
    }

    /// Tells a shard what a host with an open link runs of it.
    pub(crate) fn tell_inventory(&self, shard: ShardId, host: &HostId) {
        let Some((boot, statuses)) = self.links.get(host).and_then(|link| link.inventory()) else { return };
        let statuses = statuses.into_iter().filter(|status| self.shard_of(&status.id.task.job) == shard).collect();
        self.try_tell_shard(shard, job_shard::Event::HostListed { host: host.clone(), boot, statuses });
    }
}
