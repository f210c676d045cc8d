//! A host: what is really on it, its agent's disk, and the surroundings of its machine.

use super::{
    Proc, World,
    driver::{Part, Step},
    link::{HostNet, Linker},
};
use crate::{
    cell::Cell,
    happening::{Commit, Happening, Process},
    names::{ActorId, HostAt},
    plan::Fault,
};
use polder_core::host::{
    ContainerRecord, Delta, DrainRecord, Effect, Event, Host, HostConfig, OwnerRecord, Records, TaskFloor,
};
use polder_types::{BootId, ContainerId, ContainerSpec, ExitStatus, HostId, HostInfo, ShardId, TaskId, Timestamp};
use std::{collections::BTreeMap, sync::Arc};

/// Where a container really is. Agents come and go beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RealState {
    /// Its processes run.
    Running { pid: u32, started_at: Timestamp },
    /// They have ended, and their remains are there.
    Ended { status: ExitStatus, at: Timestamp },
}

/// A container as it really is.
#[derive(Clone, Debug)]
pub(crate) struct Real {
    pub(crate) state: RealState,
    pub(crate) spec: Arc<ContainerSpec>,
    /// It does not stop when it is asked to.
    pub(crate) deaf: bool,
    /// It answers its health check from then on.
    pub(crate) well_from: u64,
    /// An end is on its way.
    pub(crate) ending: bool,
}

impl Real {
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state, RealState::Running { .. })
    }
}

/// A launch under way in an agent.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) spec: Arc<ContainerSpec>,
    pub(crate) killed: bool,
    pub(crate) fails: bool,
}

/// The durable records of an agent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    containers: BTreeMap<ContainerId, ContainerRecord>,
    owners: BTreeMap<ShardId, OwnerRecord>,
    floors: BTreeMap<TaskId, TaskFloor>,
    drain: Option<DrainRecord>,
}

impl Disk {
    pub(crate) fn write(&mut self, delta: Delta) {
        match delta {
            Delta::PutContainer(record) => {
                self.containers.insert(record.id.clone(), record);
            }
            Delta::RemoveContainer(id) => {
                self.containers.remove(&id);
            }
            Delta::PutOwner(owner) => {
                self.owners.insert(owner.shard, owner);
            }
            Delta::PutFloor(floor) => {
                self.floors.insert(floor.task.clone(), floor);
            }
            Delta::RemoveFloor(task) => {
                self.floors.remove(&task);
            }
            Delta::PutDrain(drain) => self.drain = Some(drain),
        }
    }

    fn records(&self) -> Records {
        Records {
            containers: self.containers.values().cloned().collect(),
            owners: self.owners.values().copied().collect(),
            floors: self.floors.values().cloned().collect(),
            drain: self.drain.clone(),
        }
    }

    /// Its newest drain.
    pub(crate) fn drain(&self) -> Option<&DrainRecord> {
        self.drain.as_ref()
    }
}

/// A host.
#[derive(Debug)]
pub(crate) struct HostSim {
    pub(crate) id: HostId,
    pub(crate) info: HostInfo,
    pub(crate) datacenter: u8,
    pub(crate) powered: bool,
    /// It will never be powered again.
    pub(crate) lost: bool,
    pub(crate) boots: u32,
    pub(crate) agent: Proc,
    pub(crate) cell: Option<Cell<Host>>,
    pub(crate) disk: Disk,
    /// What is being written, and for which machine.
    pub(crate) writing: Vec<Delta>,
    pub(crate) launches: BTreeMap<ContainerId, Launch>,
    pub(crate) real: BTreeMap<ContainerId, Real>,
    pub(crate) linker: Linker,
    pub(crate) session: u64,
    pub(crate) net: HostNet,
    pub(crate) next_pid: u32,
}

