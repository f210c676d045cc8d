//! What every part of a region node can reach: its actors, its links, and what waits for answers.

use crate::{
    brokers::{Brokers, Listener},
    config::RegionConfig,
    links::Links,
    meter::RegionMeter,
    views::Addresses,
};
use polder_core::{
    allocator::{self, Allocator},
    broker::{self, Broker},
    job_shard::{self, JobShard},
    message::{DrainAttestation, HostNotice, HostOrder, Notice, ReplyId},
};
use polder_node::{EventLog, NoAnswer, READ_TIMEOUT, Replies, Seat};
use polder_shell::{Clock, Handle, Panic, Port, PortError};
use polder_store::{
    Store,
    owner::OwnerKey,
    registry::{self, HostRecord, NodeRecord},
};
use polder_types::{BootId, HomeId, HostId, HostInfo, Incarnation, JobId, ShardId, TaskId, Timestamp};
use polder_wire::NODES_MAX;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError, RwLock},
    time::Duration,
};
use tokio::sync::broadcast;

/// Changes of slices that a slow watcher may lag behind before it is told to read them all again.
const SLICE_CHANGES_MAX: usize = 4096;

/// Hosts of which a broker tells in one piece, between two of its steps.
const REPEAT_PIECE_MAX: usize = 1024;
/// How long is waited for room for the next piece, and how often before it is left for later.
const REPEAT_PAUSE: Duration = Duration::from_millis(10);
const REPEAT_TRIES_MAX: u32 = 100;

/// How often, and after which pause each, a host that found no room to be let in is tried again.
const LINK_TRIES_MAX: u32 = 20;
const LINK_PAUSE: Duration = Duration::from_millis(250);

/// Who speaks for a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Speaker {
    /// The data folder of the agent.
    pub(crate) home: HomeId,
    /// The link.
    pub(crate) session: broker::Session,
}

/// The actors of the region that this node runs.
#[derive(Debug)]
pub(crate) struct Actors {
    /// Through which they are owned.
    pub(crate) seat: Arc<Seat>,
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
    pub(crate) meter: RegionMeter,
    pub(crate) brokers: Brokers,
    pub(crate) shard_replies: Replies<Result<job_shard::Applied, job_shard::Refused>>,
    pub(crate) broker_replies: Replies<Result<broker::Done, broker::Refused>>,
    /// Of links, apart from people: a fleet that comes back must not keep a person from asking.
    pub(crate) link_replies: Replies<Result<broker::Done, broker::Refused>>,
    slice_changes: broadcast::Sender<JobId>,
    /// Where each host's tasks are reached.
    addresses: RwLock<Addresses>,
    /// What was on each host when its drain began, to show where it went.
    drained: Mutex<BTreeMap<HostId, BTreeSet<TaskId>>>,
    /// The boot of each host that is in the registry.
    boots: Mutex<BTreeMap<HostId, BootId>>,
    /// The addresses of the region's other nodes.
    others: RwLock<BTreeSet<String>>,
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
            meter: RegionMeter::new(),
            brokers: Brokers::default(),
            shard_replies: Replies::default(),
            broker_replies: Replies::default(),
            link_replies: Replies::default(),
            slice_changes: broadcast::Sender::new(SLICE_CHANGES_MAX),
            addresses: RwLock::default(),
            drained: Mutex::default(),
            boots: Mutex::default(),
            others: RwLock::default(),
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

    /// Where hosts can link: here, and where they go if this node is lost.
    pub(crate) fn nodes(&self) -> Vec<String> {
        let others = self.others.read().unwrap_or_else(PoisonError::into_inner);
        std::iter::once(&self.config.advertise).chain(others.iter()).take(NODES_MAX).cloned().collect()
    }

    /// Takes in which nodes there are.
    pub(crate) fn learn_nodes(&self, nodes: Vec<NodeRecord>) {
        let addresses = nodes.into_iter().map(|node| node.address);
        let others = addresses.filter(|address| *address != self.config.advertise).collect();
        *self.others.write().unwrap_or_else(PoisonError::into_inner) = others;
    }

    /// Tells people.
    pub(crate) fn notice(&self, notice: Notice) {
        self.events.add(self.now(), notice);
    }

    /// Tells people that a step of an actor was undone.
    pub(crate) fn step_failed(&self, actor: &OwnerKey, blame: Option<&impl fmt::Display>, panic: &Panic) {
        self.notice(Notice {
            kind: "step_failed",
            subject: blame.map_or_else(|| actor.to_string(), ToString::to_string),
            message: format!("a step of {actor} failed and was undone: {panic}"),
        });
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

    /// Tells a shard if it has room. False if it has none: then it must hear of it another way.
    pub(crate) fn try_tell_shard(&self, shard: ShardId, event: job_shard::Event) -> bool {
        // One that was stopped hears nothing any more.
        self.shard(shard).is_none_or(|handle| !is_full(handle.port().try_send(event)))
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
        for listener in self.listeners() {
            if !self.tell_listener(listener, notice.clone()) {
                self.brokers.missed(listener);
            }
        }
    }

    /// All who are told how hosts are.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = Listener> + use<> {
        std::iter::once(Listener::Allocator).chain(self.shard_ids().map(Listener::Shard))
    }

