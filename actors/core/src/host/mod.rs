//! The host: what runs on one machine, and what its region is told of it. See `README.md` in this folder.

mod adopt;
mod container;
mod drain;
mod event;
mod order;
mod prepare;
mod probe;
mod record;
mod report;
mod state;
mod step;
mod view;

pub use event::{Delta, Effect, Event, Found, FoundState, HttpProbe};
pub use record::{ContainerRecord, DrainRecord, DrainState, Launched, OwnerRecord, Records, TaskFloor};
pub use state::{Host, HostConfig};
pub use view::ContainerView;

use polder_types::Millis;

/// Most containers of a host, ended ones that were not forgotten included.
pub const CONTAINERS_MAX: usize = 4096;
/// Most images that are prepared at a time ahead of a start. Orders beyond that are dropped: they are repeated.
pub const PREPARING_MAX: usize = 64;
/// Most tasks of which the newest epoch is remembered after all their containers were forgotten.
pub const FLOORS_MAX: usize = 16_384;
/// How long that is remembered: far longer than an order can be under way.
pub const FLOOR_KEEP: Millis = Millis::from_secs(3600);
/// Most containers in one report of changes; more are split.
pub const REPORT_CONTAINERS_MAX: usize = 512;
/// How often a host with nothing to say says that it is there.
pub const ALIVE_EVERY: Millis = Millis::from_secs(3);
/// How often ends that were not forgotten are said again.
pub const ENDED_EVERY: Millis = Millis::from_secs(6);
/// How often everything is said again.
pub const FULL_EVERY: Millis = Millis::from_secs(30);
/// How often a container that does not die is killed again.
pub const KILL_EVERY: Millis = Millis::from_secs(5);
/// First wait before the remains of a container are removed again; doubles up to [`REMOVE_RETRY_MAX`].
pub const REMOVE_RETRY: Millis = Millis::from_secs(1);
/// The longest such wait.
pub const REMOVE_RETRY_MAX: Millis = Millis::from_secs(60);
/// After so many failures to remove its remains a container is reported as ended all the same.
pub const REMOVE_TRIES: u32 = 5;
/// The longest time between probes of a container that was never ready.
pub const PROBE_EAGER: Millis = Millis(500);
/// Longest reason of an end that is kept: with it, all ends of a host fit into one inventory.
pub const REASON_BYTES_MAX: usize = 512;
/// A probe whose answer is this much later than its timeout is asked for again.
pub const PROBE_LOST: Millis = Millis::from_secs(5);
