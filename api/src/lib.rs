//! What people and other programs touch: the job file, the REST resources, their errors, and a client.
//!
//! ```text
//!   job.toml ──> job_file::parse ──> JobFile ──> JobSpec        (both ways: JobFile::from(&JobSpec))
//!                                                   │
//!   client ── paths ──> server (handlers over a Front) ── dto ──> client
//!                             └── Problem (stable codes) ──┘
//! ```
//!
//! A region and the federation serve the same resources under the same [`paths`]. The command line, the console and
//! the federation itself use only these. Bodies are JSON; a job may also be sent as TOML.
//!
//! Nothing here decides anything, and nothing here panics on what it is given.
#![deny(missing_docs)]

#[cfg(feature = "client")]
pub mod client;
pub mod dto;
pub mod job_file;
pub mod limits;
pub mod paths;
pub mod problem;
#[cfg(feature = "server")]
pub mod server;

pub use problem::{Code, FieldProblem, Problem};
