//! Why an agent can't run.

use crate::{image::ImageError, shim::RuntimeError};
use polder_shell::SpawnError;
use polder_store::StoreError;
use std::{io, path::PathBuf};

/// Why an agent can't start, or had to end. Containers are not touched by any of these.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Another agent uses the directory.
    #[error(
        "another agent uses the data directory {} (process {pid}): stop it first, or give this one a directory of its own",
        dir.display()
    )]
    Locked {
        /// The directory.
        dir: PathBuf,
        /// The process that has it, as far as known.
        pid: String,
    },
    /// The directory belongs to another host.
    #[error(
        "the data directory {} belongs to host {found} of region {region}, and this is host {wanted}: give each host a \
         directory of its own",
        dir.display()
    )]
    OtherHost {
        /// The directory.
        dir: PathBuf,
        /// Whose it is.
        found: String,
        /// And in which region.
        region: String,
        /// Who wants it.
        wanted: String,
    },
    /// The configuration makes no sense.
    #[error("{what}")]
    Config {
        /// What is wrong, and what to do.
        what: String,
    },
    /// What was stored can't be understood.
    #[error("what host's own store holds at `{key}` can't be used: {why}")]
    Stored {
        /// Where.
        key: String,
        /// Why.
        why: String,
    },
    /// The host's own store.
    #[error("the host's own store can't be used")]
    Store(#[from] StoreError),
    /// Containers can't be run.
    #[error("containers can't be run")]
    Runtime(#[from] RuntimeError),
    /// Images can't be kept.
    #[error("images can't be kept")]
    Images(#[from] ImageError),
    /// The actor that decides could not be started.
    #[error("the host's actor could not be started")]
    Actor(#[from] SpawnError),
    /// The actor that decides failed again and again.
    #[error("the host's actor gave up: {error}")]
    GaveUp {
        /// What happened last.
        error: String,
    },
    /// Something is left after everything was to be stopped and removed.
    #[error("{}", .left.join("; "))]
    Left {
        /// What.
        left: Vec<String>,
    },
    /// The operating system refused.
    #[error("could not {what}")]
    Io {
        /// What was tried.
        what: String,
        /// What it said.
        source: io::Error,
    },
}

impl AgentError {
    /// For `map_err`: says what was tried.
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

/// An error with what it came from, in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