impl HostSim {
    pub(crate) fn new(info: HostInfo, datacenter: u8, offset: i64) -> Self {
        Self {
            id: info.id.clone(),
            info,
            datacenter,
            powered: true,
            lost: false,
            boots: 1,
            agent: Proc { offset, ..Proc::default() },
            cell: None,
            disk: Disk::default(),
            writing: Vec::new(),
            launches: BTreeMap::new(),
            real: BTreeMap::new(),
            linker: Linker::Waiting,
            session: 0,
            net: HostNet::default(),
            next_pid: 1000,
        }
    }

    pub(crate) fn boot(&self) -> BootId {
        BootId(format!("{}-boot-{}", self.id, self.boots))
    }

    /// Its containers with a process.
    pub(crate) fn running(&self) -> impl Iterator<Item = (&ContainerId, &Real)> {
        self.real.iter().filter(|(_, real)| real.is_running())
    }
}

impl Part for HostAt {
    type Machine = Host;

    fn id(self) -> ActorId {
        ActorId::Host(self)
    }

    fn cell(self, world: &mut World) -> Option<&mut Cell<Host>> {
        world.host_mut(self).cell.as_mut()
    }

    fn clock(self, world: &World) -> Timestamp {
        world.clock(Process::Agent(self))
    }

    fn execute(self, world: &mut World, effect: Effect) {
        match effect {
            Effect::Launch { id, spec } => world.launch(self, id, spec),
            Effect::Signal { id, .. } => world.signal(self, &id),
            Effect::Kill { id } => world.kill(self, &id),
            Effect::Remove { id } => world.remove(self, id),
            Effect::Prepare { id, .. } => world.prepare(self, id),
            Effect::Probe { id, .. } => world.probe(self, id),
            Effect::Report(report) => world.report(self, report),
            Effect::Notice(_) => {}
        }
    }

    fn commit(self, world: &mut World, life: u32, steps: Vec<Vec<Delta>>) {
        let now = world.now;
        let takes = world.dice.host.between(0, 5);
        if world.strikes(Fault::DiskUnknown) {
            // Written or not: nobody says.
            if world.dice.host.chance(500) {
                for delta in steps.into_iter().flatten() {
                    world.host_mut(self).disk.write(delta);
                }
            }
            return world.queue.push(now + takes, Happening::Answer(self.id(), life, Commit::Unknown));
        }
        world.host_mut(self).writing = steps.into_iter().flatten().collect();
        world.queue.push(now + takes, Happening::Written(self, world.host(self).agent.life, life));
    }

    fn read(self, world: &mut World, life: u32, stage: u16) {
        if stage == 0 {
            let at = world.now + world.dice.host.between(1, 20);
            return world.queue.push(at, Happening::Reading(self.id(), life, 1));
        }
        let now = self.clock(world);
        let host = world.host(self);
        let config = HostConfig { info: host.info.clone(), boot: host.boot() };
        let (machine, effects) = Host::restore(config, host.disk.records(), now);
        let agent = host.agent.life;
        // Looked up now and said a little later: what happens in between may come first.
        let at = world.now + world.dice.host.between(0, 3);
        let adopted = Box::new(Event::Adopted { found: world.found(self) });
        world.queue.push(at, Happening::ToHost(self, agent, adopted));
        if let Linker::Open(_, session) = world.host(self).linker {
            world.queue.push(at, Happening::ToHost(self, agent, Box::new(Event::LinkOpened { session })));
        }
        world.restored(self, machine, effects);
    }

    fn watch(self, world: &mut World, step: &mut Step<Host>) {
        crate::plant::spoil_host(world, self, step);
    }
}

impl World {
    /// What was being written is on the disk.
    pub(crate) fn written(&mut self, at: HostAt, cell_life: u32) {
        for delta in std::mem::take(&mut self.host_mut(at).writing) {
            self.host_mut(at).disk.write(delta);
        }
        self.queue.push(self.now, Happening::Answer(ActorId::Host(at), cell_life, Commit::Committed));
    }
}
