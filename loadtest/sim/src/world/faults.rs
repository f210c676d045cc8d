//! Faults that strike by themselves, and their end.

use super::World;
use crate::{
    happening::{Happening, Process, Repair},
    names::{FedAt, HostAt, NodeAt},
    plan::Fault,
};
use polder_types::ExitStatus;

impl World {
    /// A fault strikes, and strikes again some time later.
    pub(crate) fn fault(&mut self, fault: Fault) {
        if self.healed {
            return;
        }
        let again = self.now + 1 + self.dice.faults.gap(self.plan.rate(fault));
        self.queue.push(again, Happening::Fault(fault));
        if self.strike(fault) {
            self.counts.fault(fault);
            self.trace.note(&"FAULT", format_args!("{fault}"));
        }
    }

    fn any_node(&mut self) -> NodeAt {
        let region = self.dice.faults.index(self.regions.len());
        let node = self.dice.faults.index(self.regions[region].nodes.len());
        NodeAt { region: u8::try_from(region).unwrap_or(0), node: u8::try_from(node).unwrap_or(0) }
    }

    fn any_fed(&mut self) -> FedAt {
        FedAt(u8::try_from(self.dice.faults.index(self.fed_nodes.len())).unwrap_or(0))
    }

    fn any_host(&mut self) -> HostAt {
        let region = self.dice.faults.index(self.regions.len());
        let host = self.dice.faults.index(self.regions[region].hosts.len());
        HostAt { region: u8::try_from(region).unwrap_or(0), host: u32::try_from(host).unwrap_or(0) }
    }

    fn crash_one(&mut self, process: Process) -> bool {
        if !self.proc(process).up {
            return false;
        }
        // Some are stopped in order, and give their lease back.
        if self.dice.faults.chance(300) {
            self.crash(process, "it is stopped");
            self.give_back(process);
        } else {
            self.crash(process, "it is killed");
        }
        true
    }

    fn freeze_one(&mut self, process: Process, most: u64) -> bool {
        let (up, now) = (self.proc(process).up, self.now);
        if up {
            let until = now + self.dice.faults.between(100, most);
            self.freeze(process, until);
        }
        up
    }

    fn cut_one(&mut self, at: HostAt, up: bool, down: bool) -> bool {
        if !self.host(at).powered {
            return false;
        }
        let lasts = self.dice.faults.gap(20_000);
        let cut = self.cut(at, up, down);
        self.queue.push(self.now + lasts, Happening::Repair(Box::new(Repair::Cut { host: at, cut })));
        true
    }

    fn cut_region(&mut self, up: bool, down: bool) -> bool {
        let region = u8::try_from(self.dice.faults.index(self.regions.len())).unwrap_or(0);
        let sim = self.region_mut(region);
        sim.cut += 1;
        (sim.cut_up, sim.cut_down) = (up, down);
        let cut = sim.cut;
        let lasts = self.dice.faults.gap(30_000);
        self.queue.push(self.now + lasts, Happening::Repair(Box::new(Repair::FederationCut { region, cut })));
        true
    }

