//! The allocator: the one actor of a region that picks hosts. See `README.md` in this folder.

mod event;
mod score;
mod state;
mod step;
mod view;

pub use event::{Delta, Effect, Event};
pub use score::Score;
pub use state::{Allocator, Config};
pub use view::{AccountView, Choice, Explanation, HostUsageView, WaitingView};

/// Most hosts that an explanation lists.
pub const CHOICES_SHOWN_MAX: usize = 5;
