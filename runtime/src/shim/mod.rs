//! Containers, each under a shim of its own.
//!
//! libcontainer clones and then runs ordinary Rust code in the child, which goes wrong in a process with threads. So
//! the agent, which has threads, never calls it. For each container it starts `polder-shim`, a small static program
//! with one thread, out of a sealed memfd; that one creates the container, starts it when told, waits for it and
//! writes down how it ended. Shims outlive the agent; a new agent finds them again by the lock that each holds.
//! The files between the two are described in the crate `polder_shim`.
//!
//! ```text
//!  agent ──create──▶ shim: mount the root in its own mount namespace, build the container
//!        ◀─created── shim.json is written
//!        ──go──────▶ start
//!        ◀─running── the shim becomes a tiny waiter
//!   (the agent may die and come back)
//!        ◀─ends───── exit.json is written, cgroups are gone, the shim ends (seen through its pidfd)
//! ```

mod adopt;
mod binary;
mod container;
mod error;
mod handshake;
pub mod limits;
mod pidfd_info;
mod port;
mod process;
mod runtime;
mod seccomp;
mod spawn;
mod spec;
mod state_dir;
mod watch;

pub use binary::ShimBinary;
pub use error::RuntimeError;
pub use port::{Adopted, Bind, ContainerUsage, Created, Exit, LaunchSpec, Runtime};
pub use runtime::{ShimRuntime, ShimRuntimeConfig};
pub use state_dir::container_name;
