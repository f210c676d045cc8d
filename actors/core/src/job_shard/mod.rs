#![doc = include_str!("README.md")]

mod advance;
mod apply;
mod census;
mod ends;
mod event;
mod explain;
mod grants;
mod hosts;
mod invariant;
pub mod limits;
mod prepare;
mod release;
mod restore;
mod shard;
mod state;
mod step;
mod turn;
mod view;

pub use census::Census;
pub use event::{Applied, Config, Delta, Effect, Event, Refused};
pub use shard::JobShard;
pub use state::{
    JobRecord, LastExit, OlderTemplate, Origin, Outcome, Placement, Quarantine, StopOrdered, StopReason,
    TASKS_PER_CHUNK, TaskChunk, TaskRecord, Template,
};
pub use view::{ContainerView, JobView, PendingReason, TaskState, TaskView, UpdateView, Wait};
