#![doc = include_str!("README.md")]

mod event;
pub mod limits;
mod state;
mod view;

use alloc::vec::Vec;
use polder_types::{HostId, Timestamp};

pub use event::{Config, Delta, Done, Effect, Event, Refused, Session};
pub use state::{Cordon, DrainRecord, DrainState, HostRecord};
pub use view::{DrainProgress, HostView};

use crate::{
    machine::{Effects, Machine, Violation},
    message::HostNotice,
};

/// The record of a datacenter's hosts.
#[derive(Debug)]
pub struct Broker {
    config: Config,
}

impl Broker {
    /// Restores a broker from its durable state.
    pub fn restore(config: Config, _hosts: Vec<HostRecord>, _now: Timestamp) -> (Self, Effects<Self>) {
        (Self { config }, Effects::none())
    }

    /// What the allocator and the shards should know of every host: for one that was just restored.
    pub fn notices(&self) -> impl Iterator<Item = HostNotice> + '_ {
        let _ = &self.config;
        core::iter::empty()
    }

    /// A host, for people.
    #[must_use]
    pub fn host(&self, _host: &HostId) -> Option<HostView> {
        None
    }

    /// All hosts, by name.
    pub fn hosts(&self) -> impl Iterator<Item = HostView> + '_ {
        core::iter::empty()
    }
}

impl Machine for Broker {
    type Event = Event;
    type Effect = Effect;
    type Delta = Delta;

    fn step(&mut self, _now: Timestamp, _event: Event) -> Effects<Self> {
        Effects::none()
    }

    fn wake(&mut self, _now: Timestamp) -> Effects<Self> {
        Effects::none()
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        None
    }

    fn check(&self) -> Result<(), Violation> {
        Ok(())
    }
}
