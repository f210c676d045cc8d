//! A region node from its start to its end.

use crate::{
    brokers::StartBroker,
    config::RegionConfig,
    front::RegionApi,
    keys, links,
    region::{Actors, Region},
    roles::{AllocatorRole, BrokerRole, ShardRole},
};
use actix_web::web::{self, ServiceConfig};
use futures::future::join_all;
use polder_api::server::{RegionFront, configure_region};
use polder_node::{Node, NodeError, Seat, Server, Setup, open_store};
use polder_shell::{ActorOptions, Group, SpawnError, SystemClock};
use polder_store::{
    Commit, Compare, Op, Store, StoreError, Txn,
    identity::{StoreKind, open_identity},
    owner::OwnerKey,
    registry,
};
use polder_types::{DatacenterId, ShardId};
use polder_wire::LINK_PATH;
use std::{
    collections::BTreeSet, convert::Infallible, future::Future, ops::RangeInclusive, pin::pin, sync::Arc,
    time::Duration,
};
use tokio::{sync::mpsc, time::MissedTickBehavior};

/// Events that can wait for a shard or broker.
const SHARD_INBOX_MAX: usize = 8192;
/// Events that can wait for the allocator, to which every shard and broker speaks.
const ALLOCATOR_INBOX_MAX: usize = 65_536;
/// How often is looked whether somebody missed what a broker said.
const REPEAT_TICK: Duration = Duration::from_millis(200);
/// How often is looked which other nodes there are.
const NODES_TICK: Duration = Duration::from_secs(5);
/// The key that holds the number of shards, fixed when the region is created.
const SHARDS_KEY: &str = "meta/shards";

/// Why a node ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// For a reason that any node may have.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The number of shards can't be read or written.
    #[error("the number of shards can't be settled: {why}")]
    Shards {
        /// Why.
        why: String,
    },
}

/// Runs a node until `shutdown`. Must be called within an actix system. Stops no container.
///
/// # Errors
/// When it can't start, or can't go on.
pub async fn run(mut config: RegionConfig, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
    let store = open_store(&config.store).await.map_err(NodeError::from)?;
    let identity = open_identity(&*store, StoreKind::Region, config.region.as_str(), None).await;
    let identity = identity.map_err(NodeError::from)?;
    config.shards = settle_shards(&*store, config.shards).await?;
    let setup = Setup {
        node: config.node.clone(),
        advertise: config.advertise.clone(),
        owns: OwnerKey::allocator(),
        what: format!("region {}", config.region),
        lease_ttl: config.lease_ttl,
    };
    let node = Node::join(setup, Arc::clone(&store)).await?;
    let region = Arc::new(Region::new(config, identity.incarnation, store, Arc::new(SystemClock)));
    polder_observability::Process::shared().introduce(env!("CARGO_PKG_VERSION"), "region");
    let server = serve(&region)?;
    let ended = node.run(own_and_work(&region, &node), shutdown).await;
    tracing::info!(region = %region.config.region, "stopping; containers go on running");
    server.stop().await;
    node.stop().await;
    Ok(ended?)
}

fn serve(region: &Arc<Region>) -> Result<Server, NodeError> {
    let data = web::Data::from(Arc::clone(region));
    let front: Arc<dyn RegionFront> = Arc::new(RegionApi { region: Arc::clone(region) });
    Server::start(region.config.listen, move || {
        let (data, front) = (data.clone(), Arc::clone(&front));
        move |config: &mut ServiceConfig| {
            config.app_data(data).route(LINK_PATH, web::get().to(links::open)).configure(configure_region(front));
        }
    })
}

