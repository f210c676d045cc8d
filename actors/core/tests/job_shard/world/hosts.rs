//! Hosts that do what they are told, sooner or later, and remember what they have seen.

use polder_core::{
    job_shard::Event,
    message::{DrainOrder, HostOrder, Preparation, Refusal},
};
use polder_types::{BootId, ContainerId, ContainerPhase, ContainerStatus, DrainVersion, ExitStatus, HostId, Millis};

use super::{World, live};

impl World {
    pub(super) fn list(&mut self, id: &HostId) {
        let host = self.hosts.get_mut(id).unwrap();
        if host.linked {
            let statuses = host
                .containers
                .iter()
                .map(|(id, phase)| ContainerStatus { id: id.clone(), phase: phase.clone() })
                .collect();
            let boot = BootId(host.boot.to_string());
            host.outbox.push_back(Event::HostListed { host: id.clone(), boot, statuses });
        }
    }

    fn set(&mut self, id: &HostId, container: ContainerId, phase: ContainerPhase) {
        let host = self.hosts.get_mut(id).unwrap();
        host.containers.insert(container.clone(), phase.clone());
        if host.linked {
            let statuses = vec![ContainerStatus { id: container, phase }];
            host.outbox.push_back(Event::HostReported { host: id.clone(), statuses });
        }
    }

    /// A host carries out its orders.
    pub(crate) fn host_obeys(&mut self, number: usize) {
        let id = self.name(number);
        while let Some(order) = self.hosts.get_mut(&id).unwrap().inbox.pop_front() {
            let host = self.hosts.get_mut(&id).unwrap();
            match order {
                HostOrder::Start { container, spec, .. } => {
                    let seen = host.seen.get(&container.task).copied().unwrap_or_default();
                    let known = host.containers.get(&container).is_some_and(live);
                    let refusal = if known {
                        continue;
                    } else if container.epoch <= seen {
                        Some(Refusal::StaleContainer { seen })
                    } else {
                        host.drain.map(|drain| Refusal::Draining { version: drain.version })
                    };
                    match refusal {
                        Some(why) => {
                            host.outbox.push_back(Event::HostRefused { host: id.clone(), container, why });
                        }
                        None => {
                            host.seen.insert(container.task.clone(), container.epoch);
                            let phase = if host.lacks.contains(&spec.image) {
                                let status = ExitStatus::NotStarted { reason: "no such layout".into() };
                                ContainerPhase::Ended { status, at: self.now }
                            } else {
                                ContainerPhase::Preparing
                            };
                            self.set(&id, container, phase);
                        }
                    }
                }
                HostOrder::Stop { container, .. } => {
                    let seen = host.seen.entry(container.task.clone()).or_default();
                    *seen = (*seen).max(container.epoch);
                    match host.containers.get(&container) {
                        Some(ContainerPhase::Preparing | ContainerPhase::Running { .. }) => {
                            let kill_at = self.now + Millis::from_secs(10);
                            self.set(&id, container, ContainerPhase::Stopping { kill_at });
                        }
                        Some(phase) => {
                            let phase = phase.clone();
                            self.set(&id, container, phase);
                        }
                        None => {
                            let status = ExitStatus::NotStarted { reason: "unknown here".into() };
                            self.set(&id, container, ContainerPhase::Ended { status, at: self.now });
                        }
                    }
                }
                HostOrder::Forget { container, .. } => {
                    let ended = host.containers.get(&container).is_some_and(|phase| !live(phase));
                    ended.then(|| host.containers.remove(&container));
                }
                HostOrder::Prepare { container, image, .. } => {
                    let preparation = if host.lacks.contains(&image) {
                        Preparation::Failed { reason: "no such layout".into() }
                    } else {
                        Preparation::Done
                    };
                    host.outbox.push_back(Event::HostPrepared { host: id.clone(), container, preparation });
                }
                _ => {}
            }
        }
    }

    /// An image is not to be had on a host any more, or is again.
    pub(crate) fn lack(&mut self, number: usize, image: &str, lacks: bool) {
        let id = self.name(number);
        let host = self.hosts.get_mut(&id).unwrap();
        if lacks {
            host.lacks.insert(image.to_owned());
        } else {
            host.lacks.remove(image);
        }
    }