    fn strike(&mut self, fault: Fault) -> bool {
        match fault {
            Fault::NodeCrash => {
                let at = self.any_node();
                self.crash_one(Process::Node(at))
            }
            Fault::FederationCrash => {
                let at = self.any_fed();
                self.crash_one(Process::Federation(at))
            }
            Fault::AgentCrash => {
                let at = self.any_host();
                self.crash_one(Process::Agent(at))
            }
            Fault::NodeFreeze => {
                let at = self.any_node();
                self.freeze_one(Process::Node(at), 30_000)
            }
            Fault::FederationFreeze => {
                let at = self.any_fed();
                self.freeze_one(Process::Federation(at), 30_000)
            }
            Fault::AgentFreeze => {
                let at = self.any_host();
                self.freeze_one(Process::Agent(at), 40_000)
            }
            Fault::PowerLoss => {
                let at = self.any_host();
                let was = self.host(at).powered;
                self.power_off(at, false);
                let back = self.now + self.dice.faults.gap(30_000);
                self.queue.push(back, Happening::Repair(Box::new(Repair::PowerOn(at))));
                was
            }
            Fault::HostLost => {
                let at = self.any_host();
                // Most of a region stays.
                let region = self.region(at.region);
                let left = region.hosts.iter().filter(|host| !host.lost).count();
                let may = left * 3 > region.hosts.len() * 2 && left > 2 && self.host(at).powered;
                if may {
                    self.power_off(at, true);
                }
                may
            }
            Fault::LinkCut | Fault::LinkCutUp | Fault::LinkCutDown => {
                let at = self.any_host();
                self.cut_one(at, fault != Fault::LinkCutDown, fault != Fault::LinkCutUp)
            }
            Fault::DatacenterCut => {
                let at = self.any_host();
                let datacenter = self.host(at).datacenter;
                let all: Vec<HostAt> = self
                    .hosts()
                    .filter(|(other, host)| other.region == at.region && host.datacenter == datacenter)
                    .map(|(other, _)| other)
                    .collect();
                all.into_iter().filter(|at| self.cut_one(*at, true, true)).count() > 0
            }
            Fault::LinkReset => {
                let at = self.any_host();
                self.reset_link(at)
            }
            Fault::RegionCut => self.cut_region(true, true),
            Fault::RegionCutUp => self.cut_region(true, false),
            Fault::RegionCutDown => self.cut_region(false, true),
            Fault::StoreUpkeep => {
                let until = self.now + self.dice.faults.between(50, 4_000);
                let region = self.dice.faults.index(self.regions.len() + 1);
                let store = match self.regions.get_mut(region) {
                    Some(region) => &mut region.store,
                    None => &mut self.federation,
                };
                store.stalled_until = store.stalled_until.max(until);
                true
            }
            Fault::StoreCut => {
                let process = if self.dice.faults.chance(250) {
                    Process::Federation(self.any_fed())
                } else {
                    Process::Node(self.any_node())
                };
                let (now, lasts) = (self.now, self.dice.faults.between(500, self.plan.lease_ttl * 2));
                let life = self.new_life();
                self.proc_mut(process).store_cut = Some(life);
                self.queue.push(now + lasts, Happening::Repair(Box::new(Repair::StoreCut(process, life))));
                true
            }
            Fault::Panic | Fault::Stall => {
                let actors = self.actors();
                let number = self.dice.faults.index(actors.len());
                let Some(actor) = actors.get(number).copied() else { return false };
                if fault == Fault::Panic {
                    self.panic_any(actor);
                } else {
                    let until = self.now + self.dice.faults.between(50, 8_000);
                    self.stall_any(actor, until);
                }
                true
            }
            Fault::ContainerExit => {
                let at = self.any_host();
                let host = self.host(at);
                let ids: Vec<_> = host.running().map(|(id, _)| id.clone()).collect();
                let boot = host.boots;
                let number = self.dice.faults.index(ids.len());
                let Some(id) = ids.get(number).cloned() else { return false };
                let status = match self.dice.faults.below(4) {
                    0 => ExitStatus::Code { code: 0 },
                    1 => ExitStatus::Signal { signal: 9, oom: true },
                    _ => ExitStatus::Code { code: 1 },
                };
                self.exit(at, boot, id, status);
                true
            }
            Fault::ClockStep => {
                let at = self.any_host();
                let step = i64::try_from(self.dice.faults.between(100, 60_000)).unwrap_or(0);
                let step = if self.dice.faults.chance(500) { step } else { -step };
                self.host_mut(at).agent.offset = step;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn repair(&mut self, repair: Repair) {
        match repair {
            Repair::Cut { host, cut } => {
                if self.host(host).net.cut == cut {
                    self.mend(host);
                }
            }
            Repair::FederationCut { region, cut } => {
                if self.region(region).cut == cut {
                    self.mend_region(region);
                }
            }
            Repair::StoreCut(process, cut) => {
                let proc = self.proc_mut(process);
                if proc.store_cut == Some(cut) {
                    proc.store_cut = None;
                }
            }
            Repair::PowerOn(at) => self.power_on(at),
        }
    }

    fn mend_region(&mut self, region: u8) {
        let sim = self.region_mut(region);
        (sim.cut_up, sim.cut_down) = (false, false);
        for happening in std::mem::take(&mut sim.held_up) {
            self.happens(happening);
        }
    }

    /// Faults are over: everything that is cut is mended, everything that is down starts, but for hosts that are lost.
    pub(crate) fn heal(&mut self) {
        self.healed = true;
        self.trace.note(&"WORLD", format_args!("faults are over"));
        let processes: Vec<Process> = self
            .federation_nodes()
            .map(|(at, _)| Process::Federation(at))
            .chain(self.nodes().map(|(at, _)| Process::Node(at)))
            .chain(self.hosts().map(|(at, _)| Process::Agent(at)))
            .collect();
        for process in processes {
            let now = self.now;
            let proc = self.proc_mut(process);
            proc.store_cut = None;
            proc.frozen_until = proc.frozen_until.min(now);
            let life = proc.life;
            self.queue.push(now, Happening::Thaw(process, life));
        }
        for region in (0..).take(self.regions.len()) {
            self.mend_region(region);
            self.region_mut(region).store.stalled_until = 0;
        }
        self.federation.stalled_until = 0;
        let hosts: Vec<HostAt> = self.hosts().map(|(at, _)| at).collect();
        for at in hosts {
            if self.host(at).net.cut_up || self.host(at).net.cut_down {
                self.mend(at);
            }
            self.power_on(at);
            let now = self.now;
            for real in self.host_mut(at).real.values_mut() {
                real.well_from = real.well_from.min(now + 1_000);
            }
        }
    }
}
