//! The shell: the one crate that knows actix, and that turns pure machines into running actors.
//!
//! ```text
//!   Port ──▶ bounded inbox ──▶ Shell (one actix actor) ──▶ machine.step(now, event)
//!                                 │        ▲                        │
//!                                 │        │ restore                ▼
//!                                 │        │              now ─────────▶ Role::execute
//!                                 │        └── Conflict / Unknown ◀── persist ──▶ Journal
//!                                 │            panic / Violation     after ──▶ Role::execute, once durable
//!                                 ▼
//!                               Tree: status of every actor, restarts, escalation, ordered shutdown
//! ```
//!
//! Begin with [`Tree`], write a [`Role`] for your machine, and hold the [`Port`] that comes back. The machine is a
//! throw-away value: whenever a commit is not known to be durable, a step panics or a check fails, it is dropped and
//! restored from what is durable. Events wait meanwhile, in an inbox that is bounded and that outlives the actor.
//!
//! What this crate must never do: decide anything about containers, know a store, or show an actix type.
#![deny(missing_docs)]

mod clock;
mod driver;
mod faults;
mod inbox;
mod launch;
mod panic;
mod pipeline;
mod port;
mod query;
mod role;
mod shell;
mod spawner;
mod status;
mod tree;

pub use clock::{Clock, ManualClock, SystemClock, TokioClock};
pub use faults::{Backoff, RestartPolicy};
pub use panic::Panic;
pub use polder_observability::ActorKind;
pub use port::{Drain, MailboxStatus, Port, PortError};
pub use query::{Handle, QueryError};
pub use role::{Commit, Journal, RestoreError, RestoreReason, Restored, Restoring, Role};
pub use shell::ActorOptions;
pub use spawner::SpawnError;
pub use status::{ActorCounts, ActorState, ActorStatus};
pub use tree::{Escalation, Group, Prepared, ShutdownReport, StopError, Tree, TreeOptions};
