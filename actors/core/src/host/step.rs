//! The host as a machine.

use super::{
    ALIVE_EVERY, FULL_EVERY, REASON_BYTES_MAX,
    container::{Container, Run},
    event::{Delta, Effect, Event},
    probe::http_probe,
    record::Launched,
    state::{Host, Link},
};
use crate::{
    machine::{Effects, Machine, Violation},
    message::{HostOrder, Notice},
};
use alloc::{format, string::String, vec::Vec};
use polder_types::{ContainerId, ExitStatus, Timestamp};

impl Machine for Host {
    type Event = Event;
    type Effect = Effect;
    type Delta = Delta;

    fn step(&mut self, now: Timestamp, event: Event) -> Effects<Self> {
        let mut fx = Effects::none();
        match event {
            // What is here is not known yet: the order will be repeated.
            Event::Order(_) if !self.adopted => {}
            Event::Order(order) => self.on_order(&mut fx, now, order),
            Event::LinkOpened { session } => self.on_link_opened(&mut fx, now, session),
            Event::LinkClosed { session } => {
                self.link.take_if(|link| link.session == session);
            }
            Event::Adopted { found } => self.on_adopted(&mut fx, now, found),
            Event::Launched { id, pid, started_at } => self.on_launched(&mut fx, now, &id, pid, started_at),
            Event::LaunchFailed { id, reason } => self.on_launch_failed(&mut fx, now, &id, reason),
            Event::Exited { id, status, at } => self.on_exited(&mut fx, &id, status, at),
            Event::Removed { id } => self.on_removed(&id),
            Event::RemoveFailed { id, reason } => self.on_remove_failed(&mut fx, now, &id, &reason),
            Event::Prepared { id, failed } => self.on_prepared(&mut fx, &id, failed),
            Event::Ticked => self.bear_clock(now),
            Event::Probed { id, ok } => self.on_probed(&mut fx, now, &id, ok),
        }
        self.finish(&mut fx, now);
        fx
    }

    fn wake(&mut self, now: Timestamp) -> Effects<Self> {
        let mut fx = Effects::none();
        if self.adopted {
            self.wake_containers(&mut fx, now);
            self.wake_link(&mut fx, now);
        }
        self.finish(&mut fx, now);
        fx
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        if !self.adopted {
            return None;
        }
        let containers = self.containers.values().filter_map(Container::deadline).min();
        let link = self.link.as_ref().map(|link| link.alive_at.min(link.full_at));
        [containers, link].into_iter().flatten().min()
    }

    fn check(&self) -> Result<(), Violation> {
        super::view::check(self)
    }
}

impl Host {
    /// What each step ends with: launches that may go ahead now, then what has changed is said.
    pub(super) fn finish(&mut self, fx: &mut Effects<Self>, now: Timestamp) {
        if self.adopted {
            self.launch_waiting(fx);
            self.report_changes(fx, now);
        }
    }

    /// Launches whatever waits and is not held up: by an older container of its task, or by a drain.
    fn launch_waiting(&mut self, fx: &mut Effects<Self>) {
        if self.open_drain().is_some() {
            return;
        }
        let waiting = |(id, container): (&ContainerId, &Container)| (container.run == Run::Waiting).then(|| id.clone());
        let waiting: Vec<ContainerId> = self.containers.iter().filter_map(waiting).collect();
        for id in waiting {
            if self.of_task(&id.task).any(|(other, container)| *other != id && container.blocks_others()) {
                continue;
            }
            let Some(container) = self.containers.get_mut(&id) else { continue };
            let Some(record) = &container.record else { continue };
            fx.after(Effect::Launch { id, spec: record.spec.clone() });
            container.run = Run::Launching;
        }
    }

    fn on_launched(
        &mut self,
        fx: &mut Effects<Self>,
        now: Timestamp,
        id: &ContainerId,
        pid: u32,
        started_at: Timestamp,
    ) {
        let Some(container) = self.containers.get_mut(id) else { return };
        // Unseen: the machine was restored while the launch was under way.
        if !matches!(container.run, Run::Launching | Run::Unseen) {
            return;
        }
        container.run = Run::Running;
        let ready = container.prober.ready();
        let Some(record) = &mut container.record else { return };
        record.launched = Some(Launched { pid, started_at, ready });
        let signal = record.spec.stop.signal.number();
        fx.persist(Delta::PutContainer(record.clone()));
        match record.kill_at {
            Some(kill_at) if kill_at <= now => {
                container.killed(now);
                fx.after(Effect::Kill { id: id.clone() });
            }
            Some(_) => fx.after(Effect::Signal { id: id.clone(), signal }),
            None => {}
        }
        self.changed.insert(id.clone());
    }

    fn on_launch_failed(&mut self, fx: &mut Effects<Self>, now: Timestamp, id: &ContainerId, reason: String) {
        notice(fx, "launch_failed", id, format!("{id} could not be started: {reason}"));
        self.on_exited(fx, id, ExitStatus::NotStarted { reason }, now);
    }

