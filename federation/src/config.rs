//! How a federation node is set up.

use polder_types::{Millis, Name, RegionId};
use std::{net::SocketAddr, time::Duration};

/// How long a region may be silent before it counts as unknown.
pub const SILENT_AFTER_DEFAULT: Millis = Millis::from_secs(5);

/// A region and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionAddress {
    /// The region.
    pub region: RegionId,
    /// The addresses of its nodes, `http://HOST:PORT`; any will do, the next is tried when one fails.
    pub addresses: Vec<String>,
}

/// A federation node.
#[derive(Clone, Debug)]
pub struct FederationConfig {
    /// The federation's name, to know its store by.
    pub federation: Name,
    /// This node, unique in the federation.
    pub node: Name,
    /// Where it listens.
    pub listen: SocketAddr,
    /// The address at which others reach it: `http://10.0.0.5:7000`.
    pub advertise: String,
    /// Its regions.
    pub regions: Vec<RegionAddress>,
    /// The lease of this node.
    pub lease_ttl: Duration,
    /// How long a region may be silent before it counts as unknown.
    pub silent_after: Millis,
}
