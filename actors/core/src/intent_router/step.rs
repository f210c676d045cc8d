//! What the intent router does about events.

use super::{
    event::{Delta, Effect, Event},
    state::{IntentRouter, RegionHealth},
};
use crate::machine::{Effects, Machine, Violation};
use alloc::boxed::Box;
use polder_types::{JobId, RegionId, Timestamp};

impl Machine for IntentRouter {
    type Event = Event;
    type Effect = Effect;
    type Delta = Delta;

    fn step(&mut self, now: Timestamp, event: Event) -> Effects<Self> {
        let mut effects = Effects::none();
        match event {
            Event::Apply { reply, spec } => self.apply(now, reply, *spec, &mut effects),
            Event::Stop { reply, job } => self.stop(now, reply, &job, &mut effects),
            Event::Delete { reply, job } => self.delete(now, reply, &job, &mut effects),
            Event::RegionKnown { region } => self.know(&region),
            Event::RegionHeard { region, at, statuses, complete } => {
                self.hear(now, &region, at, statuses, complete, &mut effects);
            }
            Event::RegionSilent { region } => self.fall_silent(now, &region, &mut effects),
            Event::SliceAcked { region, job, version } => self.ack(&region, &job, version),
            Event::SliceDropped { region, job } => self.dropped(&region, &job, &mut effects),
            Event::SliceRefused { region, job, version, problem } => {
                self.refused(now, &region, &job, version, problem, &mut effects);
            }
        }
        self.send_due(now, &mut effects);
        effects
    }

    fn wake(&mut self, now: Timestamp) -> Effects<Self> {
        let mut effects = Effects::none();
        self.send_due(now, &mut effects);
        effects
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        self.outbox.next_deadline()
    }

    fn check(&self) -> Result<(), Violation> {
        self.recount()
    }
}

impl IntentRouter {
    /// Puts a changed intent on record and sends what changed of it, in that order.
    pub(super) fn save(&mut self, now: Timestamp, job: &JobId, effects: &mut Effects<Self>) {
        if let Some(record) = self.intents.get(job) {
            effects.persist(Delta::Put(Box::new(record.clone())));
        }
        self.want_puts(now, job);
    }

    pub(super) fn is_heard(&self, region: &RegionId) -> bool {
        self.regions.get(region).is_some_and(|region| region.health == RegionHealth::Heard)
    }
}