    pub(super) fn on_exited(
        &mut self,
        fx: &mut Effects<Self>,
        id: &ContainerId,
        mut status: ExitStatus,
        at: Timestamp,
    ) {
        if let ExitStatus::NotStarted { reason } | ExitStatus::Unknown { reason } = &mut status {
            cut(reason);
        }
        let Some(container) = self.containers.get_mut(id) else { return };
        if !matches!(container.run, Run::Launching | Run::Running | Run::Unseen) {
            return;
        }
        container.run = Run::removing();
        if let Some(record) = &mut container.record
            && record.ended.is_none()
        {
            record.ended = Some((status, at));
            fx.persist(Delta::PutContainer(record.clone()));
        }
        fx.after(Effect::Remove { id: id.clone() });
        self.changed.insert(id.clone());
    }

    fn on_removed(&mut self, id: &ContainerId) {
        let Some(container) = self.containers.get_mut(id) else { return };
        if !matches!(container.run, Run::Removing { .. }) {
            return;
        }
        container.run = Run::Gone;
        if container.record.is_none() {
            self.containers.remove(id);
        } else {
            self.changed.insert(id.clone());
        }
    }

    fn on_remove_failed(&mut self, fx: &mut Effects<Self>, now: Timestamp, id: &ContainerId, reason: &str) {
        let Some(container) = self.containers.get_mut(id) else { return };
        let Some(tries) = container.remove_failed(now) else { return };
        notice(fx, "remove_failed", id, format!("what {id} left could not be removed ({tries} tries): {reason}"));
        if container.is_over() {
            self.changed.insert(id.clone());
        }
    }

    fn on_probed(&mut self, fx: &mut Effects<Self>, now: Timestamp, id: &ContainerId, ok: bool) {
        let Some(container) = self.containers.get_mut(id).filter(|container| container.is_probed()) else { return };
        if !container.prober.answer(now, ok) {
            return;
        }
        let ready = container.prober.ready();
        if let Some(record) = &mut container.record
            && let Some(launched) = &mut record.launched
        {
            launched.ready = ready;
            fx.persist(Delta::PutContainer(record.clone()));
        }
        self.changed.insert(id.clone());
    }

    fn wake_containers(&mut self, fx: &mut Effects<Self>, now: Timestamp) {
        for (id, container) in &mut self.containers {
            let alive = matches!(container.run, Run::Launching | Run::Running);
            if alive && container.kill_due.is_some_and(|due| due <= now) {
                container.killed(now);
                fx.after(Effect::Kill { id: id.clone() });
            }
            if let Run::Removing { retry_at, .. } = &mut container.run
                && retry_at.take_if(|at| *at <= now).is_some()
            {
                fx.after(Effect::Remove { id: id.clone() });
            }
            if container.is_probed() && container.prober.ask(now) {
                let probe = container.record.as_ref().and_then(|record| http_probe(&record.spec));
                if let Some(probe) = probe {
                    fx.now(Effect::Probe { id: id.clone(), probe });
                }
            }
        }
    }

    /// Brings everything nearer that can't be so far away: the clock was set back.
    fn bear_clock(&mut self, now: Timestamp) {
        if let Some(link) = &mut self.link {
            link.alive_at = link.alive_at.min(now + ALIVE_EVERY);
            link.full_at = link.full_at.min(now + FULL_EVERY);
        }
        for container in self.containers.values_mut() {
            container.bear_clock(now);
        }
    }

    fn on_order(&mut self, fx: &mut Effects<Self>, now: Timestamp, order: HostOrder) {
        match order {
            HostOrder::Start { owner, container, spec } => {
                if self.accept_owner(fx, owner, &container) {
                    self.on_start(fx, now, owner, container, spec);
                }
            }
            HostOrder::Stop { owner, container } => {
                if self.accept_owner(fx, owner, &container) {
                    self.on_stop(fx, now, owner, &container);
                }
            }
            HostOrder::Forget { owner, container } => {
                if self.accept_owner(fx, owner, &container) {
                    self.on_forget(fx, now, owner, &container);
                }
            }
            HostOrder::Prepare { owner, container, image } => {
                if self.accept_owner(fx, owner, &container) {
                    self.on_prepare(fx, container, image);
                }
            }
            HostOrder::Drain(order) => self.on_drain(fx, order),
            HostOrder::ForceDrain { version } => self.on_force_drain(fx, now, version),
            HostOrder::EndDrain { version } => self.on_end_drain(fx, version),
        }
    }

    fn on_link_opened(&mut self, fx: &mut Effects<Self>, now: Timestamp, session: u64) {
        // Of an older link, or said twice because the machine was restored meanwhile.
        if self.link.is_some_and(|link| link.session >= session) {
            return;
        }
        self.link = Some(Link::new(session, now));
        if self.adopted {
            self.report_inventory(fx, now);
        }
    }
}

/// Shortens a text of others to what is kept of it.
pub(super) fn cut(text: &mut String) {
    if text.len() > REASON_BYTES_MAX {
        text.truncate(text.floor_char_boundary(REASON_BYTES_MAX));
    }
}

/// Tells people.
pub(super) fn notice(fx: &mut Effects<Host>, kind: &'static str, id: &ContainerId, message: String) {
    fx.now(Effect::Notice(Notice { kind, subject: format!("{id}"), message }));
}
