//! Who is meant: numbers within a world, cheap to copy.

use crate::happening::Process;
use polder_types::{HomeId, HostId};
use std::fmt;

/// A node of the federation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FedAt(pub(crate) u8);

/// A node of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeAt {
    pub(crate) region: u8,
    pub(crate) node: u8,
}

/// A host of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HostAt {
    pub(crate) region: u8,
    pub(crate) host: u32,
}

/// The allocator that a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AllocatorAt(pub(crate) NodeAt);

/// A job shard that a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ShardAt {
    pub(crate) node: NodeAt,
    pub(crate) shard: u16,
}

/// A broker that a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BrokerAt {
    pub(crate) node: NodeAt,
    pub(crate) datacenter: u8,
}

/// The intent router that a node of the federation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RouterAt(pub(crate) FedAt);

/// The quota ledger that a node of the federation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LedgerAt(pub(crate) FedAt);

/// Any actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ActorId {
    Router(RouterAt),
    Ledger(LedgerAt),
    Allocator(AllocatorAt),
    Shard(ShardAt),
    Broker(BrokerAt),
    Host(HostAt),
}

impl HostAt {
    /// The data folder of its agent.
    pub(crate) const fn home(self) -> HomeId {
        HomeId(((self.region as u64) << 32) | (self.host as u64 + 1))
    }
}

impl fmt::Display for NodeAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}n{}", self.region, self.node)
    }
}

impl fmt::Display for HostAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}-h{}", self.region, self.host)
    }
}

impl fmt::Display for FedAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "f{}", self.0)
    }
}

impl fmt::Display for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Router(at) => write!(f, "{}/router", at.0),
            Self::Ledger(at) => write!(f, "{}/ledger", at.0),
            Self::Allocator(at) => write!(f, "{}/allocator", at.0),
            Self::Shard(at) => write!(f, "{}/shard-{}", at.node, at.shard),
            Self::Broker(at) => write!(f, "{}/broker-{}", at.node, at.datacenter),
            Self::Host(at) => write!(f, "{at}/host"),
        }
    }
}

impl ActorId {
    /// The process that runs it.
    pub(crate) fn process(self) -> Process {
        match self {
            Self::Router(RouterAt(at)) | Self::Ledger(LedgerAt(at)) => Process::Federation(at),
            Self::Allocator(AllocatorAt(at)) => Process::Node(at),
            Self::Shard(ShardAt { node, .. }) | Self::Broker(BrokerAt { node, .. }) => Process::Node(node),
            Self::Host(at) => Process::Agent(at),
        }
    }

    /// A number for the trace.
    pub(crate) fn code(self) -> u64 {
        let node = |at: NodeAt| (u64::from(at.region) << 8) | u64::from(at.node);
        match self {
            Self::Router(at) => (1 << 56) | u64::from(at.0.0),
            Self::Ledger(at) => (2 << 56) | u64::from(at.0.0),
            Self::Allocator(at) => (3 << 56) | node(at.0),
            Self::Shard(at) => (4 << 56) | (node(at.node) << 16) | u64::from(at.shard),
            Self::Broker(at) => (5 << 56) | (node(at.node) << 16) | u64::from(at.datacenter),
            Self::Host(at) => (6 << 56) | (u64::from(at.region) << 32) | u64::from(at.host),
        }
    }
}

/// A host's number, from its name.
pub(crate) fn host_number(host: &HostId) -> Option<u32> {
    host.as_str().rsplit_once('h')?.1.parse().ok()
}
