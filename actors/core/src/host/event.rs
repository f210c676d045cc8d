//! What a host is told and what it asks for.

use super::record::{ContainerRecord, DrainRecord, OwnerRecord, TaskFloor};
use crate::message::{HostOrder, HostReport, Notice};
use alloc::{string::String, sync::Arc, vec::Vec};
use polder_types::{ContainerId, ContainerSpec, ExitStatus, Millis, TaskId, Timestamp};

/// What the runtime found of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundState {
    /// Its start is under way.
    Launching,
    /// Its process runs.
    Running {
        /// Its process id.
        pid: u32,
        /// Since when.
        started_at: Timestamp,
    },
    /// It has ended; its remains are there.
    Ended {
        /// How.
        status: ExitStatus,
        /// When.
        at: Timestamp,
    },
}

/// A container that the runtime holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which.
    pub id: ContainerId,
    /// How it is.
    pub state: FoundState,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// The region gave an order.
    Order(HostOrder),
    /// A link to the region is open, and the region has welcomed this host.
    LinkOpened {
        /// Numbers the links.
        session: u64,
    },
    /// A link is gone.
    LinkClosed {
        /// Which.
        session: u64,
    },
    /// The runtime has looked at everything that an earlier agent left. Nothing is started or reported before.
    Adopted {
        /// All containers it holds. What is not among them is not there.
        found: Vec<Found>,
    },
    /// A container's process runs.
    Launched {
        /// Which.
        id: ContainerId,
        /// Its process id.
        pid: u32,
        /// When it started.
        started_at: Timestamp,
    },
    /// A container could not be started.
    LaunchFailed {
        /// Which.
        id: ContainerId,
        /// Why.
        reason: String,
    },
    /// A container's processes are gone.
    Exited {
        /// Which.
        id: ContainerId,
        /// How.
        status: ExitStatus,
        /// When.
        at: Timestamp,
    },
    /// Nothing is left of a container.
    Removed {
        /// Which.
        id: ContainerId,
    },
    /// The remains of a container could not be removed.
    RemoveFailed {
        /// Which.
        id: ContainerId,
        /// Why.
        reason: String,
    },
    /// Some time has passed, whatever the clock shows. Said every few seconds by whoever can tell without the clock:
    /// when that was set back, nothing may wait for it to catch up.
    Ticked,
    /// An image that was to be prepared is here, or can't be had.
    Prepared {
        /// The container that it is for.
        id: ContainerId,
        /// Why it can't be had, if so.
        failed: Option<String>,
    },
    /// A probe has its answer.
    Probed {
        /// Which container.
        id: ContainerId,
        /// Whether it is well.
        ok: bool,
    },
}

/// An HTTP request that tells whether a container is well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpProbe {
    /// The port on this host.
    pub port: u16,
    /// The path.
    pub path: String,
    /// How long an answer may take.
    pub timeout: Millis,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Create and start a container. Answered by `Launched` or `LaunchFailed`; after `Launched` an `Exited` comes.
    Launch {
        /// Which.
        id: ContainerId,
        /// What it is.
        spec: Arc<ContainerSpec>,
    },
    /// Send a signal to its first process. Harmless when it has none.
    Signal {
        /// Which.
        id: ContainerId,
        /// The signal's number.
        signal: i32,
    },
    /// Kill all its processes; one whose start is under way ends as soon as it has any. Repeated until it has ended.
    Kill {
        /// Which.
        id: ContainerId,
    },
    /// Remove what it left behind. Answered by `Removed` or `RemoveFailed`; `Removed` when there is nothing.
    Remove {
        /// Which.
        id: ContainerId,
    },
    /// Have an image ready. Answered by `Prepared`.
    Prepare {
        /// For which container.
        id: ContainerId,
        /// The image reference.
        image: String,
    },
    /// Ask it whether it is well. Answered by `Probed`.
    Probe {
        /// Which.
        id: ContainerId,
        /// How.
        probe: HttpProbe,
    },
    /// Tell the region. Dropped if there is no link: a new link begins with an inventory.
    Report(HostReport),
    /// Tell people.
    Notice(Notice),
}

/// A change of durable state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// This container is now so.
    PutContainer(ContainerRecord),
    /// This container is forgotten.
    RemoveContainer(ContainerId),
    /// This is the newest owner of its shard.
    PutOwner(OwnerRecord),
    /// Up to here no container of this task may start.
    PutFloor(TaskFloor),
    /// That need not be remembered any more.
    RemoveFloor(TaskId),
    /// The newest drain is now so.
    PutDrain(DrainRecord),
}
