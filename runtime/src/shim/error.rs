//! What can go wrong with a container.

use std::{io, path::PathBuf, time::Duration};

use polder_types::ContainerId;

/// Why something could not be done to a container.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The launch order makes no sense.
    #[error("container {id} can't be created: {reason}")]
    BadSpec {
        /// The container.
        id: ContainerId,
        /// What is wrong.
        reason: String,
    },
    /// There is one of this id.
    #[error("container {id} exists already")]
    Exists {
        /// The container.
        id: ContainerId,
    },
    /// There is none of this id.
    #[error("there is no container {id} on this host")]
    NotFound {
        /// The container.
        id: ContainerId,
    },
    /// It is not in the state for this.
    #[error("container {id} is {state}")]
    WrongState {
        /// The container.
        id: ContainerId,
        /// What it is.
        state: &'static str,
    },
    /// The shim says that it failed.
    #[error("container {id} was not {step}: {reason}")]
    Failed {
        /// The container.
        id: ContainerId,
        /// What it should have become: `created` or `started`.
        step: &'static str,
        /// Why it wasn't.
        reason: String,
    },
    /// The shim didn't answer in time and was killed.
    #[error("container {id} was not {step} within {limit:?}; it was killed and cleaned up")]
    TimedOut {
        /// The container.
        id: ContainerId,
        /// What it should have become.
        step: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// The shim program is missing or not of this version.
    #[error("the shim program {} can't be used: {reason}", path.display())]
    ShimBinary {
        /// Where it is.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The operating system refused.
    #[error("could not {what}")]
    Io {
        /// What was tried, and to what.
        what: String,
        /// What it said.
        #[source]
        source: io::Error,
    },
}

impl RuntimeError {
    /// For `map_err`: says what was tried.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
