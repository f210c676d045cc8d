//! What a region node and a federation node have in common: everything between a store, a tree of actors and an API,
//! apart from what the actors are about.
//!
//! ```text
//!    people, hosts, the federation
//!               │ HTTP                             ┌─ node ────────────────────────────┐
//!        ┌──────▼──────┐  asks   ┌─────────┐       │ lease, ownership, tree of actors; │
//!        │   server    │ ──────▶ │ replies │ ◀──┐  │ what ends it, and in which order  │
//!        └──────┬──────┘         └─────────┘    │  └────────────────┬──────────────────┘
//!               │ reads  ┌────────┐   answers   │                   │ holds
//!               └──────▶ │ events │ ◀────── actors of the crate   ┌─▼──┐
//!                        └────────┘  tell  that uses this one ──▶ │seat│ epochs
//!                                               │ deltas          └─┬──┘
//!                                          ┌────▼────┐  fenced      │
//!                                          │ journal │ ─────────▶ store
//!                                          └─────────┘
//! ```
//!
//! [`Node`] is the way in: it joins a store under a lease, waits until what the node is for can be owned, and ends in
//! order. [`Seat`] takes actors under that lease, each time with a newer epoch; an [`OwnerJournal`] writes under such an
//! epoch and never without; [`Replies`] and [`EventLog`] connect machines, which only have effects, with people, who
//! wait for answers and watch.
//!
//! It knows no machine, and must never decide anything that one of them should.
#![deny(missing_docs)]

mod actors;
mod answers;
mod codec;
mod config;
mod events;
mod journal;
mod node;
mod replies;
mod requests;
pub mod scrape;
mod seat;
mod server;

pub use actors::actor_view;
pub use answers::{READ_TIMEOUT, page, read_machine, unread};
pub use codec::{read, read_all, unreadable, value};
pub use config::{LEASE_TTL_DEFAULT, StoreConfig, open_store};
pub use events::{EVENTS_KEPT_MAX, EventLog};
pub use journal::{OwnerJournal, Write};
pub use node::{Node, NodeError, Setup, Stage};
pub use replies::{ANSWER_TIMEOUT, NoAnswer, Replies, WAITING_MAX};
pub use seat::Seat;
pub use server::Server;
