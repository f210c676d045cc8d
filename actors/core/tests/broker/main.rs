//! Tests of the broker: scripts, and properties against a host that keeps its word.

#[path = "../scripts/harness.rs"]
mod harness;
mod properties;
mod script;
