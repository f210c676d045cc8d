//! What reaches a broker, and what it asks for.

use alloc::{boxed::Box, string::String};
use core::fmt;
use polder_types::{BootId, DatacenterId, DrainVersion, HomeId, HostId, HostInfo, Millis, Timestamp};

use super::state::{DrainRecord, HostRecord};
use crate::message::{DrainAttestation, HostNotice, HostOrder, Notice, ReplyId};

/// A host's link. Numbered by the wiring so that a newer link always has a higher number than an older one of the
/// same host, over all nodes; the highest speaks for the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(pub u64);

/// Who a broker is and how patient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The datacenter.
    pub datacenter: DatacenterId,
    /// A host that was not heard for so long is silent.
    pub silent_after: Millis,
    /// Being heard for so long without a break makes up for all earlier silence.
    pub recovered_after: Millis,
    /// How long after its deadline a drain waits for the host to attest what its force did, before it ends unattested.
    pub attest_margin: Millis,
}

impl Config {
    /// The usual patience.
    #[must_use]
    pub const fn new(datacenter: DatacenterId) -> Self {
        Self {
            datacenter,
            silent_after: super::limits::SILENT_AFTER,
            recovered_after: super::limits::RECOVERED_AFTER,
            attest_margin: super::limits::ATTEST_MARGIN,
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A host opened a link and said what it is. Nothing else that it says counts before this is answered.
    HostLinked {
        /// Whom to answer.
        reply: ReplyId,
        /// What it is.
        info: Box<HostInfo>,
        /// Its boot.
        boot: BootId,
        /// Its data folder.
        home: HomeId,
        /// Its link.
        session: Session,
        /// What it says of its drain.
        drain: Option<DrainAttestation>,
    },
    /// Anything came from a host.
    HostHeard {
        /// The host.
        host: HostId,
        /// Its data folder.
        home: HomeId,
        /// Over which link.
        session: Session,
    },
    /// A link closed. The host is not silent for that: it has its time to come back.
    HostUnlinked {
        /// The host.
        host: HostId,
        /// Which link.
        session: Session,
    },
    /// A host said how its drain goes.
    DrainAttested {
        /// The host.
        host: HostId,
        /// Its data folder.
        home: HomeId,
        /// Over which link.
        session: Session,
        /// What it says.
        attestation: DrainAttestation,
    },
    /// A host refused a start because of this drain (`Refusal::Draining`).
    StartRefused {
        /// The host.
        host: HostId,
        /// The drain.
        version: DrainVersion,
    },
    /// Somebody wants new tasks to be kept away.
    Cordon {
        /// Whom to answer.
        reply: ReplyId,
        /// The host.
        host: HostId,
        /// Who.
        by: String,
        /// Why.
        reason: String,
    },
    /// Somebody wants a host to be open again: ends its cordon and its drain, whatever state that is in.
    Uncordon {
        /// Whom to answer.
        reply: ReplyId,
        /// The host.
        host: HostId,
    },
    /// Somebody wants a host to be emptied by a deadline.
    Drain {
        /// Whom to answer.
        reply: ReplyId,
        /// The host.
        host: HostId,
        /// By when.
        deadline: Timestamp,
        /// Who.
        by: String,
        /// Why.
        reason: String,
    },
    /// Somebody calls a drain in progress off. A cordon stays.
    AbortDrain {
        /// Whom to answer.
        reply: ReplyId,
        /// The host.
        host: HostId,
    },
    /// Somebody vouches that nothing of a silent host runs any more, so that an agent with another data folder may take
    /// its name: the machine was reinstalled, or replaced.
    Readmit {
        /// Whom to answer.
        reply: ReplyId,
        /// The host.
        host: HostId,
        /// Who.
        by: String,
        /// Why.
        reason: String,
    },
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Tell the allocator and all shards.
    Host(HostNotice),
    /// Send an order to a host, if it is linked; otherwise drop it: it is repeated.
    Order {
        /// The host.
        host: HostId,
        /// The order.
        order: HostOrder,
    },
    /// Answer the link that said what its host is.
    LinkReply {
        /// Which.
        reply: ReplyId,
        /// Whether its host is let in.
        result: Result<Done, Refused>,
    },
    /// Answer whoever asked.
    Reply {
        /// Whom.
        reply: ReplyId,
        /// The answer.
        result: Result<Done, Refused>,
    },
    /// Tell people.
    Notice(Notice),
}

/// A change of durable state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Write a host.
    PutHost(Box<HostRecord>),
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The host.
    pub host: HostId,
    /// Whether anything changed.
    pub changed: bool,
    /// Whether new tasks are kept away by a cordon.
    pub cordoned: bool,
    /// Its newest drain.
    pub drain: Option<DrainRecord>,
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no such host.
    UnknownHost {
        /// Its name.
        host: HostId,
    },
    /// The deadline is not ahead, or too far ahead.
    Deadline {
        /// The deadline.
        deadline: Timestamp,
        /// What the time is.
        now: Timestamp,
        /// The longest that a drain may take.
        max: Millis,
    },
    /// The host is heard: nobody else can take its name.
    Heard {
        /// The host.
        host: HostId,
    },
    /// The host's name belongs to another data folder.
    NameTaken {
        /// The host.
        host: HostId,
        /// The folder that it belongs to.
        home: HomeId,
        /// For how long that one was not heard; none while it is.
        silent: Option<Millis>,
    },
    /// The host stands in a datacenter that another broker keeps.
    Misdirected {
        /// The host.
        host: HostId,
        /// Where it says it stands.
        datacenter: DatacenterId,
    },
    /// No more hosts can be registered.
    Full {
        /// The host.
        host: HostId,
        /// The limit.
        max: usize,
    },
    /// A newer link of the host has been heard.
    OldLink {
        /// The host.
        host: HostId,
    },
    /// No drain is in progress.
    NotDraining {
        /// The host.
        host: HostId,
        /// Its newest drain.
        drain: Option<Box<DrainRecord>>,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownHost { host } => {
                write!(f, "host {host} has never been heard in this region: check the name with `polder hosts`")
            }
            Self::Deadline { deadline, now, max } if deadline > now => {
                write!(f, "the deadline is {} ahead, {max} at most: choose an earlier one", deadline.since(*now))
            }
            Self::Deadline { .. } => f.write_str("the deadline of the drain has passed already: choose a later one"),
            Self::Heard { host } => write!(
                f,
                "host {host} is heard: its name can be given to another data folder only when its agent is stopped and the host is silent"
            ),
            Self::NameTaken { host, home, silent } => {
                write!(f, "the name {host} belongs to the agent with data folder {home}, which ")?;
                match silent {
                    None => f.write_str("is heard")?,
                    Some(silent) => write!(f, "has not been heard for {silent}")?,
                }
                write!(
                    f,
                    ": give this host a name of its own; if it is the same machine, reinstalled, and nothing of its old tasks runs any more, let it in with `polder readmit {host}`"
                )
            }
            Self::Misdirected { host, datacenter } => {
                write!(
                    f,
                    "host {host} says that it stands in datacenter {datacenter}, whose hosts another broker keeps"
                )
            }
            Self::Full { host, max } => {
                write!(f, "host {host} can't be registered: the datacenter has {max} hosts, which is its limit")
            }
            Self::OldLink { host } => write!(f, "a newer link of host {host} is open"),
            Self::NotDraining { host, drain: Some(drain) } => write!(
                f,
                "host {host} is not being drained: its drain {} has ended as {}; `polder uncordon {host}` opens it again",
                drain.version, drain.state
            ),
            Self::NotDraining { host, drain: None } => {
                write!(f, "host {host} is not being drained: there is nothing to call off")
            }
        }
    }
}
