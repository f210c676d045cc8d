//! What reaches a job shard, and what it asks for.

use alloc::{boxed::Box, string::String, vec::Vec};
use core::fmt;
use polder_types::{
    BootId, ContainerId, ContainerStatus, Generation, HostId, JobId, OwnerEpoch, ShardId, Slice, SliceVersion,
};

use super::state::{JobRecord, Origin, TaskChunk};
use crate::message::{HostNotice, HostOrder, Notice, PlacementAnswer, PlacementNote, Preparation, Refusal, ReplyId};

/// Who a job shard is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which shard.
    pub shard: ShardId,
    /// The epoch of this owner.
    pub owner: OwnerEpoch,
    /// Number of shards in the region.
    pub shards: u16,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Somebody wants a slice to be so. With [`Origin::Local`] the shard counts the version itself.
    Apply {
        /// Whom to answer.
        reply: ReplyId,
        /// The whole slice.
        slice: Box<Slice>,
        /// Who says so.
        origin: Origin,
    },
    /// Somebody wants a job to stop. The federation does so by applying a slice with `stopped` set.
    Stop {
        /// Whom to answer.
        reply: ReplyId,
        /// The job.
        job: JobId,
        /// Who says so.
        origin: Origin,
    },
    /// Somebody wants a stopped job's records to be removed. Refused while anything of it is left.
    Delete {
        /// Whom to answer.
        reply: ReplyId,
        /// The job.
        job: JobId,
        /// Who says so.
        origin: Origin,
    },
    /// The allocator answered.
    Placement(PlacementAnswer),
    /// Containers of this shard changed on a host.
    HostReported {
        /// The host.
        host: HostId,
        /// The containers; others' are ignored.
        statuses: Vec<ContainerStatus>,
    },
    /// All that a host runs for this shard: sent when its link opens, and whenever the shard asks
    /// ([`Effect::AskInventory`]).
    HostListed {
        /// The host.
        host: HostId,
        /// Its boot.
        boot: BootId,
        /// Its containers of this shard, ended ones that were not forgotten included.
        statuses: Vec<ContainerStatus>,
    },
    /// A host refused an order.
    HostRefused {
        /// The host.
        host: HostId,
        /// The container it was about.
        container: ContainerId,
        /// Why.
        why: Refusal,
    },
    /// A host said how far it is with an image that a container of this shard will need.
    HostPrepared {
        /// The host.
        host: HostId,
        /// The container that it is for.
        container: ContainerId,
        /// How far.
        preparation: Preparation,
    },
    /// A broker said how a host is.
    HostNotice(HostNotice),
    /// A step for this job failed: it is to be set aside.
    Quarantine {
        /// The job.
        job: JobId,
        /// What happened.
        reason: String,
    },
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Tell the allocator.
    Allocator(PlacementNote),
    /// Send an order to a host, if it is linked; otherwise drop it: it is repeated.
    Order {
        /// The host.
        host: HostId,
        /// The order.
        order: HostOrder,
    },
    /// Have [`Event::HostListed`] sent for this host, now if it is linked. May be dropped: it is repeated.
    AskInventory {
        /// The host.
        host: HostId,
    },
    /// Answer whoever asked.
    Reply {
        /// Whom.
        reply: ReplyId,
        /// The answer.
        result: Result<Applied, Refused>,
    },
    /// Tell people.
    Notice(Notice),
    /// What [`super::JobShard::slice_status`] says of this job may have changed.
    SliceChanged(JobId),
}

/// A change of durable state. Deltas of one step are committed in order; each is valid by itself, so a step may take
/// several transactions as long as each compares what [`Delta::FenceAllocator`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Compare: the allocator's epoch must still be this one, for every transaction of this step.
    FenceAllocator(OwnerEpoch),
    /// Write a job.
    PutJob(Box<JobRecord>),
    /// Write a chunk.
    PutChunk(TaskChunk),
    /// Remove a chunk.
    DeleteChunk {
        /// The job.
        job: JobId,
        /// Which chunk.
        number: u32,
    },
    /// Remove a job. Comes after the removal of its chunks.
    DeleteJob(JobId),
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The job.
    pub job: JobId,
    /// The version that is in force.
    pub version: SliceVersion,
    /// The generation that is in force.
    pub generation: Generation,
    /// Whether anything changed.
    pub changed: bool,
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A newer version of the slice is in force.
    OlderVersion {
        /// The one in force.
        have: SliceVersion,
        /// The one that came.
        came: SliceVersion,
    },
    /// The version in force has another content.
    SameVersion {
        /// The version.
        version: SliceVersion,
    },
    /// Another shard owns that job.
    WrongShard {
        /// The shard that does.
        owner: ShardId,
    },
    /// The job belongs to somebody else.
    WrongOrigin {
        /// To whom.
        owner: Origin,
    },
    /// There is no such job.
    UnknownJob,
    /// A job can't change its kind.
    KindChanged,
    /// A job must be stopped before it is deleted.
    NotStopped,
    /// Containers are left.
    StillRunning {
        /// How many.
        containers: u32,
        /// One of them.
        example: ContainerId,
        /// Its host.
        host: HostId,
    },
    /// Too many tasks.
    TooManyTasks {
        /// How many were asked for.
        asked: u32,
        /// The limit.
        max: u32,
    },
    /// The shard has too many jobs.
    TooManyJobs {
        /// The limit.
        max: usize,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OlderVersion { have, came } => {
                write!(f, "version {came} is older than version {have}, which is in force: read the job again and apply on top of that")
            }
            Self::SameVersion { version } => {
                write!(f, "version {version} is in force with another content: apply with a higher version")
            }
            Self::WrongShard { owner } => write!(f, "shard {owner} owns this job: send it there"),
            Self::WrongOrigin { owner: Origin::Federation } => {
                f.write_str("the federation owns this job: change it through the federation's address")
            }
            Self::WrongOrigin { owner: Origin::Local } => {
                f.write_str("a job of this name was submitted to this region itself: stop and delete it there, or choose another name")
            }
            Self::UnknownJob => f.write_str("there is no such job in this region: check the name with `polder status`"),
            Self::KindChanged => {
                f.write_str("a job can't change its kind: stop and delete it first, or choose another name")
            }
            Self::NotStopped => f.write_str("the job is not stopped: stop it first"),
            Self::StillRunning { containers: 1, example, host } => {
                write!(f, "the container {example} on host {host} is not known to be gone: wait until it is")
            }
            Self::StillRunning { containers, example, host } => {
                write!(f, "{containers} containers are not known to be gone, such as {example} on host {host}: wait until they are")
            }
            Self::TooManyTasks { asked, max } => {
                write!(f, "{asked} tasks are too many for one job in one region ({max} at most): split the job")
            }
            Self::TooManyJobs { max } => {
                write!(f, "this shard has {max} jobs already, which is its limit: delete jobs that are stopped")
            }
        }
    }
}
