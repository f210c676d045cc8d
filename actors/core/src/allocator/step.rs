//! What the allocator does about events.

use super::{
    event::{Delta, Effect, Event},
    state::Allocator,
};
use crate::machine::{Effects, Machine, Violation};
use polder_types::Timestamp;

impl Machine for Allocator {
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
