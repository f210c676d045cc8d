//! The quota ledger: which part of each quota a region may admit by itself. See `README.md` in this folder.

mod event;
mod state;
mod step;
mod view;

pub use event::{AccountHeard, Answer, Delta, Effect, Event, Problem};
pub use state::{QuotaLedger, QuotaRecord, Share};
pub use view::{QuotaView, ShareView};

/// Most quotas that a federation holds.
pub const QUOTAS_MAX: u32 = 100_000;
