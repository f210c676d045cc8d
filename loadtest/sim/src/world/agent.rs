//! A host's agent and its runtime: launching, stopping, removing containers, and finding them again.

use super::{Real, RealState, World, host::Launch, link::Linker};
use crate::{
    cell::Cell,
    happening::{Happening, Process},
    names::HostAt,
    plan::Fault,
};
use polder_core::host::{Event, Found, FoundState};
use polder_types::{ContainerId, ContainerSpec, ExitStatus, JobKind, Timestamp};
use std::sync::Arc;

/// How often the machine is told that time passes.
const TICK_EVERY: u64 = 5_000;
/// The usual life of a task of a batch job.
const BATCH_RUNS: (u64, u64) = (1_000, 60_000);

impl World {
    pub(crate) fn start_agent(&mut self, at: HostAt) {
        if !self.host(at).powered || self.host(at).agent.up {
            return;
        }
        let life = self.new_life();
        let now = self.now;
        let host = self.host_mut(at);
        (host.agent.up, host.agent.life, host.agent.frozen_until) = (true, life, 0);
        host.cell = Some(Cell::default());
        host.linker = Linker::Waiting;
        host.net.wait = 0;
        self.trace.note(&at, format_args!("its agent starts"));
        self.begin_restore(at);
        let some = self.dice.host.between(10, 300);
        self.queue.push(now + some, Happening::Connect(at, life));
        let tick = self.dice.host.between(1, TICK_EVERY);
        self.queue.push(now + tick, Happening::Tick(at, life));
    }

    /// The agent is gone. Containers are not.
    pub(crate) fn agent_ends(&mut self, at: HostAt) {
        if self.host(at).powered {
            // The kernel closes its sockets.
            self.close_from_host(at);
        } else {
            self.watch_silence(at);
        }
        // What was being written is there or not.
        let writing = std::mem::take(&mut self.host_mut(at).writing);
        if self.dice.host.chance(500) {
            for delta in writing {
                self.host_mut(at).disk.write(delta);
            }
        }
        let host = self.host_mut(at);
        host.cell = None;
        host.linker = Linker::Waiting;
        host.launches.clear();
    }

