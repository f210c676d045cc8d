//! A region node from its start to its end.

use crate::{
    brokers::StartBroker,
    config::{RegionConfig, StoreConfig},
    front::RegionApi,
    keys, links,
    region::{Actors, Region},
    roles::{AllocatorRole, BrokerRole, ShardRole},
    seat::Seat,
};
use actix_web::{App, HttpServer, web};
use polder_api::server::{RegionFront, configure_region};
use polder_core::{allocator, job_shard};
use polder_shell::{ActorOptions, Escalation, Group, SpawnError, SystemClock, Tree, TreeOptions};
use polder_store::{
    Commit, Compare, EmbeddedStore, EtcdStore, Lease, Op, Store, StoreError, Txn,
    identity::{IdentityError, StoreKind, open_identity},
    owner::{self, AcquireError, OwnerKey},
    registry::{self, NodeRecord},
};
use polder_types::{DatacenterId, ShardId};
use polder_wire::LINK_PATH;
use std::{collections::BTreeSet, future::Future, sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// Events that can wait for a shard or broker.
const SHARD_INBOX_MAX: usize = 8192;
/// Events that can wait for the allocator, to which every shard and broker speaks.
const ALLOCATOR_INBOX_MAX: usize = 65_536;
/// How often is looked whether somebody missed what a broker said.
const REPEAT_TICK: Duration = Duration::from_millis(200);
/// How often the history of the store is cut off, at where it was one such time ago.
const COMPACT_EVERY: Duration = Duration::from_secs(300);
/// How long open requests may take when the node stops.
const SERVER_STOP_SECS: u64 = 2;
/// The key that holds the number of shards, fixed when the region is created.
const SHARDS_KEY: &str = "meta/shards";

/// Why a node ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Its store can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its store belongs to something else.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The region could not be taken.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// It can't listen.
    #[error("can't listen on {address}: {source}; is another process using it?")]
    Listen {
        /// Where.
        address: std::net::SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Its lease ended, so another node may own the region.
    #[error("the node's lease was lost ({why}): another node may own the region now; start this one again")]
    LeaseLost {
        /// Why.
        why: String,
    },
    /// An actor failed again and again.
    #[error("{actor} failed too often: {error}; the log has more")]
    Escalated {
        /// Which.
        actor: String,
        /// What went wrong last.
        error: String,
    },
    /// An actor can't be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The number of shards can't be read or written.
    #[error("the number of shards can't be settled: {why}")]
    Shards {
        /// Why.
        why: String,
    },
}

/// Opens a store.
///
/// # Errors
/// When it can't be opened.
pub async fn open_store(config: &StoreConfig) -> Result<Arc<dyn Store>, StoreError> {
    Ok(match config {
        StoreConfig::Embedded { dir } => {
            let dir = dir.join("store");
            let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(dir)).await;
            let opened = opened.map_err(|error| StoreError::Unavailable { why: error.to_string() })?;
            Arc::new(opened?)
        }
        StoreConfig::Etcd { endpoints, prefix } => Arc::new(EtcdStore::connect(endpoints, prefix).await?),
    })
}

/// Runs a node until `shutdown`. Stops no container.
///
/// # Errors
/// When it can't start, or can't go on.
pub async fn run(mut config: RegionConfig, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
    let store = open_store(&config.store).await?;
    let identity = open_identity(&*store, StoreKind::Region, config.region.as_str(), None).await?;
    config.shards = settle_shards(&*store, config.shards).await?;
    let lease = store.grant_lease(config.lease_ttl).await?;
    let region = Arc::new(Region::new(config, identity.incarnation, Arc::clone(&store), Arc::new(SystemClock)));
    let (server, server_task) = serve(&region)?;
    let ended = tokio::select! {
        ended = own_and_work(&region, &store, &lease) => ended,
        () = shutdown => Ok(()),
        why = lease.lost() => Err(RunError::LeaseLost { why }),
    };
    tracing::info!(region = %region.config.region, "stopping; containers go on running");
    server.stop(true).await;
    if let Err(error) = server_task.await {
        tracing::warn!(%error, "the server did not stop in order");
    }
    if let Some(tree) = region.take_tree() {
        let report = tree.shutdown().await;
        for late in report.abandoned {
            tracing::warn!(actor = late, "did not finish in time");
        }
    }
    // Others need not wait for the lease to run out. If the store does not answer, it runs out.
    if let Err(error) = lease.revoke().await {
        tracing::debug!(%error, "the lease runs out by itself");
    }
    ended
}

