//! Finding again what an earlier agent left.

use super::{
    container::{Container, Run},
    event::{Delta, Effect, Found, FoundState},
    record::Launched,
    state::Host,
    step::notice,
};
use crate::machine::Effects;
use alloc::{
    borrow::ToOwned as _,
    collections::{BTreeMap, btree_map::Entry},
    format,
    string::String,
    vec::Vec,
};
use polder_types::{BootId, ContainerId, ExitStatus, Timestamp};

impl Host {
    /// Brings records and runtime together. What runs goes on running; what is gone has ended; what was accepted and
    /// never begun is launched; what was never accepted is killed and removed.
    pub(super) fn on_adopted(&mut self, fx: &mut Effects<Self>, now: Timestamp, found: Vec<Found>) {
        if self.adopted {
            return;
        }
        self.adopted = true;
        let mut found: BTreeMap<ContainerId, FoundState> =
            found.into_iter().map(|found| (found.id, found.state)).collect();
        for (id, container) in &mut self.containers {
            if container.run != Run::Unseen {
                continue;
            }
            match found.remove(id) {
                Some(state) => adopt_found(fx, now, id, container, state),
                None => adopt_absent(fx, now, id, container, &self.config.boot),
            }
        }
        for (id, state) in found {
            if let Entry::Vacant(place) = self.containers.entry(id) {
                let stray = adopt_stray(fx, now, place.key(), &state);
                place.insert(stray);
            }
        }
        if self.link.is_some() {
            self.report_inventory(fx, now);
        }
    }
}

fn adopt_found(fx: &mut Effects<Host>, now: Timestamp, id: &ContainerId, container: &mut Container, state: FoundState) {
    let Some(record) = &mut container.record else { return };
    match state {
        FoundState::Launching => container.run = Run::Launching,
        FoundState::Running { pid, started_at } => {
            container.run = Run::Running;
            let ready = container.prober.ready();
            let launched =
                record.launched.map_or(Launched { pid, started_at, ready }, |known| Launched { pid, ..known });
            if record.launched != Some(launched) {
                record.launched = Some(launched);
                fx.persist(Delta::PutContainer(record.clone()));
            }
            if record.ended.is_some() {
                // Its end was recorded when it could not be seen: then it must not run.
                container.kill_due = Some(now);
            }
            match container.kill_due {
                Some(due) if due <= now => {
                    container.killed(now);
                    fx.after(Effect::Kill { id: id.clone() });
                }
                // The signal may have been sent before; rather twice than never.
                Some(_) => fx.after(Effect::Signal { id: id.clone(), signal: record.spec.stop.signal.number() }),
                None => {}
            }
        }
        FoundState::Ended { status, at } => {
            if record.ended.is_some() {
                container.run = Run::removing_late();
            } else {
                container.run = Run::removing();
                record.ended = Some((status, at));
                fx.persist(Delta::PutContainer(record.clone()));
            }
            fx.after(Effect::Remove { id: id.clone() });
        }
    }
}

fn adopt_absent(fx: &mut Effects<Host>, now: Timestamp, id: &ContainerId, container: &mut Container, boot: &BootId) {
    let Some(record) = &mut container.record else { return };
    let same_boot = record.boot == *boot;
    if record.ended.is_none() && record.launched.is_none() && same_boot {
        if record.kill_at.is_none() {
            container.run = Run::Waiting;
            return;
        }
        record.ended = Some((ExitStatus::NotStarted { reason: "it was stopped before it started".to_owned() }, now));
        fx.persist(Delta::PutContainer(record.clone()));
    } else if record.ended.is_none() {
        let reason: String = match same_boot {
            true => "nothing of it was found when the agent started".to_owned(),
            false => "the machine was restarted".to_owned(),
        };
        notice(fx, "container_lost", id, format!("{id} is gone: {reason}"));
        record.ended = Some((ExitStatus::Unknown { reason }, now));
        fx.persist(Delta::PutContainer(record.clone()));
    }
    container.run = Run::Gone;
}

fn adopt_stray(fx: &mut Effects<Host>, now: Timestamp, id: &ContainerId, state: &FoundState) -> Container {
    notice(fx, "stray_found", id, format!("{id} was found, but never accepted: it is removed"));
    match state {
        FoundState::Ended { .. } => {
            fx.after(Effect::Remove { id: id.clone() });
            Container::stray(Run::removing(), now)
        }
        FoundState::Launching | FoundState::Running { .. } => {
            let run = if matches!(state, FoundState::Launching) { Run::Launching } else { Run::Running };
            let mut stray = Container::stray(run, now);
            stray.killed(now);
            fx.after(Effect::Kill { id: id.clone() });
            stray
        }
    }
}
