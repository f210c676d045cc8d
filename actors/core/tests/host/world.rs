//! A host with a disk and a runtime that are played: everything a test sees of the machine goes through here.

use polder_core::{
    host::{Delta, Effect, Event, Found, FoundState, Host, HostConfig, Records},
    machine::{Durable, Effects, Machine},
    message::{DrainAttestation, DrainOrder, HostOrder, HostReport, OrderOwner, Refusal},
};
use polder_types::{
    BootId, Bytes, Capacity, ContainerId, ContainerPhase, ContainerSpec, Cpu, DrainVersion, ExitStatus, Generation,
    HealthCheck, HostInfo, Millis, OwnerEpoch, PortBinding, PortRange, ShardId, StopSignal, StopSpec, Timestamp,
};
use std::{collections::BTreeMap, sync::Arc};

pub(crate) const GRACE: Millis = Millis(10_000);

/// What the played runtime holds of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Played {
    Launching { killed: bool },
    Running { pid: u32, started_at: Timestamp },
    Ended { status: ExitStatus, at: Timestamp },
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) host: Host,
    pub(crate) disk: Records,
    pub(crate) runtime: BTreeMap<ContainerId, Played>,
    pub(crate) now: Timestamp,
    pub(crate) boot: BootId,
    /// Everything asked for since it was last taken.
    pub(crate) effects: Vec<Effect>,
    next_pid: u32,
    session: u64,
}

impl World {
    /// A host that has looked around and is linked.
    pub(crate) fn new() -> Self {
        let mut world = Self::unlinked();
        world.adopt();
        world.link();
        world.effects.clear();
        world
    }

    pub(crate) fn unlinked() -> Self {
        let boot = BootId("boot-1".to_owned());
        let now = Timestamp(1_000_000);
        let disk = Records::default();
        let (host, _) = Host::restore(config(&boot), disk.clone(), now);
        Self { host, disk, runtime: BTreeMap::new(), now, boot, effects: vec![], next_pid: 100, session: 0 }
    }

    pub(crate) fn step(&mut self, event: Event) {
        let effects = self.host.step(self.now, event);
        self.carry_out(effects, true);
    }

    pub(crate) fn order(&mut self, order: HostOrder) {
        self.step(Event::Order(order));
    }

    pub(crate) fn wake(&mut self) {
        let effects = self.host.wake(self.now);
        self.carry_out(effects, true);
    }

    /// A step after which the agent dies before anything that waits for the disk is done.
    pub(crate) fn step_and_lose_effects(&mut self, event: Event, durable: bool) {
        let effects = self.host.step(self.now, event);
        let (_, deltas, _) = effects.split();
        if durable {
            self.write(deltas);
        }
    }

    /// Lets time pass, waking the machine whenever it asks for it.
    pub(crate) fn pass(&mut self, length: Millis) {
        let end = self.now + length;
        // Bounded, so that a machine that wakes for nothing fails the test instead of hanging it.
        for _ in 0..10_000 {
            match self.host.next_deadline() {
                Some(at) if at <= end => {
                    self.now = self.now.max(at);
                    self.wake();
                }
                _ => {
                    self.now = end;
                    return;
                }
            }
        }
        panic!("the machine wakes without end: {:?}", self.host);
    }

    fn carry_out(&mut self, effects: Effects<Host>, check: bool) {
        if check {
            self.host.check().unwrap();
        }
        let (now, deltas, after) = effects.split();
        for effect in now {
            assert!(matches!(effect, Effect::Notice(_) | Effect::Probe { .. }), "{effect:?} must wait for the disk");
            self.effects.push(effect);
        }
        self.write(deltas);
        for effect in after.open(Durable::committed()) {
            self.play(&effect);
            self.effects.push(effect);
        }
    }

    fn write(&mut self, deltas: Vec<Delta>) {
        for delta in deltas {
            match delta {
                Delta::PutContainer(record) => {
                    self.disk.containers.retain(|known| known.id != record.id);
                    self.disk.containers.push(record);
                }
                Delta::RemoveContainer(id) => self.disk.containers.retain(|known| known.id != id),
                Delta::PutOwner(owner) => {
                    self.disk.owners.retain(|known| known.shard != owner.shard);
                    self.disk.owners.push(owner);
                }
                Delta::PutFloor(floor) => {
                    self.disk.floors.retain(|known| known.task != floor.task);
                    self.disk.floors.push(floor);
                }
                Delta::RemoveFloor(task) => self.disk.floors.retain(|known| known.task != task),
                Delta::PutDrain(drain) => self.disk.drain = Some(drain),
            }
        }
    }

