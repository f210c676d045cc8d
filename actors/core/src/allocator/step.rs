//! What the allocator does about events.

use super::{
    RETRY_INTERVAL,
    books::Known,
    event::{Delta, Effect, Event},
    state::Allocator,
};
use crate::{
    machine::{Effects, Machine, Violation},
    message::HostNotice,
};
use polder_types::{Allotment, HostId, Timestamp};

impl Machine for Allocator {
    type Event = Event;
    type Effect = Effect;
    type Delta = Delta;

    fn step(&mut self, now: Timestamp, event: Event) -> Effects<Self> {
        let mut effects = Effects::none();
        match event {
            Event::Note(note) => self.note(now, note, &mut effects),
            Event::Host(notice) => self.host(notice),
            Event::HostForgotten(host) => self.forget_host(&host),
            Event::AllotmentChanged(allotment) => self.take_allotment(allotment),
        }
        self.work(now, &mut effects);
        effects
    }

    fn wake(&mut self, now: Timestamp) -> Effects<Self> {
        let mut effects = Effects::none();
        self.work(now, &mut effects);
        effects
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        let overdue = self.books.overdue.first().map(|(at, _)| *at);
        // A moment in the past means at once.
        let tries = (!self.queue.untried.is_empty()).then_some(self.settled_at);
        let pass = self.pass_due().map(|at| at.max(self.settled_at));
        overdue.into_iter().chain(tries).chain(pass).min()
    }

    fn check(&self) -> Result<(), Violation> {
        self.recount()
    }
}

impl Allocator {
    /// When the next pass over everything that waits is due, if anything changed that may help.
    pub(super) fn pass_due(&self) -> Option<Timestamp> {
        let due = self.queue.stale && !self.queue.requests.is_empty();
        due.then(|| self.queue.pass_began.map_or(self.settled_at, |began| began + RETRY_INTERVAL))
    }

    fn host(&mut self, notice: HostNotice) {
        let HostNotice { info, condition } = notice;
        let host = self.books.hosts.entry(info.id.clone()).or_default();
        let known = Some(Known { info, condition });
        if host.known != known {
            host.known = known;
            self.queue.stale = true;
        }
    }

    fn forget_host(&mut self, id: &HostId) {
        let Some(host) = self.books.hosts.get_mut(id) else { return };
        host.known = None;
        self.queue.stale = true;
        if host.used.containers == 0 {
            self.books.hosts.remove(id);
        }
    }

    fn take_allotment(&mut self, allotment: Allotment) {
        let known = self.allotments.get(&allotment.account);
        if known.is_some_and(|known| known.version > allotment.version || *known == allotment) {
            return;
        }
        self.allotments.insert(allotment.account.clone(), allotment);
        self.queue.stale = true;
    }
}
