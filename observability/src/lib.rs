//! What Polder's processes count and measure: every metric is declared here, once, and read at `/metrics`.
//!
//! ```text
//!   shells, stores, servers ──▶ handles (Counter, Gauge, Timing) ──▶ one registry ──▶ encode() ──▶ Prometheus
//!                                     ▲
//!                       declared in typed modules, one for each part:
//!              process  api  actors  store  region  federation  host
//! ```
//!
//! A module's struct (such as [`Api`]) holds its families; `Api::shared()` registers them when a process first uses
//! one, so that a process shows only what it has. A family shows only what was touched. Where something is counted
//! often, take the handle of a label set once ([`Counters::of`]) and keep it.
//!
//! Nothing is labelled by what may grow without bound: no task, job, container or host is the value of a label. It
//! knows no other part of Polder, and machines know nothing of it: shells count what they see.
#![deny(missing_docs)]

mod actors;
mod api;
mod buckets;
mod family;
mod federation;
mod host;
mod process;
mod reference;
mod region;
mod registry;
mod store;
mod values;

pub use actors::{ActorKind, ActorMeter, Actors, Mailbox};
pub use api::Api;
pub use family::{Family, Kind};
pub use federation::Federation;
pub use host::Host;
pub use process::Process;
pub use reference::{Module, declared, reference, unseen};
pub use region::Region;
pub use registry::{CONTENT_TYPE, encode};
pub use store::{Operation, Outcome, StoreMeter, Stores};
pub use values::{Counter, Counters, Gauge, Gauges, Timing, Timings};
