//! The quota ledger: which part of each quota a region may admit by itself. See `README.md` in this folder.

mod event;
mod hear;
mod invariant;
mod orders;
mod share_out;
mod state;
mod step;
mod view;

pub use event::{AccountHeard, Answer, Delta, Effect, Event, Problem};
pub use state::{QuotaLedger, QuotaRecord, Share};
pub use view::{QuotaView, ShareView};

use polder_types::Millis;

/// Most quotas that a federation holds.
pub const QUOTAS_MAX: u32 = 100_000;
/// Most accounts of one region whose use is remembered.
pub const ACCOUNTS_PER_REGION_MAX: usize = 200_000;
/// Most allotments that one step sends; the rest follows in the next one.
pub const PUTS_PER_STEP_MAX: usize = 256;
/// How long until an allotment that was refused is tried again.
pub const REFUSED_RETRY: Millis = Millis::from_secs(60);