/// Waits until the region can be owned, then runs its actors until one of them gives up.
async fn own_and_work(region: &Arc<Region>, node: &Node) -> Result<(), NodeError> {
    let mut stage = node.own().await?;
    let (seat, root) = (Arc::clone(&stage.seat), stage.root.clone());
    start_actors(region, &seat, &root)?;
    let known = known_datacenters(&*region.store).await?;
    let mut starts = region.brokers.accept_starts();
    for datacenter in known {
        start_broker(region, &seat, &root, datacenter)?;
    }
    let mut upkeep = pin!(stage.upkeep());
    let mut repeat = pin!(repeat_what_was_missed(region));
    let mut nodes = pin!(look_for_nodes(region));
    loop {
        tokio::select! {
            failed = &mut upkeep => return Err(failed),
            never = &mut repeat => match never {},
            never = &mut nodes => match never {},
            start = next_start(&mut starts) => {
                let StartBroker { datacenter, answer } = start;
                let known = region.brokers.has(&datacenter);
                let started = if known { Ok(()) } else { start_broker(region, &seat, &root, datacenter) };
                // The link that asked may be gone.
                let _ = answer.send(started.map_err(|error| error.to_string()));
            }
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

fn start_actors(region: &Arc<Region>, seat: &Arc<Seat>, root: &Group) -> Result<(), SpawnError> {
    let allocator = root.prepare("allocator", ActorOptions::default().capacity(ALLOCATOR_INBOX_MAX));
    let shards: Vec<_> = region
        .shard_ids()
        .map(|shard| {
            (shard, root.prepare(&format!("shard-{shard}"), ActorOptions::default().capacity(SHARD_INBOX_MAX)))
        })
        .collect();
    region.set_actors(Actors {
        seat: Arc::clone(seat),
        allocator: allocator.handle().clone(),
        shards: shards.iter().map(|(_, shard)| shard.handle().clone()).collect(),
    });
    let (its_region, its_seat) = (Arc::clone(region), Arc::clone(seat));
    allocator.start(move |_| AllocatorRole::new(Arc::clone(&its_region), Arc::clone(&its_seat)))?;
    for (shard, prepared) in shards {
        let (its_region, its_seat) = (Arc::clone(region), Arc::clone(seat));
        prepared.start(move |_| ShardRole::new(Arc::clone(&its_region), Arc::clone(&its_seat), shard))?;
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

/// Says again how every host is, to those who missed it. Apart from all else: who has no room may have none for long.
async fn repeat_what_was_missed(region: &Arc<Region>) -> Infallible {
    let mut tick = tokio::time::interval(REPEAT_TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        join_all(region.brokers.take_missed().into_iter().map(|listener| async move {
            if !region.repeat_notices(listener).await {
                region.brokers.missed(listener);
            }
        }))
        .await;
    }
}

/// Keeps in mind which nodes there are, so that hosts know where to go if this one is lost.
async fn look_for_nodes(region: &Region) -> Infallible {
    let mut tick = tokio::time::interval(NODES_TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        match registry::list_nodes(&*region.store).await {
            Ok(nodes) => region.learn_nodes(nodes),
            Err(error) => tracing::debug!(%error, "the region's other nodes are not known now"),
        }
    }
}

/// The number of shards that the region was created with; `wanted` if it is created now.
pub(crate) async fn settle_shards(store: &dyn Store, wanted: u16) -> Result<u16, RunError> {
    let bad = |why: String| RunError::Shards { why };
    if !SHARDS.contains(&wanted) {
        return Err(bad(format!("{wanted} are asked for, and it must be 1 to {}", SHARDS.end())));
    }
    for _ in 0..3 {
        if let Some(entry) = store.get(SHARDS_KEY).await.map_err(NodeError::from)? {
            let number = str::from_utf8(&entry.value).ok().and_then(|text| text.parse().ok());
            return number
                .filter(|number| SHARDS.contains(number))
                .ok_or_else(|| bad(format!("`{SHARDS_KEY}` should hold a number from 1 to {}", SHARDS.end())));
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

/// How many shards a region may have.
const SHARDS: RangeInclusive<u16> = 1..=SHARDS_MAX.0;

/// The highest number of shards that keys have room for.
pub const SHARDS_MAX: ShardId = ShardId(0xfff);
