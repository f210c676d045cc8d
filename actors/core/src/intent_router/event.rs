//! What the intent router is told and what it asks for.

use super::state::IntentRecord;
use crate::message::{Notice, ReplyId, SliceStatus};
use alloc::{boxed::Box, string::String, vec::Vec};
use polder_types::{Generation, JobId, JobSpec, RegionId, Slice, SliceVersion, Timestamp};

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// Somebody applied a job.
    Apply {
        /// Who asks.
        reply: ReplyId,
        /// The job.
        spec: Box<JobSpec>,
    },
    /// Somebody ordered a job to stop.
    Stop {
        /// Who asks.
        reply: ReplyId,
        /// The job.
        job: JobId,
    },
    /// Somebody ordered a stopped job to be forgotten, here and in every region.
    Delete {
        /// Who asks.
        reply: ReplyId,
        /// The job.
        job: JobId,
    },
    /// A region belongs to the federation.
    RegionKnown {
        /// The region.
        region: RegionId,
    },
    /// A region was heard.
    RegionHeard {
        /// The region.
        region: RegionId,
        /// When the region said so.
        at: Timestamp,
        /// How its slices do.
        statuses: Vec<SliceStatus>,
        /// Whether these are all the slices that the region has. Said at least once whenever a link opens, so that
        /// what the region does not have is sent again.
        complete: bool,
    },
    /// A region can't be heard. It keeps its share.
    RegionSilent {
        /// The region.
        region: RegionId,
    },
    /// A region has this version of a slice durably.
    SliceAcked {
        /// The region.
        region: RegionId,
        /// The job.
        job: JobId,
        /// The version.
        version: SliceVersion,
    },
    /// A region has forgotten its slice of a job that is being deleted, or never had one.
    SliceDropped {
        /// The region.
        region: RegionId,
        /// The job.
        job: JobId,
    },
    /// A region refused a slice, or to forget it.
    SliceRefused {
        /// The region.
        region: RegionId,
        /// The job.
        job: JobId,
        /// The version.
        version: SliceVersion,
        /// Why, in a sentence.
        problem: String,
    },
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send a slice to its region. It is repeated until the region has it.
    PutSlice {
        /// The region.
        region: RegionId,
        /// The slice.
        slice: Box<Slice>,
    },
    /// Have a region forget a slice of which nothing is left. It is repeated until the region has.
    DropSlice {
        /// The region.
        region: RegionId,
        /// The job.
        job: JobId,
        /// The newest version of the slice: a region that has a newer one refuses.
        version: SliceVersion,
    },
    /// Answer somebody.
    Reply {
        /// Who asked.
        reply: ReplyId,
        /// The answer.
        answer: Answer,
    },
    /// Tell people.
    Notice(Notice),
}

/// A change of durable state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// This intent is now so.
    Put(Box<IntentRecord>),
    /// This intent is forgotten.
    Delete(JobId),
}

/// What somebody who asked is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The intent is durable.
    Done {
        /// The job.
        job: JobId,
        /// Counts the specs of the job.
        generation: Generation,
        /// Whether anything changed.
        changed: bool,
    },
    /// Nothing was done.
    Refused(Problem),
}

/// Why an order was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The job names regions that the federation does not know.
    #[error("job {job} names regions that are not known: {}; known are: {}", list(.unknown), list(.known))]
    UnknownRegions {
        /// The job.
        job: JobId,
        /// Those that are not known.
        unknown: Vec<RegionId>,
        /// Those that are.
        known: Vec<RegionId>,
    },
    /// The federation knows no region yet.
    #[error("job {job} may run in any region, but no region has joined the federation yet")]
    NoRegions {
        /// The job.
        job: JobId,
    },
    /// Counts per region don't add up to the job's tasks.
    #[error("job {job} has {}, but its counts per region add up to {counted}", crate::wording::counted(*tasks, "task"))]
    CountsDiffer {
        /// The job.
        job: JobId,
        /// What it has.
        tasks: u32,
        /// What the counts give.
        counted: u64,
    },
    /// No region has a weight above zero.
    #[error("job {job} splits its tasks by weights, but no region has a weight above zero")]
    NoWeight {
        /// The job.
        job: JobId,
    },
    /// A split gives a share to a region that the job does not name.
    #[error("job {job} gives a share to {region}, which is not among the regions that it names")]
    ShareOfUnnamed {
        /// The job.
        job: JobId,
        /// The region.
        region: RegionId,
    },
    /// There is no such job.
    #[error("there is no job {job}")]
    NotFound {
        /// The job.
        job: JobId,
    },
    /// Only a job that was stopped is forgotten.
    #[error("job {job} is not stopped")]
    NotStopped {
        /// The job.
        job: JobId,
    },
    /// A job that is being forgotten takes no orders.
    #[error("job {job} is being deleted; regions have not all said yet that they have forgotten it")]
    BeingDeleted {
        /// The job.
        job: JobId,
    },
    /// The job can't be forgotten while something of it may run.
    #[error("job {job} can't be forgotten yet: {why}")]
    NotGone {
        /// The job.
        job: JobId,
        /// What is left, or may be.
        why: String,
    },
    /// The federation holds as many jobs as it can.
    #[error(
        "job {job} can't be accepted: the federation holds {max} jobs, which is its limit; delete jobs that are stopped"
    )]
    TooManyJobs {
        /// The job.
        job: JobId,
        /// The limit.
        max: u32,
    },
}

fn list(regions: &[RegionId]) -> String {
    if regions.is_empty() {
        return String::from("none");
    }
    let names: Vec<&str> = regions.iter().map(RegionId::as_str).collect();
    names.join(", ")
}
