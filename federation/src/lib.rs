//! The global service: which region runs what, and what each may admit.
//!
//! ```text
//!   polder ──▶ front (API) ──▶ intent router ──PutSlice──▶ ┐
//!                    │                                      links ──▶ regional APIs
//!                    └───────▶ quota ledger ─PutAllotment─▶ ┘   │
//!                    ▲               ▲                          │
//!                    └───────────────┴── status, usage, silence ┘
//! ```
//!
//! [`run`] is the way in. Decisions are the machines' (`polder-core`); this crate gives each of them a place to keep
//! its state ([`keys`]), carries what they ask for to the regions and what regions say back, and answers for the whole
//! world by putting the regions' answers together, each with its age.
//!
//! Every node of the federation runs this. The one that owns it in the store leads; others stand by, answer `/readyz`
//! with 503, and take over when the leader's lease ends. Regions and their containers go on without any of them.
#![deny(missing_docs)]

mod config;
mod federation;
mod front;
pub mod keys;
mod link;
mod meter;
mod roles;
mod run;

pub use config::{FederationConfig, RegionAddress, SILENT_AFTER_DEFAULT};
pub use polder_node::{LEASE_TTL_DEFAULT, StoreConfig, open_store};
pub use run::{RunError, run};
