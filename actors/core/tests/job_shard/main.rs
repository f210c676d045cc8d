//! Tests of the job shard: scripts, steps, and properties against a small world of hosts and an allocator.

mod fixtures;
#[path = "../scripts/harness.rs"]
mod harness;
mod properties;
mod script;
mod show;
mod steps;
mod world;
