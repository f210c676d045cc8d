//! The allocator: the one actor of a region that picks hosts. See `README.md` in this folder.

mod books;
mod event;
mod filter;
mod grant;
mod invariant;
mod note;
mod plan;
mod queue;
mod quota;
mod score;
mod search;
mod state;
mod step;
mod view;

pub use event::{Delta, Effect, Event};
pub use plan::Plan;
pub use quota::{account_and_above, task_amounts};
pub use score::Score;
pub use state::{Allocator, Config};
pub use view::{AccountView, Choice, Explanation, HostUsageView, WaitingView};

/// Most hosts that an explanation lists.
pub const CHOICES_SHOWN_MAX: usize = 5;
/// Most requests that wait for room at a time. Whoever asks beyond it is told, and asks again later.
pub const REQUESTS_WAITING_MAX: usize = 100_000;
/// How many looks at a host one step may take, about; what is left is done in the next one.
pub const LOOKS_PER_STEP_MAX: usize = 200_000;
/// The shortest time between two beginnings of a pass over everything that waits.
pub const RETRY_INTERVAL: polder_types::Millis = polder_types::Millis(100);
/// The shortest time between two reports to a shard about the same request, unless the kind of reason changes.
pub const REPORT_INTERVAL: polder_types::Millis = polder_types::Millis::from_secs(5);
