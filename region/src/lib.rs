//! One region: its actors, its store, its host links and its API, in one process.
//!
//! ```text
//!   federation, polder ──▶ front (API) ──▶ shards ◀──▶ allocator
//!                                            │  ▲          ▲
//!                                    orders  │  │ reports  │ how hosts are
//!                                            ▼  │          │
//!   hosts ◀───────── WebSocket ─────────▶  links ──▶ brokers
//! ```
//!
//! [`run`] is the way in. Decisions are the machines' (`polder-core`); this crate gives each of them a place to keep
//! its state ([`keys`]), carries what they say to each other, and shows what they know.
//!
//! Every node of a region runs this. The one that owns the allocator in the store runs all actors; others stand by,
//! answer `/readyz` with 503, and take over when the owner's lease ends.
#![deny(missing_docs)]

mod brokers;
mod config;
mod front;
pub mod keys;
mod links;
mod meter;
mod outbox;
mod region;
mod roles;
mod run;
#[cfg(test)]
mod tests;
mod views;

pub use brokers::DATACENTERS_MAX;
pub use config::{RegionConfig, SHARDS_DEFAULT};
pub use outbox::OUTBOX_MAX;
pub use polder_node::{LEASE_TTL_DEFAULT, StoreConfig, open_store};
pub use run::{RunError, SHARDS_MAX, run};
