//! The simulator: Polder's machines, the very ones that run in production, under virtual time in one queue.
//!
//! ```text
//!   seed ──▶ plan: topology, workload, which faults and how often
//!                 │
//!                 ▼
//!   queue ──▶ world: federation, regions, hosts, links, stores, containers, people
//!     ▲           │ each machine is driven as its shell drives it
//!     └───────────┤
//!                 ▼
//!              oracles: look at what really is, what is durable, and what people were told
//! ```
//!
//! A seed runs its faults, then everything heals, and the world must come right within a bound and then rest. The same seed
//! always gives the same trace. See the README beside this crate.
#![deny(missing_docs)]

mod cell;
mod dice;
mod happening;
mod names;
pub mod oracle;
mod outcome;
mod plan;
mod plant;
mod queue;
mod run;
mod store;
mod trace;
mod world;

pub use outcome::{Counts, Found, Outcome};
pub use plan::{Fault, Shape};
pub use plant::Plant;
pub use run::{Setup, run};
pub use trace::{Detail, Filter};
