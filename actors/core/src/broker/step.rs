//! The machine: takes an event and sees each host that it concerns through.

use alloc::vec::Vec;
use polder_types::{HostId, Timestamp};

use super::{
    event::{Config, Delta, Effect, Event},
    hosts::{Broker, Host, Out, Pending, What},
    limits::DUE_PER_WAKE,
    state::HostRecord,
};
use crate::machine::{Effects, Machine, Violation};

impl Broker {
    /// Restores a broker from its durable state, and says how each host is: not heard yet.
    pub fn restore(config: Config, hosts: Vec<HostRecord>, now: Timestamp) -> (Self, Effects<Self>) {
        let mut broker = Self { config, hosts: Default::default(), due: Default::default() };
        let mut out = Effects::none();
        for record in hosts {
            let id = record.info.id.clone();
            let mut host = Host::restored(record, now);
            if host.record.closing_drain().is_some() {
                host.order = Some(Pending { what: What::Drain, tries: 0, at: now });
            }
            out.now(Effect::Host(host.notice()));
            broker.hosts.insert(id.clone(), host);
            broker.arm(&id);
        }
        (broker, out)
    }

    fn follow_up(&mut self, out: &mut Out, now: Timestamp, host: &HostId) {
        self.listen(out, now, host);
        self.conclude(out, now, host);
        self.send(out, now, host);
        self.arm(host);
    }
}

impl Machine for Broker {
    type Event = Event;
    type Effect = Effect;
    type Delta = Delta;

    fn step(&mut self, now: Timestamp, event: Event) -> Effects<Self> {
        let mut out = Effects::none();
        let mut answer = None;
        let id = match event {
            Event::HostLinked { reply, info, boot, home, session, drain } => {
                let id = info.id.clone();
                let linked = self.linked(&mut out, now, *info, boot, home, session);
                if linked.is_ok() {
                    self.attested_on_link(&mut out, now, &id, drain);
                }
                let unsaved = !matches!(linked, Ok(true));
                let result = linked.and_then(|_| self.answer(&id));
                if unsaved {
                    // Nothing to wait for: whether a host is let in must not depend on how fast the store writes.
                    out.now(Effect::LinkReply { reply, result });
                } else {
                    out.after(Effect::LinkReply { reply, result });
                }
                id
            }
            Event::HostHeard { host, home, session } => {
                self.heard(&mut out, now, &host, home, session);
                host
            }
            Event::HostUnlinked { host, session } => {
                self.unlinked(&host, session);
                host
            }
            Event::DrainAttested { host, home, session, attestation } => {
                if self.heard(&mut out, now, &host, home, session) {
                    self.attested(&mut out, now, &host, attestation);
                }
                host
            }
            Event::StartRefused { host, version } => {
                self.start_refused(now, &host, version);
                host
            }
            Event::Cordon { reply, host, by, reason } => {
                answer = Some((reply, self.cordon(&mut out, now, &host, by, reason)));
                host
            }
            Event::Uncordon { reply, host } => {
                answer = Some((reply, self.uncordon(&mut out, now, &host)));
                host
            }
            Event::Drain { reply, host, deadline, by, reason } => {
                answer = Some((reply, self.drain(&mut out, now, &host, deadline, by, reason)));
                host
            }
            Event::AbortDrain { reply, host } => {
                answer = Some((reply, self.abort(&mut out, now, &host)));
                host
            }
            Event::Readmit { reply, host, by, reason } => {
                answer = Some((reply, self.readmit(&mut out, now, &host, by, reason)));
                host
            }
        };
        self.follow_up(&mut out, now, &id);
        if let Some((reply, result)) = answer {
            out.after(Effect::Reply { reply, result });
        }
        out
    }

    fn wake(&mut self, now: Timestamp) -> Effects<Self> {
        let mut out = Effects::none();
        let due: Vec<HostId> =
            self.due.iter().take_while(|(at, _)| *at <= now).take(DUE_PER_WAKE).map(|(_, host)| host.clone()).collect();
        for host in due {
            self.follow_up(&mut out, now, &host);
        }
        out
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    fn check(&self) -> Result<(), Violation> {
        self.recount()
    }
}
