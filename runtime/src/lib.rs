//! The host: what runs on each machine and runs its containers.
#![deny(missing_docs)]

pub mod agent;
pub mod cgroup;
pub mod image;
pub mod shim;
