//! A node from its start to its end.

use crate::Seat;
use polder_shell::{Escalation, Group, SpawnError, Tree, TreeOptions};
use polder_store::{
    Lease, Revision, Store, StoreError,
    identity::{IDENTITY_KEY, IdentityError},
    owner::{self, AcquireError, OwnerKey},
    registry::{self, NodeRecord},
};
use polder_types::Name;
use std::{
    future::Future,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    sync::mpsc,
    time::{self, MissedTickBehavior},
};

/// How often the history of the store is cut off, at where it was one such time ago.
const COMPACT_EVERY: Duration = Duration::from_secs(300);

/// Why a node ended.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Its store can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its store belongs to something else.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// What it is for could not be taken.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// It can't listen.
    #[error("can't listen on {address}: {source}; is another process using it?")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Its lease ended, so another node may own what this one did.
    #[error("the node's lease was lost ({why}): another node may own {what} now; start this one again")]
    LeaseLost {
        /// What the node was for.
        what: String,
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

/// What makes a node this node.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Its name, unique among those that share its store.
    pub node: Name,
    /// The address at which others reach it.
    pub advertise: String,
    /// What it must own to work; others stand by for it.
    pub owns: OwnerKey,
    /// The same in words: `region eu`.
    pub what: String,
    /// How long it may be unable to reach its store before others may take over.
    pub lease_ttl: Duration,
}

/// A node with a lease of its store.
#[derive(Debug)]
pub struct Node {
    setup: Setup,
    store: Arc<dyn Store>,
    lease: Lease,
    /// To be stopped in order, once there is one.
    tree: Mutex<Option<Tree>>,
}

/// Where the actors of a node work, from when it owns what it is for.
#[derive(Debug)]
pub struct Stage {
    /// Through which actors are taken.
    pub seat: Arc<Seat>,
    /// Under which they are started.
    pub root: Group,
    store: Arc<dyn Store>,
    escalated: mpsc::Receiver<Escalation>,
}

impl Node {
    /// Takes a lease of the store.
    ///
    /// # Errors
    /// When the store does not give one.
    pub async fn join(setup: Setup, store: Arc<dyn Store>) -> Result<Self, NodeError> {
        let lease = store.grant_lease(setup.lease_ttl).await?;
        Ok(Self { setup, store, lease, tree: Mutex::default() })
    }

    /// Waits until the node may own what it is for.
    ///
    /// # Errors
    /// When the lease is lost meanwhile, the store does not answer, or actors can't have threads.
    pub async fn own(&self) -> Result<Stage, NodeError> {
        let Setup { node, advertise, owns, what, .. } = &self.setup;
        let record = NodeRecord {
            id: node.to_string(),
            address: advertise.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        if let Err(error) = registry::register_node(&*self.store, self.lease.id(), &record).await {
            tracing::warn!(%error, "this node is not in the registry");
        }
        tracing::info!(%node, "waiting to own {what}");
        owner::acquire_when_vacant(&*self.store, owns, node.as_str(), &self.lease).await?;
        tracing::info!(%node, "owns {what}");
        // One is enough to end the node.
        let (escalations, escalated) = mpsc::channel(1);
        let tree = Tree::new(TreeOptions {
            on_escalation: Arc::new(move |escalation: &Escalation| {
                let _ = escalations.try_send(escalation.clone());
            }),
            ..TreeOptions::default()
        })?;
        let root = tree.root();
        *self.tree.lock().unwrap_or_else(PoisonError::into_inner) = Some(tree);
        let seat = Seat::new(Arc::clone(&self.store), self.lease.clone(), node.clone());
        Ok(Stage { seat: Arc::new(seat), root, store: Arc::clone(&self.store), escalated })
    }

    /// Lets the node work until its work ends, `shutdown` does, or its lease is lost. Stops nothing yet.
    ///
    /// # Errors
    /// When the work failed or the lease was lost.
    pub async fn run<E: From<NodeError>>(
        &self,
        work: impl Future<Output = Result<(), E>>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), E> {
        tokio::select! {
            ended = work => ended,
            () = shutdown => Ok(()),
            why = self.lease.lost() => Err(NodeError::LeaseLost { what: self.setup.what.clone(), why }.into()),
        }
    }

    /// Stops the actors, the last started first, then gives the lease back.
    pub async fn stop(&self) {
        let tree = self.tree.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(tree) = tree {
            for late in tree.shutdown().await.abandoned {
                tracing::warn!(actor = late, "did not finish in time");
            }
        }
        // Others need not wait for the lease to run out. If the store does not answer, it runs out.
        if let Err(error) = self.lease.revoke().await {
            tracing::debug!(%error, "the lease runs out by itself");
        }
    }
}

impl Stage {
    /// Cuts the store's history off from time to time, until an actor gives up; says which.
    pub async fn upkeep(&mut self) -> NodeError {
        let mut compact = time::interval(COMPACT_EVERY);
        compact.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut compact_to = None;
        loop {
            tokio::select! {
                escalation = self.escalated.recv() => {
                    let Some(Escalation { actor, error }) = escalation else {
                        // Nobody can tell any more; then nobody has failed.
                        return std::future::pending().await;
                    };
                    return NodeError::Escalated { actor, error };
                }
                _ = compact.tick() => compact_to = compact_store(&*self.store, compact_to).await,
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use polder_store::EmbeddedStore;
    use tokio::sync::oneshot;

    fn setup(node: &str) -> Setup {
        Setup {
            node: node.parse().unwrap(),
            advertise: "http://127.0.0.1:1".to_owned(),
            owns: OwnerKey::new("toy"),
            what: "the toy".to_owned(),
            lease_ttl: Duration::from_secs(60),
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_next_node_need_not_wait_for_the_lease_of_one_that_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(dir.path()).unwrap());
        let first = Node::join(setup("node-1"), Arc::clone(&store)).await.unwrap();
        let second = Node::join(setup("node-2"), Arc::clone(&store)).await.unwrap();
        let stage = first.own().await.unwrap();
        assert!(time::timeout(Duration::from_millis(50), second.own()).await.is_err(), "it is owned");
        let (stop, stopped) = oneshot::channel::<()>();
        stop.send(()).unwrap();
        let work = async { std::future::pending::<Result<(), NodeError>>().await };
        first.run(work, async { drop(stopped.await) }).await.unwrap();
        drop(stage);
        first.stop().await;
        second.own().await.unwrap();
        second.stop().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_lost_lease_ends_the_work() {
        let dir = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(dir.path()).unwrap());
        let node = Node::join(setup("node-1"), Arc::clone(&store)).await.unwrap();
        node.lease.revoke().await.unwrap();
        let work = std::future::pending::<Result<(), NodeError>>();
        let ended = node.run(work, std::future::pending()).await.unwrap_err();
        assert!(matches!(&ended, NodeError::LeaseLost { what, .. } if what == "the toy"), "{ended}");
        node.stop().await;
    }
}