    fn play(&mut self, effect: &Effect) {
        match effect {
            Effect::Launch { id, .. } => {
                let durable = self.disk.containers.iter().any(|record| record.id == *id && record.ended.is_none());
                assert!(durable, "{id} is launched before its record is durable");
                let beside = self.runtime.iter().find(|(other, played)| {
                    other.task == id.task && !matches!(played, Played::Ended { .. }) && *other != id
                });
                assert_eq!(beside, None, "{id} is launched beside another of its task");
                let known = self.runtime.insert(id.clone(), Played::Launching { killed: false });
                assert_eq!(known, None, "{id} is launched twice");
            }
            Effect::Kill { id } => {
                if let Some(Played::Launching { killed }) = self.runtime.get_mut(id) {
                    *killed = true;
                }
            }
            _ => {}
        }
    }

    // ---- what the runtime does ----

    /// A launch succeeds.
    pub(crate) fn launched(&mut self, id: &ContainerId) {
        let Some(Played::Launching { killed }) = self.runtime.get(id).cloned() else { panic!("{id} is not launching") };
        self.next_pid += 1;
        let (pid, started_at) = (self.next_pid, self.now);
        self.runtime.insert(id.clone(), Played::Running { pid, started_at });
        self.step(Event::Launched { id: id.clone(), pid, started_at });
        if killed {
            self.exits(id, ExitStatus::Signal { signal: 9, oom: false });
        }
    }

    pub(crate) fn launch_fails(&mut self, id: &ContainerId) {
        self.runtime.remove(id);
        self.step(Event::LaunchFailed { id: id.clone(), reason: "no such image".to_owned() });
    }

    pub(crate) fn exits(&mut self, id: &ContainerId, status: ExitStatus) {
        let at = self.now;
        self.runtime.insert(id.clone(), Played::Ended { status: status.clone(), at });
        self.step(Event::Exited { id: id.clone(), status, at });
    }

    pub(crate) fn removed(&mut self, id: &ContainerId) {
        self.runtime.remove(id);
        self.step(Event::Removed { id: id.clone() });
    }

    pub(crate) fn remove_fails(&mut self, id: &ContainerId) {
        self.step(Event::RemoveFailed { id: id.clone(), reason: "busy".to_owned() });
    }

    /// From its start order to a running process.
    pub(crate) fn run(&mut self, id: &ContainerId) {
        self.order(start(id, 1));
        self.launched(id);
    }

    // ---- what happens around it ----

    pub(crate) fn adopt(&mut self) {
        let found = self.runtime.iter().map(|(id, played)| Found {
            id: id.clone(),
            state: match played.clone() {
                Played::Launching { .. } => FoundState::Launching,
                Played::Running { pid, started_at } => FoundState::Running { pid, started_at },
                Played::Ended { status, at } => FoundState::Ended { status, at },
            },
        });
        let found = found.collect();
        self.step(Event::Adopted { found });
    }

    pub(crate) fn link(&mut self) {
        self.session += 1;
        self.step(Event::LinkOpened { session: self.session });
    }

    pub(crate) fn unlink(&mut self) {
        self.step(Event::LinkClosed { session: self.session });
    }

    /// The machine is dropped and restored; the runtime goes on.
    pub(crate) fn restore(&mut self) {
        let (host, effects) = Host::restore(config(&self.boot), self.disk.clone(), self.now);
        self.host = host;
        self.carry_out(effects, true);
        self.wake();
    }

    /// The agent dies and comes back. Launches that were under way come to nothing.
    pub(crate) fn restart_agent(&mut self) {
        self.runtime.retain(|_, played| !matches!(played, Played::Launching { .. }));
        self.restore();
        self.adopt();
        self.link();
    }

    pub(crate) fn reboot(&mut self, boot: &str) {
        self.boot = BootId(boot.to_owned());
        self.runtime.clear();
        self.restore();
        self.adopt();
        self.link();
    }

    // ---- what was asked for ----

