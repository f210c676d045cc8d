//! How a region node is set up.

use polder_node::StoreConfig;
use polder_types::{Millis, Name, RegionId};
use std::{net::SocketAddr, time::Duration};

/// Shards of a region that is created now. Fixed for the life of the region: jobs hash to them.
pub const SHARDS_DEFAULT: u16 = 8;

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
