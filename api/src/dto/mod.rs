//! What the API answers and takes, as JSON.
//!
//! Views of what the machines hold, made for reading. Amounts are plain numbers: CPU in hundredths of a core, memory
//! in bytes, times in milliseconds (moments since the Unix epoch). A [`crate::job_file::JobFile`] is the exception:
//! it is written by people and has their units.

mod event;
mod foreign;
mod host;
mod job;
mod node;
mod query;
mod quota;
mod why;

pub use event::{EventList, EventView, Level};
pub use foreign::{AmountsSchema, ExitSchema, PortRangeSchema};
pub use host::{
    DrainRequest, DrainState, DrainView, HostHealth, HostList, HostRoom, HostView, MovedTask, Note, PartAge,
};
pub use job::{
    ApplyResponse, DeleteResponse, ExitView, JobList, JobStatus, JobSummary, PartState, PortView, RegionPart,
    SliceList, SliceStatus, StopResponse, TaskPhase, TaskView, Wait, WaitCount,
};
pub use node::{ActorList, ActorView, Check, Ready};
pub use query::{LogQuery, Page, SliceQuery};
pub use quota::{QuotaList, QuotaPart, QuotaRemoved, QuotaRequest, QuotaView};
pub use why::{Rejection, WhyView};
