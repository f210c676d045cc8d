#![doc = include_str!("README.md")]

mod event;
pub mod limits;
mod state;
mod view;

use alloc::vec::Vec;
use polder_types::{JobId, TaskId, Timestamp};

pub use event::{Applied, Config, Delta, Effect, Event, Refused};
pub use state::{
    JobRecord, LastExit, OlderTemplate, Origin, Outcome, Placement, Quarantine, StopOrdered, StopReason,
    TASKS_PER_CHUNK, TaskChunk, TaskRecord, Template,
};
pub use view::{ContainerView, JobView, TaskState, TaskView, UpdateView, Wait};

use crate::{
    machine::{Effects, Machine, Violation},
    message::{Charge, SliceStatus},
};

/// The owner of a share of a region's jobs.
#[derive(Debug)]
pub struct JobShard {
    config: Config,
}

impl JobShard {
    /// Restores a shard from its durable state.
    pub fn restore(
        config: Config,
        _jobs: Vec<JobRecord>,
        _chunks: Vec<TaskChunk>,
        _now: Timestamp,
    ) -> (Self, Effects<Self>) {
        (Self { config }, Effects::none())
    }

    /// Its jobs, by id.
    pub fn job_ids(&self) -> impl Iterator<Item = &JobId> {
        let _ = self.config;
        core::iter::empty()
    }

    /// A job.
    #[must_use]
    pub fn job_record(&self, _job: &JobId) -> Option<&JobRecord> {
        None
    }

    /// A job, for people.
    #[must_use]
    pub fn job_view(&self, _job: &JobId) -> Option<JobView> {
        None
    }

    /// How a job does.
    #[must_use]
    pub fn slice_status(&self, _job: &JobId) -> Option<SliceStatus> {
        None
    }

    /// A task, for people.
    #[must_use]
    pub fn task_view(&self, _task: &TaskId) -> Option<TaskView> {
        None
    }

    /// All tasks of a job, for people.
    #[must_use]
    pub fn task_views(&self, _job: &JobId) -> Vec<TaskView> {
        Vec::new()
    }

    /// Everything that its records charge.
    pub fn charges(&self) -> impl Iterator<Item = Charge> + '_ {
        core::iter::empty()
    }
}

impl Machine for JobShard {
    type Event = Event;
    type Effect = Effect;
    type Delta = Delta;

    fn step(&mut self, _now: Timestamp, _event: Event) -> Effects<Self> {
        Effects::none()
    }

    fn wake(&mut self, _now: Timestamp) -> Effects<Self> {
        Effects::none()
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        None
    }

    fn check(&self) -> Result<(), Violation> {
        Ok(())
    }
}
