//! The intent router: which region runs which slots of which job. See `README.md` in this folder.

mod event;
mod state;
mod step;
mod view;

pub use event::{Answer, Delta, Effect, Event, Problem};
pub use state::{IntentRecord, IntentRouter, RegionHealth, Share};
pub use view::{IntentView, RegionView, ShareView};

/// Most intents that a federation holds.
pub const INTENTS_MAX: u32 = 100_000;
