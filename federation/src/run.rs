//! A federation node from its start to its end.

use crate::{
    config::FederationConfig,
    federation::{Actors, Federation},
    front::FederationApi,
    link::{RegionLink, Sinks},
    roles::{LedgerRole, RouterRole},
    seat::Seat,
};
use actix_web::{App, HttpServer};
use polder_api::{
    client::ClientError,
    server::{Front, configure},
};
use polder_shell::{ActorOptions, Clock, Escalation, Group, SpawnError, SystemClock, Tree, TreeOptions};
use polder_store::{
    Lease, Revision, Store, StoreError,
    identity::{IDENTITY_KEY, IdentityError, StoreKind, open_identity},
    owner::{self, AcquireError, OwnerKey},
    registry::{self, NodeRecord},
};
use std::{collections::BTreeMap, future::Future, sync::Arc, time::Duration};
use tokio::{sync::mpsc, task::JoinHandle};

/// Events that can wait for the intent router or the quota ledger.
const INBOX_MAX: usize = 8192;
/// How often the history of the store is cut off, at where it was one such time ago.
const COMPACT_EVERY: Duration = Duration::from_secs(300);
/// How long open requests may take when the node stops.
const SERVER_STOP_SECS: u64 = 2;

/// Why a node ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Its store can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its store belongs to something else.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// It could not take the lead.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// A region's address is no address.
    #[error("region {region}: {source}")]
    Region {
        /// The region.
        region: polder_types::RegionId,
        /// What is wrong with its address.
        source: ClientError,
    },
    /// It can't listen.
    #[error("can't listen on {address}: {source}; is another process using it?")]
    Listen {
        /// Where.
        address: std::net::SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Its lease ended, so another node may lead.
    #[error("the node's lease was lost ({why}): another node may lead the federation now; start this one again")]
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
    open_identity(&*store, StoreKind::Federation, config.federation.as_str(), None).await?;
    let mut links = BTreeMap::new();
    for region in &config.regions {
        let link =
            RegionLink::new(region).map_err(|source| RunError::Region { region: region.region.clone(), source })?;
        links.insert(region.region.clone(), Arc::new(link));
    }
    let lease = store.grant_lease(config.lease_ttl).await?;
    let federation = Arc::new(Federation::new(config, Arc::clone(&store), Arc::new(SystemClock), links));
    let (server, server_task) = serve(&federation)?;
    let mut following = Following::default();
    let ended = tokio::select! {
        ended = lead(&federation, &lease, &mut following) => ended,
        () = shutdown => Ok(()),
        why = lease.lost() => Err(RunError::LeaseLost { why }),
    };
    tracing::info!(federation = %federation.config.federation, "stopping; regions go on");
    server.stop(true).await;
    if let Err(error) = server_task.await {
        tracing::warn!(%error, "the server did not stop in order");
    }
    following.stop();
    if let Some(tree) = federation.take_tree() {
        for late in tree.shutdown().await.abandoned {
            tracing::warn!(actor = late, "did not finish in time");
        }
    }
    // Others need not wait for the lease to run out. If the store does not answer, it runs out.
    if let Err(error) = lease.revoke().await {
        tracing::debug!(%error, "the lease runs out by itself");
    }
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

type ServerTask = JoinHandle<std::io::Result<()>>;

fn serve(federation: &Arc<Federation>) -> Result<(actix_web::dev::ServerHandle, ServerTask), RunError> {
    let address = federation.config.listen;
    let front: Arc<dyn Front> = Arc::new(FederationApi { federation: Arc::clone(federation) });
    let server = HttpServer::new(move || App::new().configure(configure(Arc::clone(&front))))
        .disable_signals()
        .shutdown_timeout(SERVER_STOP_SECS)
        .bind(address)
        .map_err(|source| RunError::Listen { address, source })?
        .run();
    Ok((server.handle(), actix_web::rt::spawn(server)))
}

/// Waits until this node may lead, then runs the actors until one of them gives up.
async fn lead(federation: &Arc<Federation>, lease: &Lease, following: &mut Following) -> Result<(), RunError> {
    let (config, store) = (&federation.config, &federation.store);
    let node = NodeRecord {
        id: config.node.to_string(),
        address: config.advertise.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    if let Err(error) = registry::register_node(&**store, lease.id(), &node).await {
        tracing::warn!(%error, "this node is not in the registry");
    }
    tracing::info!(node = %config.node, "waiting to lead the federation");
    owner::acquire_when_vacant(&**store, &OwnerKey::federation(), config.node.as_str(), lease).await?;
    tracing::info!(node = %config.node, "leads the federation");

    let seat = Arc::new(Seat::new(Arc::clone(store), lease.clone(), config.node.clone()));
    let (escalations, mut escalated) = mpsc::channel::<Escalation>(1);
    let tree = Tree::new(TreeOptions {
        on_escalation: Arc::new(move |escalation| {
            // One is enough to end the node.
            let _ = escalations.try_send(escalation.clone());
        }),
        ..TreeOptions::default()
    })?;
    federation.set_tree(tree.clone());
    let sinks = start_actors(federation, &seat, &tree.root())?;
    for link in federation.links.values() {
        let link = Arc::clone(link);
        let (sinks, clock): (Sinks, Arc<dyn Clock>) = (sinks.clone(), Arc::clone(&federation.clock));
        let silent_after = config.silent_after;
        following.0.push(actix_web::rt::spawn(async move { link.work(sinks, clock, silent_after).await }));
    }
    let mut compact = tokio::time::interval(COMPACT_EVERY);
    let mut compact_to = None;
    loop {
        tokio::select! {
            escalation = escalated.recv() => {
                let Some(Escalation { actor, error }) = escalation else { return Ok(()) };
                return Err(RunError::Escalated { actor, error });
            }
            _ = compact.tick() => compact_to = compact_store(&**store, compact_to).await,
        }
    }
}

fn start_actors(federation: &Arc<Federation>, seat: &Arc<Seat>, root: &Group) -> Result<Sinks, RunError> {
    let options = ActorOptions::default().capacity(INBOX_MAX);
    let router = root.prepare("intent-router", options);
    let ledger = root.prepare("quota-ledger", options);
    federation.set_actors(Actors { router: router.handle().clone(), ledger: ledger.handle().clone() });
    let sinks = Sinks { router: router.handle().port().clone(), ledger: ledger.handle().port().clone() };
    let (its, its_seat) = (Arc::clone(federation), Arc::clone(seat));
    router.start(move |handle| RouterRole::new(Arc::clone(&its), Arc::clone(&its_seat), handle))?;
    let (its, its_seat) = (Arc::clone(federation), Arc::clone(seat));
    ledger.start(move |handle| LedgerRole::new(Arc::clone(&its), Arc::clone(&its_seat), handle))?;
    Ok(sinks)
}

/// Cuts the history off at `to`, and answers with where it is now.
async fn compact_store(store: &dyn Store, to: Option<Revision>) -> Option<Revision> {
    if let Some(to) = to
        && let Err(error) = store.compact(to).await
    {
        tracing::warn!(%error, "the store's history could not be cut off; trying again later");
    }
    store.list(IDENTITY_KEY).await.ok().map(|listing| listing.revision)
}