type ServerTask = tokio::task::JoinHandle<std::io::Result<()>>;

fn serve(region: &Arc<Region>) -> Result<(actix_web::dev::ServerHandle, ServerTask), RunError> {
    let address = region.config.listen;
    let data = web::Data::from(Arc::clone(region));
    let front: Arc<dyn RegionFront> = Arc::new(RegionApi { region: Arc::clone(region) });
    let server = HttpServer::new(move || {
        App::new()
            .app_data(data.clone())
            .route(LINK_PATH, web::get().to(links::open))
            .configure(configure_region(Arc::clone(&front)))
    })
    .disable_signals()
    .shutdown_timeout(SERVER_STOP_SECS)
    .bind(address)
    .map_err(|source| RunError::Listen { address, source })?
    .run();
    Ok((server.handle(), actix_web::rt::spawn(server)))
}

/// Waits until the region can be owned, then runs its actors until one of them gives up.
async fn own_and_work(region: &Arc<Region>, store: &Arc<dyn Store>, lease: &Lease) -> Result<(), RunError> {
    let config = &region.config;
    let node = NodeRecord {
        id: config.node.to_string(),
        address: config.advertise.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    if let Err(error) = registry::register_node(&**store, lease.id(), &node).await {
        tracing::warn!(%error, "this node is not in the registry");
    }
    tracing::info!(region = %config.region, node = %config.node, "waiting to own the region");
    owner::acquire_when_vacant(&**store, &OwnerKey::allocator(), config.node.as_str(), lease).await?;
    tracing::info!(region = %config.region, node = %config.node, "owns the region");

    let seat = Arc::new(Seat::new(Arc::clone(store), lease.clone(), config.node.clone()));
    let (escalations, mut escalated) = mpsc::channel::<Escalation>(1);
    let tree = Tree::new(TreeOptions {
        on_escalation: Arc::new(move |escalation| {
            // One is enough to end the node.
            let _ = escalations.try_send(escalation.clone());
        }),
        ..TreeOptions::default()
    })?;
    region.set_tree(tree.clone());
    start_actors(region, &seat, &tree.root()).await?;
    let known = known_datacenters(&**store).await?;
    let mut starts = region.brokers.accept_starts();
    for datacenter in known {
        start_broker(region, &seat, &tree.root(), datacenter)?;
    }
    let mut repeat = tokio::time::interval(REPEAT_TICK);
    let mut compact = tokio::time::interval(COMPACT_EVERY);
    let mut compact_to = None;
    loop {
        tokio::select! {
            escalation = escalated.recv() => {
                let Some(Escalation { actor, error }) = escalation else { return Ok(()) };
                return Err(RunError::Escalated { actor, error });
            }
            start = next_start(&mut starts) => {
                let StartBroker { datacenter, answer } = start;
                let known = region.brokers.has(&datacenter);
                let started = if known { Ok(()) } else { start_broker(region, &seat, &tree.root(), datacenter) };
                // The link that asked may be gone.
                let _ = answer.send(started.map_err(|error| error.to_string()));
            }
            _ = repeat.tick() => if region.brokers.take_missed() {
                repeat_notices(region).await;
            },
            _ = compact.tick() => compact_to = compact_store(&**store, compact_to).await,
        }
    }
}

async fn next_start(starts: &mut Option<mpsc::Receiver<StartBroker>>) -> StartBroker {
    match starts {
        Some(starts) => match starts.recv().await {
            Some(start) => start,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

async fn start_actors(region: &Arc<Region>, seat: &Arc<Seat>, root: &Group) -> Result<(), RunError> {
    let allocator = root.prepare("allocator", ActorOptions::default().capacity(ALLOCATOR_INBOX_MAX));
    let shards: Vec<_> = region
        .shard_ids()
        .map(|shard| {
            (shard, root.prepare(&format!("shard-{shard}"), ActorOptions::default().capacity(SHARD_INBOX_MAX)))
        })
        .collect();
    region.set_actors(Actors {
        allocator: allocator.handle().clone(),
        shards: shards.iter().map(|(_, shard)| shard.handle().clone()).collect(),
    });
    let (its_region, its_seat) = (Arc::clone(region), Arc::clone(seat));
    allocator.start(move |handle| AllocatorRole::new(Arc::clone(&its_region), Arc::clone(&its_seat), handle))?;
    for (shard, prepared) in shards {
        let (its_region, its_seat) = (Arc::clone(region), Arc::clone(seat));
        prepared.start(move |handle| ShardRole::new(Arc::clone(&its_region), Arc::clone(&its_seat), shard, handle))?;
    }
    Ok(())
}

fn start_broker(
    region: &Arc<Region>,
    seat: &Arc<Seat>,
    root: &Group,
    datacenter: DatacenterId,
) -> Result<(), SpawnError> {
    let (its_region, its_seat, place) = (Arc::clone(region), Arc::clone(seat), datacenter.clone());
    let options = ActorOptions::default().capacity(SHARD_INBOX_MAX);
    let handle = root.spawn(&format!("broker-{datacenter}"), options, move |_| {
        BrokerRole::new(Arc::clone(&its_region), Arc::clone(&its_seat), place.clone())
    })?;
    region.brokers.add(datacenter, handle);
    Ok(())
}

async fn known_datacenters(store: &dyn Store) -> Result<BTreeSet<DatacenterId>, StoreError> {
    let hosts = store.list(keys::BROKERS).await?;
    let names = hosts.entries.iter().filter_map(|entry| entry.key.strip_prefix(keys::BROKERS)?.split('/').next());
    Ok(names.filter_map(|name| name.parse().ok()).collect())
}

/// Says again, to everybody, how every host is.
async fn repeat_notices(region: &Region) {
    for broker in region.brokers.all() {
        let Ok(notices) = broker.query(|broker| broker.notices().collect::<Vec<_>>()).await else { continue };
        for notice in notices {
            if let Some(actors) = region.actors() {
                // A stopped allocator needs no news.
                let _ = actors.allocator.port().send(allocator::Event::Host(notice.clone())).await;
            }
            for shard in region.shard_ids() {
                region.tell_shard(shard, job_shard::Event::HostNotice(notice.clone())).await;
            }
        }
    }
}

/// Cuts the history off at `to`, and answers with where it is now.
async fn compact_store(store: &dyn Store, to: Option<polder_store::Revision>) -> Option<polder_store::Revision> {
    if let Some(to) = to
        && let Err(error) = store.compact(to).await
    {
        tracing::warn!(%error, "the store's history could not be cut off; trying again later");
    }
    store.list(SHARDS_KEY).await.ok().map(|listing| listing.revision)
}

/// The number of shards that the region was created with; `wanted` if it is created now.
async fn settle_shards(store: &dyn Store, wanted: u16) -> Result<u16, RunError> {
    let bad = |why: String| RunError::Shards { why };
    for _ in 0..3 {
        if let Some(entry) = store.get(SHARDS_KEY).await? {
            let number = str::from_utf8(&entry.value).ok().and_then(|text| text.parse().ok());
            return number.ok_or_else(|| bad(format!("`{SHARDS_KEY}` should hold a number")));
        }
        let put = Op::put(SHARDS_KEY, wanted.to_string());
        let txn = Txn::new(vec![Compare::absent(SHARDS_KEY)], vec![put]).map_err(|error| bad(error.to_string()))?;
        // Whatever became of it, the next look tells.
        let outcome = store.commit(txn).await;
        if !matches!(outcome, Commit::Committed { .. }) {
            tracing::info!(%outcome, "settling the number of shards again");
        }
    }
    Err(bad("the store changed under three attempts".to_owned()))
}

/// The highest number of shards that keys have room for.
pub const SHARDS_MAX: ShardId = ShardId(0xfff);
