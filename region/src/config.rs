//! How a region node is set up.

use polder_types::{Millis, Name, RegionId};
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// Shards of a region that is created now. Fixed for the life of the region: jobs hash to them.
pub const SHARDS_DEFAULT: u16 = 8;

/// How long a node may be unable to reach its store before others may take over.
pub const LEASE_TTL_DEFAULT: Duration = Duration::from_secs(10);

/// Where a node keeps its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreConfig {
    /// In a folder, for one node.
    Embedded {
        /// The folder.
        dir: PathBuf,
    },
    /// In an etcd, for any number of nodes.
    Etcd {
        /// Its members' addresses.
        endpoints: Vec<String>,
        /// What every key begins with, so that several regions can share an etcd.
        prefix: String,
    },
}

/// A region node.
#[derive(Clone, Debug)]
pub struct RegionConfig {
    /// The region.
    pub region: RegionId,
    /// This node, unique in the region.
    pub node: Name,
    /// Where it listens.
    pub listen: SocketAddr,
    /// The address at which hosts and the federation reach it: `http://10.0.0.5:7001`.
    pub advertise: String,
    /// Its store.
    pub store: StoreConfig,
    /// Number of shards, used when the region is created.
    pub shards: u16,
    /// How long a host may be silent before it counts as unknown.
    pub silent_after: Millis,
    /// The lease of this node.
    pub lease_ttl: Duration,
    /// Where the federation is, to name it in messages.
    pub federation: Option<String>,
}