    /// The whole machine loses its power: its containers end, and what was in memory is gone.
    pub(crate) fn power_off(&mut self, at: HostAt, for_good: bool) {
        if !self.host(at).powered {
            return;
        }
        self.trace.note(&at, format_args!("loses its power"));
        for id in self.host(at).running().map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.see_gone(at, &id);
        }
        let host = self.host_mut(at);
        host.powered = false;
        host.lost = for_good;
        host.real.clear();
        host.boots += 1;
        self.crash(Process::Agent(at), "its machine has no power");
    }

    pub(crate) fn power_on(&mut self, at: HostAt) {
        let host = self.host_mut(at);
        if host.powered || host.lost {
            return;
        }
        host.powered = true;
        let at_once = Happening::Start(Process::Agent(at));
        self.queue.push(self.now + 100, at_once);
    }

    pub(crate) fn tick(&mut self, at: HostAt, life: u32) {
        self.deliver(at, Event::Ticked);
        self.queue.push(self.now + TICK_EVERY, Happening::Tick(at, life));
    }

    /// What the runtime holds now.
    pub(crate) fn found(&self, at: HostAt) -> Vec<Found> {
        let host = self.host(at);
        let launching = host.launches.keys().map(|id| Found { id: id.clone(), state: FoundState::Launching });
        let real = host.real.iter().map(|(id, real)| {
            let state = match real.state.clone() {
                RealState::Running { pid, started_at } => FoundState::Running { pid, started_at },
                RealState::Ended { status, at } => FoundState::Ended { status, at },
            };
            Found { id: id.clone(), state }
        });
        launching.chain(real).collect()
    }

    fn tell_machine(&mut self, at: HostAt, event: Event) {
        let when = self.now + self.dice.host.between(0, 3);
        let life = self.host(at).agent.life;
        self.queue.push(when, Happening::ToHost(at, life, Box::new(event)));
    }

    pub(crate) fn launch(&mut self, at: HostAt, id: ContainerId, spec: Arc<ContainerSpec>) {
        let host = self.host(at);
        // Asked for twice: the first asking goes on.
        if host.launches.contains_key(&id) || host.real.contains_key(&id) {
            return;
        }
        let mut takes = Self::between(&mut self.dice.host, self.plan.launch);
        if self.strikes(Fault::LaunchSlow) {
            takes += self.dice.host.between(5_000, 60_000);
        }
        let fails = self.strikes(Fault::LaunchFails);
        let life = self.host(at).agent.life;
        self.host_mut(at).launches.insert(id.clone(), Launch { spec, killed: false, fails });
        self.queue.push(self.now + takes, Happening::LaunchEnds(at, life, id));
    }

    pub(crate) fn launch_ends(&mut self, at: HostAt, id: ContainerId) {
        let Some(launch) = self.host_mut(at).launches.remove(&id) else { return };
        if launch.killed || launch.fails {
            let reason = if launch.killed { "it was stopped before it started" } else { "its image can't be had" };
            return self.tell_machine(at, Event::LaunchFailed { id, reason: reason.to_owned() });
        }
        let now = self.now;
        let started_at = self.clock(Process::Agent(at));
        let deaf = self.strikes(Fault::StopIgnored);
        let warms_up = self.dice.host.between(0, 3_000);
        let host = self.host_mut(at);
        host.next_pid += 1;
        let pid = host.next_pid;
        let real = Real {
            state: RealState::Running { pid, started_at },
            spec: launch.spec,
            deaf,
            well_from: now + warms_up,
            ending: false,
        };
        host.real.insert(id.clone(), real);
        self.counts.starts += 1;
        self.trace.note(&at, format_args!("REAL {id} runs"));
        self.see_started(at, &id);
        if self.people.kind(&id.task.job) == Some(JobKind::Batch) {
            let runs = Self::between(&mut self.dice.host, BATCH_RUNS);
            let code = i32::from(!self.healed && self.dice.host.chance(150));
            let boot = self.host(at).boots;
            self.queue.push(now + runs, Happening::Exit(at, boot, id.clone(), Box::new(ExitStatus::Code { code })));
        } else {
            self.counts.service_starts += 1;
        }
        self.tell_machine(at, Event::Launched { id, pid, started_at });
    }

    /// Asks a container to stop.
    pub(crate) fn signal(&mut self, at: HostAt, id: &ContainerId) {
        self.see_stopped(at, id, "its stop signal");
        let takes = self.dice.host.between(1, 2_000);
        let Some(real) = self.host_mut(at).real.get_mut(id) else { return };
        if !real.is_running() || real.deaf || std::mem::replace(&mut real.ending, true) {
            return;
        }
        let boot = self.host(at).boots;
        let status = Box::new(ExitStatus::Code { code: 0 });
        self.queue.push(self.now + takes, Happening::Exit(at, boot, id.clone(), status));
    }

    /// Kills a container, however far it is.
    pub(crate) fn kill(&mut self, at: HostAt, id: &ContainerId) {
        self.see_stopped(at, id, "SIGKILL");
        if let Some(launch) = self.host_mut(at).launches.get_mut(id) {
            launch.killed = true;
            return;
        }
        let takes = self.dice.host.between(0, 50);
        let Some(real) = self.host(at).real.get(id) else { return };
        if real.is_running() {
            let status = Box::new(ExitStatus::Signal { signal: 9, oom: false });
            let boot = self.host(at).boots;
            self.queue.push(self.now + takes, Happening::Exit(at, boot, id.clone(), status));
        }
    }

    /// A container's processes end, whether an agent watches or not.
    pub(crate) fn exit(&mut self, at: HostAt, boot: u32, id: ContainerId, status: ExitStatus) {
        if self.host(at).boots != boot {
            return;
        }
        let ended_at: Timestamp = self.clock(Process::Agent(at));
        let Some(real) = self.host_mut(at).real.get_mut(&id).filter(|real| real.is_running()) else { return };
        real.state = RealState::Ended { status: status.clone(), at: ended_at };
        self.trace.note(&at, format_args!("REAL {id} has ended: {status}"));
        self.see_gone(at, &id);
        if self.host(at).agent.up {
            self.tell_machine(at, Event::Exited { id, status, at: ended_at });
        }
    }

    pub(crate) fn remove(&mut self, at: HostAt, id: ContainerId) {
        let takes = self.dice.host.between(1, 300);
        let life = self.host(at).agent.life;
        self.queue.push(self.now + takes, Happening::RemoveEnds(at, life, id));
    }

    pub(crate) fn remove_ends(&mut self, at: HostAt, id: ContainerId) {
        if self.host(at).real.get(&id).is_some_and(Real::is_running) {
            let reason = "it still runs".to_owned();
            return self.tell_machine(at, Event::RemoveFailed { id, reason });
        }
        if self.host(at).real.contains_key(&id) && self.strikes(Fault::RemoveFails) {
            let reason = "its mount is busy".to_owned();
            return self.tell_machine(at, Event::RemoveFailed { id, reason });
        }
        self.host_mut(at).real.remove(&id);
        self.tell_machine(at, Event::Removed { id });
    }

    /// Every image is to be had on every host here.
    pub(crate) fn prepare(&mut self, at: HostAt, id: ContainerId) {
        let (life, takes) = (self.host(at).agent.life, self.dice.host.between(1, 50));
        let prepared = Box::new(Event::Prepared { id, failed: None });
        self.queue.push(self.now + takes, Happening::ToHost(at, life, prepared));
    }

    pub(crate) fn probe(&mut self, at: HostAt, id: ContainerId) {
        let now = self.now;
        if self.strikes(Fault::Unhealthy) {
            let sick = self.dice.host.between(1_000, 20_000);
            if let Some(real) = self.host_mut(at).real.get_mut(&id) {
                real.well_from = now + sick;
            }
        }
        let ok = self.host(at).real.get(&id).is_some_and(|real| real.is_running() && real.well_from <= now);
        let life = self.host(at).agent.life;
        let takes = self.dice.host.between(1, 50);
        self.queue.push(now + takes, Happening::ToHost(at, life, Box::new(Event::Probed { id, ok })));
    }
}
