//! Orders about containers.

use super::{
    CONTAINERS_MAX, FLOOR_KEEP, FLOORS_MAX,
    container::{Container, Run},
    event::{Delta, Effect},
    probe::http_probe,
    record::{ContainerRecord, OwnerRecord, TaskFloor},
    state::{Host, all_epochs},
};
use crate::{
    machine::Effects,
    message::{HostReport, OrderOwner, Refusal},
};
use alloc::{borrow::ToOwned as _, format, string::String, sync::Arc, vec, vec::Vec};
use polder_types::{ContainerId, ContainerPhase, ContainerSpec, ContainerStatus, Epoch, ExitStatus, TaskId, Timestamp};

impl Host {
    /// Refuses an order of an owner that was deposed, and remembers a new one before anything it says is done.
    pub(super) fn accept_owner(&mut self, fx: &mut Effects<Self>, owner: OrderOwner, container: &ContainerId) -> bool {
        let seen = self.owners.get(&owner.shard).copied();
        if let Some(seen) = seen.filter(|seen| *seen > owner.epoch) {
            self.refuse(fx, container.clone(), Refusal::StaleOwner { seen });
            return false;
        }
        if seen != Some(owner.epoch) {
            self.owners.insert(owner.shard, owner.epoch);
            fx.persist(Delta::PutOwner(OwnerRecord { shard: owner.shard, epoch: owner.epoch }));
        }
        true
    }

    pub(super) fn on_start(
        &mut self,
        fx: &mut Effects<Self>,
        now: Timestamp,
        owner: OrderOwner,
        id: ContainerId,
        spec: Arc<ContainerSpec>,
    ) {
        if self.containers.contains_key(&id) {
            // A repetition: whoever repeats it has not seen how the container is.
            self.changed.insert(id);
            return;
        }
        if let Some(seen) = self.newest_epoch(&id.task).filter(|seen| *seen >= id.epoch) {
            self.refuse(fx, id, Refusal::StaleContainer { seen });
            return;
        }
        if let Some(version) = self.open_drain() {
            self.refuse(fx, id, Refusal::Draining { version });
            return;
        }
        if let Some(reason) = self.never_startable(&spec) {
            self.raise_floor(fx, now, owner, &id.task, id.epoch);
            self.say_ended(fx, id, ExitStatus::NotStarted { reason }, now);
            return;
        }
        self.supersede_waiting(fx, now, &id.task);
        let boot = self.config.boot.clone();
        let record = ContainerRecord { id: id.clone(), owner, spec, boot, launched: None, kill_at: None, ended: None };
        fx.persist(Delta::PutContainer(record.clone()));
        if self.floors.remove(&id.task).is_some() {
            fx.persist(Delta::RemoveFloor(id.task.clone()));
        }
        self.containers.insert(id.clone(), Container::recorded(record, Run::Waiting));
        self.changed.insert(id);
    }

    /// Why a container of this spec can't be run here at all.
    fn never_startable(&self, spec: &ContainerSpec) -> Option<String> {
        if self.containers.len() >= CONTAINERS_MAX {
            return Some(format!("the host holds {CONTAINERS_MAX} containers, which is its limit"));
        }
        let check = spec.health.as_ref()?;
        if http_probe(spec).is_some() {
            return None;
        }
        Some(format!("the health check asks at port `{}`, which the container does not have", check.port))
    }

    /// Ends older containers of a task that have not begun: they would only run to be stopped.
    fn supersede_waiting(&mut self, fx: &mut Effects<Self>, now: Timestamp, task: &TaskId) {
        for (id, container) in self.containers.range_mut(all_epochs(task)) {
            if container.run == Run::Waiting {
                end_unstarted(fx, container, "a newer container of its task came before it started", now);
                self.changed.insert(id.clone());
            }
        }
    }

    pub(super) fn on_stop(&mut self, fx: &mut Effects<Self>, now: Timestamp, owner: OrderOwner, id: &ContainerId) {
        let Some(container) = self.containers.get_mut(id) else {
            // It must not start later: the order to start it may still be under way.
            self.raise_floor(fx, now, owner, &id.task, id.epoch);
            let reason = "the host does not know this container".to_owned();
            self.say_ended(fx, id.clone(), ExitStatus::NotStarted { reason }, now);
            return;
        };
        self.changed.insert(id.clone());
        let Some(record) =
            container.record.as_mut().filter(|record| record.ended.is_none() && record.kill_at.is_none())
        else {
            return;
        };
        if container.run == Run::Waiting {
            end_unstarted(fx, container, "it was stopped before it started", now);
            return;
        }
        let kill_at = now + record.spec.stop.grace;
        record.kill_at = Some(kill_at);
        container.kill_due = Some(kill_at);
        fx.persist(Delta::PutContainer(record.clone()));
        if container.run == Run::Running {
            fx.after(Effect::Signal { id: id.clone(), signal: record.spec.stop.signal.number() });
        }
    }

