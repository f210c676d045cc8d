//! The messages of a host's link.
//!
//! The host opens a WebSocket at [`LINK_PATH`] of any region node and says [`Hello`]. The region answers with
//! [`Welcome`] or [`Reject`]; after a welcome the host sends its inventory, and orders and reports flow.

use bytes::Bytes;
use polder_core::message::{HostOrder, HostReport};
use polder_types::{BootId, Epoch, HomeId, HostId, Incarnation, RegionId, TaskId};

/// Where a region node takes host links.
pub const LINK_PATH: &str = "/v1/link";
/// The version of the protocol that this program speaks.
pub const PROTOCOL_VERSION: u32 = 1;
/// The oldest version that it understands.
pub const PROTOCOL_OLDEST: u32 = 1;

/// What a host tells its region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToRegion {
    /// The first message of a link.
    Hello(Hello),
    /// What the host machine has to say.
    Report(HostReport),
    /// A piece of a log that was asked for.
    Log(LogChunk),
}

/// What a region tells a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToHost {
    /// The host is welcome.
    Welcome(Welcome),
    /// What a shard or broker wants.
    Order(HostOrder),
    /// Somebody wants to read a log.
    Log(LogRequest),
    /// Nobody reads that log any more.
    LogCancel(LogCancel),
    /// The link is refused, and will be closed.
    Reject(Reject),
}

/// Who opens a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The protocol version of the host.
    pub protocol: u32,
    /// The version of its agent.
    pub agent: String,
    /// The region it belongs to.
    pub region: RegionId,
    /// Its name.
    pub host: HostId,
    /// Its boot.
    pub boot: BootId,
    /// Numbers the links of a host: of two, the higher one counts.
    pub session: u64,
    /// The highest incarnation of the region that this host has seen; zero if none.
    pub incarnation: Incarnation,
    /// Its data folder: another one is another host, whatever its name.
    pub home: HomeId,
}

/// The answer to a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The protocol version that this link uses: the lower one of both sides'.
    pub protocol: u32,
    /// The region.
    pub region: RegionId,
    /// The incarnation of its store.
    pub incarnation: Incarnation,
    /// The node at the other end, for people.
    pub node: String,
    /// Base addresses of all region nodes: where to go if this one is lost.
    pub nodes: Vec<String>,
}

/// Why a link is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// For people.
    pub reason: String,
}

/// Asks for the log of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRequest {
    /// Names the request on this link.
    pub id: u64,
    /// The task.
    pub task: TaskId,
    /// Which start of it; none means the newest that the host has.
    pub epoch: Option<Epoch>,
    /// Whether to go on with what is written later, until the container has ended or the request is cancelled.
    pub follow: bool,
    /// Only the last lines of what is there; none means all that is kept.
    pub tail: Option<u32>,
}

/// A piece of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogChunk {
    /// The request.
    pub id: u64,
    /// What the container wrote.
    pub bytes: Bytes,
    /// Whether this is the last piece.
    pub eof: bool,
    /// Why there is no more; the last piece too.
    pub error: Option<String>,
}

/// Ends a log request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogCancel {
    /// The request.
    pub id: u64,
}