    /// A host's containers go on: what is prepared runs, what is to stop ends.
    pub(crate) fn host_works(&mut self, number: usize) {
        let id = self.name(number);
        for (container, phase) in self.hosts[&id].containers.clone() {
            let next = match phase {
                ContainerPhase::Preparing | ContainerPhase::Running { ready: false, .. } => {
                    ContainerPhase::Running { started_at: self.now, pid: 1, ready: true }
                }
                ContainerPhase::Stopping { .. } => {
                    let status = ExitStatus::Signal { signal: 15, oom: false };
                    ContainerPhase::Ended { status, at: self.now }
                }
                ContainerPhase::Running { .. } | ContainerPhase::Ended { .. } => continue,
            };
            self.set(&id, container, next);
        }
    }

    pub(crate) fn host_reports(&mut self, number: usize) {
        let id = self.name(number);
        while let Some(event) = self.hosts.get_mut(&id).unwrap().outbox.pop_front() {
            self.event(event);
        }
    }

    pub(crate) fn lose_orders(&mut self, number: usize) {
        let id = self.name(number);
        self.hosts.get_mut(&id).unwrap().inbox.clear();
    }

    pub(crate) fn lose_reports(&mut self, number: usize) {
        let id = self.name(number);
        self.hosts.get_mut(&id).unwrap().outbox.clear();
    }

    /// One of a host's containers ends by itself, or is not well for a while.
    pub(crate) fn container_fails(&mut self, number: usize, which: usize, ends: bool) {
        let id = self.name(number);
        let running: Vec<ContainerId> = self.hosts[&id]
            .containers
            .iter()
            .filter(|(_, phase)| matches!(phase, ContainerPhase::Running { .. }))
            .map(|(id, _)| id.clone())
            .collect();
        if let Some(container) = running.get(which % running.len().max(1)) {
            let phase = if ends {
                ContainerPhase::Ended { status: ExitStatus::Code { code: 1 }, at: self.now }
            } else {
                ContainerPhase::Running { started_at: self.now, pid: 1, ready: false }
            };
            self.set(&id, container.clone(), phase);
        }
    }

    pub(crate) fn cut(&mut self, number: usize) {
        let (id, now) = (self.name(number), self.now);
        let host = self.hosts.get_mut(&id).unwrap();
        if host.linked {
            (host.linked, host.cut_at) = (false, now);
            host.inbox.clear();
            host.outbox.clear();
        }
    }

    pub(crate) fn silent(&mut self, number: usize) {
        let id = self.name(number);
        let host = self.hosts.get_mut(&id).unwrap();
        if !host.linked && host.silent.is_none() {
            host.silent = Some(host.cut_at);
            self.tell_condition(&id);
        }
    }

    pub(crate) fn heal(&mut self, number: usize) {
        let id = self.name(number);
        let host = self.hosts.get_mut(&id).unwrap();
        if host.linked {
            return;
        }
        host.linked = true;
        self.list(&id);
        if self.hosts[&id].silent.is_some() {
            self.hosts.get_mut(&id).unwrap().silent = None;
            self.tell_condition(&id);
        }
    }

    pub(crate) fn reboot(&mut self, number: usize) {
        let (id, now) = (self.name(number), self.now);
        self.cut(number);
        let host = self.hosts.get_mut(&id).unwrap();
        host.boot += 1;
        for phase in host.containers.values_mut().filter(|phase| live(phase)) {
            let status = ExitStatus::Unknown { reason: "reboot".into() };
            *phase = ContainerPhase::Ended { status, at: now };
        }
        self.heal(number);
    }

    pub(crate) fn drain(&mut self, number: usize, on: bool) {
        let id = self.name(number);
        let deadline = self.now + Millis::from_secs(600);
        let host = self.hosts.get_mut(&id).unwrap();
        if host.drain.is_some() != on {
            host.drain = on.then_some(DrainOrder { version: DrainVersion(1), deadline });
            self.tell_condition(&id);
        }
    }
}