    pub(super) fn on_forget(&mut self, fx: &mut Effects<Self>, now: Timestamp, owner: OrderOwner, id: &ContainerId) {
        match self.containers.get(id) {
            Some(container) if container.run == Run::Gone => {}
            Some(container) if container.record.is_some() && container.is_over() => {}
            Some(_) => {
                // Its end is not known here, so it can't be on record: say how it is.
                self.changed.insert(id.clone());
                return;
            }
            None => {
                self.raise_floor(fx, now, owner, &id.task, id.epoch);
                return;
            }
        }
        // Remains that could not be removed are still ours to remove: as a stray.
        let stray = self.containers.remove(id).filter(|container| container.run != Run::Gone);
        self.changed.remove(id);
        // First, so that no crash can leave neither.
        self.raise_floor(fx, now, owner, &id.task, id.epoch);
        fx.persist(Delta::RemoveContainer(id.clone()));
        if let Some(mut stray) = stray {
            stray.record = None;
            self.containers.insert(id.clone(), stray);
        }
    }

    /// Makes sure that no container of a task up to this epoch starts.
    fn raise_floor(&mut self, fx: &mut Effects<Self>, now: Timestamp, owner: OrderOwner, task: &TaskId, epoch: Epoch) {
        if self.newest_epoch(task).is_some_and(|seen| seen >= epoch) {
            return;
        }
        self.drop_floors(fx, now);
        let floor = TaskFloor { task: task.clone(), epoch, owner, at: now };
        self.floors.insert(task.clone(), floor.clone());
        fx.persist(Delta::PutFloor(floor));
    }

    /// Keeps the floors bounded. A floor guards against an order that was under way when its container was stopped or
    /// forgotten: no owner orders the start of a container whose end it has on record. So a floor has done its work
    /// when the shard has a newer owner (orders of the older one are refused anyway), or after [`FLOOR_KEEP`]. Should
    /// there be more than [`FLOORS_MAX`] all the same, the oldest go.
    fn drop_floors(&mut self, fx: &mut Effects<Self>, now: Timestamp) {
        if self.floors.len() % FLOOR_SWEEP != FLOOR_SWEEP - 1 && self.floors.len() < FLOORS_MAX {
            return;
        }
        let done = |floor: &TaskFloor| {
            let deposed = self.owners.get(&floor.owner.shard).is_some_and(|newest| *newest > floor.owner.epoch);
            deposed || now.since(floor.at) > FLOOR_KEEP
        };
        let mut doomed: Vec<TaskId> =
            self.floors.values().filter(|floor| done(floor)).map(|floor| floor.task.clone()).collect();
        if self.floors.len() - doomed.len() >= FLOORS_MAX {
            let mut by_age: Vec<&TaskFloor> = self.floors.values().collect();
            by_age.sort_by_key(|floor| floor.at);
            doomed = by_age.into_iter().take(FLOORS_MAX / 8).map(|floor| floor.task.clone()).collect();
        }
        for task in doomed {
            self.floors.remove(&task);
            fx.persist(Delta::RemoveFloor(task));
        }
    }

    pub(super) fn refuse(&self, fx: &mut Effects<Self>, container: ContainerId, why: Refusal) {
        if self.link.is_some() {
            fx.after(Effect::Report(HostReport::Refused { container, why }));
        }
    }

    /// Says that a container has ended of which there is no record.
    fn say_ended(&self, fx: &mut Effects<Self>, id: ContainerId, status: ExitStatus, at: Timestamp) {
        if self.link.is_some() {
            let status = ContainerStatus { id, phase: ContainerPhase::Ended { status, at } };
            fx.after(Effect::Report(HostReport::Changed { containers: vec![status] }));
        }
    }
}

/// Floors are looked through once for so many new ones.
const FLOOR_SWEEP: usize = 64;

/// Ends a container that has not begun, and so leaves nothing.
pub(super) fn end_unstarted(fx: &mut Effects<Host>, container: &mut Container, why: &str, now: Timestamp) {
    let Some(record) = &mut container.record else { return };
    record.ended = Some((ExitStatus::NotStarted { reason: why.to_owned() }, now));
    fx.persist(Delta::PutContainer(record.clone()));
    container.run = Run::Gone;
}