    /// Tells a listener how a host is, if it has room.
    fn tell_listener(&self, listener: Listener, notice: HostNotice) -> bool {
        match listener {
            Listener::Shard(shard) => self.try_tell_shard(shard, job_shard::Event::HostNotice(notice)),
            Listener::Allocator => self
                .actors()
                .is_none_or(|actors| !is_full(actors.allocator.port().try_send(allocator::Event::Host(notice)))),
        }
    }

    /// Says to a listener how every host is. False when it had no room for so long that this must be tried again.
    ///
    /// Each piece is said by the broker itself, between two of its steps, so that it can't come behind something newer.
    pub(crate) async fn repeat_notices(self: &Arc<Self>, listener: Listener) -> bool {
        for broker in self.brokers.all() {
            let mut after: Option<HostId> = None;
            let mut patience = REPEAT_TRIES_MAX;
            loop {
                let (region, from) = (Arc::clone(self), after.clone());
                let said = broker.query(move |broker| region.repeat_piece(broker, listener, from));
                // A broker that can't be read now is being restored: then it says everything itself.
                let Ok(Ok((last, more))) = tokio::time::timeout(READ_TIMEOUT, said).await else { break };
                if !more {
                    break;
                }
                patience = if last == after { patience.saturating_sub(1) } else { REPEAT_TRIES_MAX };
                if patience == 0 {
                    return false;
                }
                if last == after {
                    tokio::time::sleep(REPEAT_PAUSE).await;
                }
                after = last;
            }
        }
        true
    }

    /// Says how the hosts behind `from` are, as many as there is room and time for. The last of which it was said, and
    /// whether there are more.
    fn repeat_piece(&self, broker: &Broker, listener: Listener, from: Option<HostId>) -> (Option<HostId>, bool) {
        let mut last = from.clone();
        for (number, notice) in broker.notices_after(from.as_ref()).enumerate() {
            let host = notice.info.id.clone();
            if number == REPEAT_PIECE_MAX || !self.tell_listener(listener, notice) {
                return (last, true);
            }
            last = Some(host);
        }
        (last, false)
    }

    /// A host's link said what the host is. Starts the broker of its datacenter if there is none yet. Comes back when
    /// the broker has let the host in: before that, nothing that the host says may count.
    pub(crate) async fn host_linked(
        self: &Arc<Self>,
        info: HostInfo,
        boot: BootId,
        speaker: Speaker,
        drain: Option<DrainAttestation>,
    ) -> Result<(), String> {
        let port = self.brokers.of_datacenter(&info.datacenter).await?;
        self.brokers.learn(&info.id, &info.datacenter)?;
        let linked = self.let_in(&port, &info, &boot, speaker, drain).await;
        match linked {
            Ok(Ok(_)) => {
                // Aside: whether a host is heard must not depend on how fast the store writes.
                let region = Arc::clone(self);
                actix_web::rt::spawn(async move { region.register(&info, &boot).await });
                Ok(())
            }
            Ok(Err(refused)) => {
                self.refused_host(&info.id, &refused);
                Err(refused.to_string())
            }
            Err(NoAnswer::Busy) => Err("this node has no room for one more host now: try again in a moment".to_owned()),
            Err(NoAnswer::Unknown) => Err("the host's broker did not answer: try again in a moment".to_owned()),
        }
    }

    async fn let_in(
        &self,
        port: &Port<broker::Event>,
        info: &HostInfo,
        boot: &BootId,
        Speaker { home, session }: Speaker,
        drain: Option<DrainAttestation>,
    ) -> Result<Result<broker::Done, broker::Refused>, NoAnswer> {
        let mut tries = 0;
        loop {
            let (info, boot, drain) = (Box::new(info.clone()), boot.clone(), drain.clone());
            let linked = |reply| {
                let event = broker::Event::HostLinked { reply, info, boot, home, session, drain };
                async move { port.send(event).await.is_ok() }
            };
            let answer = self.link_replies.ask(linked).await;
            tries += 1;
            if answer != Err(NoAnswer::Busy) || tries == LINK_TRIES_MAX {
                return answer;
            }
            tokio::time::sleep(LINK_PAUSE).await;
        }
    }

    /// Tells people of a host that is not let in.
    fn refused_host(&self, host: &HostId, why: &broker::Refused) {
        let kind = match why {
            broker::Refused::NameTaken { .. } => "host_name_taken",
            broker::Refused::Misdirected { .. } => "host_misdirected",
            broker::Refused::Full { .. } => "host_refused",
            _ => return,
        };
        self.notice(Notice { kind, subject: host.to_string(), message: format!("it was not let in: {why}") });
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
    pub(crate) fn host_heard(&self, host: &HostId, Speaker { home, session }: Speaker) {
        let Some(broker) = self.brokers.of_host(host) else { return };
        // The next message of the host says the same.
        let _ = broker.port().try_send(broker::Event::HostHeard { host: host.clone(), home, session });
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

    /// Has a shard told what a host runs of it, if the host has an open link.
    pub(crate) fn tell_inventory(&self, shard: ShardId, host: &HostId) {
        if let Some(link) = self.links.get(host) {
            link.owe(shard);
        }
    }
}

fn is_full<E>(sent: Result<(), PortError<E>>) -> bool {
    sent.is_err_and(|error| error.is_full())
}