    pub(crate) fn take(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub(crate) fn phase(&self, id: &ContainerId) -> Option<ContainerPhase> {
        self.host.container(id, self.now).map(|status| status.phase)
    }

    /// All phases that were reported since effects were last taken.
    pub(crate) fn said(&self) -> Vec<(ContainerId, ContainerPhase)> {
        said(&self.effects)
    }

    pub(crate) fn last_said(&self, id: &ContainerId) -> Option<ContainerPhase> {
        self.said().into_iter().filter(|(said, _)| said == id).map(|(_, phase)| phase).next_back()
    }

    pub(crate) fn refusals(&self) -> Vec<Refusal> {
        let refusal = |effect: &Effect| match effect {
            Effect::Report(HostReport::Refused { why, .. }) => Some(why.clone()),
            _ => None,
        };
        self.effects.iter().filter_map(refusal).collect()
    }

    pub(crate) fn attested(&self) -> Option<DrainAttestation> {
        let attested = |effect: &Effect| match effect {
            Effect::Report(HostReport::Drain(attestation)) => Some(attestation.clone()),
            Effect::Report(HostReport::Inventory { drain, .. }) => drain.clone(),
            _ => None,
        };
        self.effects.iter().rev().find_map(attested)
    }

    pub(crate) fn asked(&self, wanted: &Effect) -> bool {
        self.effects.contains(wanted)
    }

    pub(crate) fn launches(&self) -> Vec<ContainerId> {
        let launch = |effect: &Effect| match effect {
            Effect::Launch { id, .. } => Some(id.clone()),
            _ => None,
        };
        self.effects.iter().filter_map(launch).collect()
    }
}

pub(crate) fn said(effects: &[Effect]) -> Vec<(ContainerId, ContainerPhase)> {
    let statuses = effects.iter().filter_map(|effect| match effect {
        Effect::Report(HostReport::Changed { containers } | HostReport::Inventory { containers, .. }) => {
            Some(containers)
        }
        _ => None,
    });
    statuses.flatten().map(|status| (status.id.clone(), status.phase.clone())).collect()
}

pub(crate) fn config(boot: &BootId) -> HostConfig {
    let info = HostInfo {
        id: "h1".parse().unwrap(),
        datacenter: "d1".parse().unwrap(),
        power_domain: "p1".parse().unwrap(),
        rack: "r1".parse().unwrap(),
        capacity: Capacity {
            cpu: Cpu::from_centi_cores(800),
            memory: Bytes::from_mib(8192),
            ports: PortRange { first: 20_000, last: 29_999 },
        },
        labels: BTreeMap::new(),
        address: "127.0.0.1".to_owned(),
        agent: "0.1.0".to_owned(),
    };
    HostConfig { info, boot: boot.clone() }
}

pub(crate) fn id(text: &str) -> ContainerId {
    text.parse().unwrap()
}

pub(crate) fn spec() -> ContainerSpec {
    ContainerSpec {
        generation: Generation(1),
        image: "oci:/images/demo".to_owned(),
        command: vec![],
        args: vec![],
        env: BTreeMap::new(),
        user: None,
        workdir: None,
        cpu: Cpu::from_centi_cores(10),
        memory: Bytes::from_mib(32),
        pids: 32,
        ports: vec![PortBinding { name: "http".parse().unwrap(), port: 20_001 }],
        stop: StopSpec { signal: StopSignal::Sigterm, grace: GRACE },
        health: None,
    }
}

pub(crate) fn probed() -> ContainerSpec {
    let health = HealthCheck {
        port: "http".parse().unwrap(),
        path: "/health".to_owned(),
        interval: Millis(2000),
        timeout: Millis(1000),
        failures: 3,
    };
    ContainerSpec { health: Some(health), ..spec() }
}

pub(crate) fn owner(epoch: u64) -> OrderOwner {
    OrderOwner { shard: ShardId(1), epoch: OwnerEpoch(epoch) }
}

pub(crate) fn start(id: &ContainerId, by: u64) -> HostOrder {
    HostOrder::Start { owner: owner(by), container: id.clone(), spec: Arc::new(spec()) }
}

pub(crate) fn start_with(id: &ContainerId, spec: ContainerSpec) -> HostOrder {
    HostOrder::Start { owner: owner(1), container: id.clone(), spec: Arc::new(spec) }
}

pub(crate) fn stop(id: &ContainerId, by: u64) -> HostOrder {
    HostOrder::Stop { owner: owner(by), container: id.clone() }
}

pub(crate) fn forget(id: &ContainerId, by: u64) -> HostOrder {
    HostOrder::Forget { owner: owner(by), container: id.clone() }
}

pub(crate) fn drain(version: u64) -> HostOrder {
    HostOrder::Drain(DrainOrder { version: DrainVersion(version), deadline: Timestamp(9_000_000) })
}

pub(crate) fn force(version: u64) -> HostOrder {
    HostOrder::ForceDrain { version: DrainVersion(version) }
}

pub(crate) fn end_drain(version: u64) -> HostOrder {
    HostOrder::EndDrain { version: DrainVersion(version) }
}

pub(crate) fn is_ended(phase: Option<ContainerPhase>) -> bool {
    matches!(phase, Some(ContainerPhase::Ended { .. }))
}
