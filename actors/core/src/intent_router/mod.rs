//! The intent router: which region runs which slots of which job. See `README.md` in this folder.

mod delete;
mod event;
mod hear;
mod invariant;
mod moves;
mod orders;
mod puts;
mod split;
mod state;
mod step;
mod view;

pub use event::{Answer, Delta, Effect, Event, Problem};
pub use state::{IntentRecord, IntentRouter, RegionHealth, Share};
pub use view::{IntentView, RegionView, ShareView};

use polder_types::Millis;

/// Most intents that a federation holds.
pub const INTENTS_MAX: u32 = 100_000;
/// Most slices of one region that are remembered, those of jobs that the federation does not know included.
pub const STATUSES_PER_REGION_MAX: usize = 200_000;
/// Most slices that one step sends; the rest follows in the next one.
pub const PUTS_PER_STEP_MAX: usize = 256;
/// How long until a slice that was refused is tried again.
pub const REFUSED_RETRY: Millis = Millis::from_secs(60);
