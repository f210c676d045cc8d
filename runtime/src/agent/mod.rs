//! The host agent: one process on each machine that runs the containers its region orders.
//!
//! ```text
//!  region ◀──── one WebSocket, batched protobuf ────▶ link ──▶ Host (polder_core::host, in a shell)
//!                                                     ▲             │ effects       │ deltas
//!                                            reports  │             ▼               ▼
//!                                                   outbox    containers, probes   disk (embedded store)
//!                                                                   │
//!                                                          image store, shim runtime
//! ```
//!
//! Begin at [`run`]. What the agent decides is decided by the machine; everything here carries effects out and brings
//! events in. The agent may be killed at any moment: containers go on under their shims, and the next agent finds them
//! again. It never stops a container because it ends itself or because its region is silent.

mod config;
mod containers;
mod disk;
mod error;
mod home;
mod launch;
mod limits;
mod link;
mod log_reader;
mod logs;
mod meter;
mod outbox;
mod probe;
mod purge;
mod role;
mod run;

pub use config::{HostConfig, detect_capacity};
pub use error::AgentError;
pub use purge::purge;
pub use run::run;
