//! A job or a task of it, as it is typed.

use core::str::FromStr;
use polder_types::{JobId, NameError, TaskId};

/// A job, `ACCOUNT/NAME`, or one task of it, `ACCOUNT/NAME/NUMBER`.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// A job.
    Job(JobId),
    /// A task.
    Task(TaskId),
}

impl FromStr for Target {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match text.parse() {
            Ok(task) => Ok(Self::Task(task)),
            Err(_) => text.parse().map(Self::Job),
        }
    }
}
