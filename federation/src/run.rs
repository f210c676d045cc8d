//! A federation node from its start to its end.

use crate::{
    config::FederationConfig,
    federation::{Actors, Federation},
    front::FederationApi,
    link::{RegionLink, Sinks},
    roles::{LedgerRole, RouterRole},
};
use polder_api::{
    client::ClientError,
    server::{Front, configure},
};
use polder_node::{Node, NodeError, Server, Setup, Stage};
use polder_shell::{ActorOptions, Clock, SpawnError, SystemClock};
use polder_store::{
    Store,
    identity::{StoreKind, open_identity},
    owner::OwnerKey,
};
use polder_types::RegionId;
use std::{collections::BTreeMap, future::Future, sync::Arc};
use tokio::task::JoinHandle;

/// Events that can wait for the intent router or the quota ledger.
const INBOX_MAX: usize = 8192;

/// Why a node ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It can't start, or can't go on.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// A region's address is no address.
    #[error("region {region}: {source}")]
    Region {
        /// The region.
        region: RegionId,
        /// What is wrong with its address.
        source: ClientError,
    },
}

/// Runs a node until `shutdown`. Must be called within an actix system. Regions go on without it.
///
/// # Errors
/// When it can't start, or can't go on.
pub async fn run(
    config: FederationConfig,
    store: Arc<dyn Store>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let name = config.federation.as_str();
    open_identity(&*store, StoreKind::Federation, name, None).await.map_err(NodeError::from)?;
    let mut links = BTreeMap::new();
    for region in &config.regions {
        let link =
            RegionLink::new(region).map_err(|source| RunError::Region { region: region.region.clone(), source })?;
        links.insert(region.region.clone(), Arc::new(link));
    }
    let setup = Setup {
        node: config.node.clone(),
        advertise: config.advertise.clone(),
        owns: OwnerKey::federation(),
        what: format!("federation {name}"),
        lease_ttl: config.lease_ttl,
    };
    let node = Node::join(setup, Arc::clone(&store)).await?;
    let listen = config.listen;
    let federation = Arc::new(Federation::new(config, store, Arc::new(SystemClock), links));
    let front: Arc<dyn Front> = Arc::new(FederationApi { federation: Arc::clone(&federation) });
    polder_observability::Process::shared().introduce(env!("CARGO_PKG_VERSION"), "federation");
    let server = Server::start(listen, move || configure(Arc::clone(&front)))?;
    let mut following = Following::default();
    let ended = node.run(lead(&node, &federation, &mut following), shutdown).await;
    tracing::info!(federation = %federation.config.federation, "stopping; regions go on");
    server.stop().await;
    following.stop();
    node.stop().await;
    ended
}

/// The tasks that follow regions.
#[derive(Debug, Default)]
struct Following(Vec<JoinHandle<()>>);

impl Following {
    fn stop(&mut self) {
        for task in self.0.drain(..) {
            task.abort();
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits until this node may lead, then runs the actors until one of them gives up.
async fn lead(node: &Node, federation: &Arc<Federation>, following: &mut Following) -> Result<(), RunError> {
    let mut stage = node.own().await?;
    let sinks = start_actors(federation, &stage).map_err(NodeError::from)?;
    for link in federation.links.values() {
        let (link, sinks) = (Arc::clone(link), sinks.clone());
        let clock: Arc<dyn Clock> = Arc::clone(&federation.clock);
        let silent_after = federation.config.silent_after;
        following.0.push(actix_web::rt::spawn(async move { link.work(sinks, clock, silent_after).await }));
    }
    Err(stage.upkeep().await.into())
}

fn start_actors(federation: &Arc<Federation>, stage: &Stage) -> Result<Sinks, SpawnError> {
    let options = ActorOptions::default().capacity(INBOX_MAX);
    let router = stage.root.prepare("intent-router", options);
    let ledger = stage.root.prepare("quota-ledger", options);
    federation.set_actors(Actors { router: router.handle().clone(), ledger: ledger.handle().clone() });
    let sinks = Sinks { router: router.handle().port().clone(), ledger: ledger.handle().port().clone() };
    let (its, seat) = (Arc::clone(federation), Arc::clone(&stage.seat));
    router.start(move |handle| RouterRole::new(Arc::clone(&its), Arc::clone(&seat), handle))?;
    let (its, seat) = (Arc::clone(federation), Arc::clone(&stage.seat));
    ledger.start(move |handle| LedgerRole::new(Arc::clone(&its), Arc::clone(&seat), handle))?;
    Ok(sinks)
}
