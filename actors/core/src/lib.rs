//! The machines: every decision that Polder makes, without a clock, a disk or a network.
#![no_std]
#![deny(missing_docs)]

extern crate alloc;

pub mod allocator;
pub mod broker;
pub mod demand;
pub mod host;
pub mod intent_router;
pub mod job_shard;
pub mod machine;
pub mod message;
mod outbox;
pub mod quota_ledger;
mod wording;
