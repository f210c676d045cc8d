//! Building a world, and letting everything in it happen.

use super::{FedNode, HostSim, Proc, RegionNode, RegionSim, World};
use crate::{
    happening::{Ask, Happening, Process, Tell},
    names::{FedAt, HostAt, LedgerAt, NodeAt, RouterAt},
    oracle::truth::Books,
    store::Store,
};
use polder_types::{Bytes, Capacity, Cpu, HostInfo, PortRange};

impl World {
    pub(super) fn build(&mut self) {
        for number in 0..self.plan.federation_nodes {
            let offset = self.skew(self.plan.node_skew);
            self.fed_nodes.push(FedNode { process: Proc { offset, ..Proc::default() }, lead: None });
            self.first_start(Process::Federation(FedAt(number)), 1_000);
        }
        for (region, plan) in (0_u8..).zip(self.plan.regions.clone()) {
            let datacenters: Vec<_> =
                (0..plan.datacenters).filter_map(|number| format!("r{region}-dc{number}").parse().ok()).collect();
            let Ok(id) = format!("region-{region}").parse() else { continue };
            self.regions.push(RegionSim {
                id,
                store: Store::default(),
                nodes: Vec::new(),
                hosts: Vec::new(),
                datacenters,
                shards: plan.shards,
                cut_up: false,
                cut_down: false,
                cut: 0,
                held_up: Vec::new(),
            });
            self.oracles.books.push(Books::default());
            for node in 0..plan.nodes {
                let offset = self.skew(self.plan.node_skew);
                let process = Proc { offset, ..Proc::default() };
                self.region_mut(region).nodes.push(RegionNode { process, lead: None });
                self.first_start(Process::Node(NodeAt { region, node }), 1_000);
            }
            for host in 0..plan.hosts {
                let offset = self.skew(self.plan.host_skew);
                let datacenter = u8::try_from(host % u32::from(plan.datacenters)).unwrap_or(0);
                if let Some(info) = self.host_info(region, host, datacenter, plan.racks) {
                    self.region_mut(region).hosts.push(HostSim::new(info, datacenter, offset));
                }
                self.first_start(Process::Agent(HostAt { region, host }), 3_000);
            }
        }
        self.make_people();
        for (fault, gap) in self.plan.faults.clone() {
            if fault.is_timed() {
                let at = self.now + 5_000 + self.dice.faults.gap(gap);
                self.queue.push(at, Happening::Fault(fault));
            }
        }
    }

    fn first_start(&mut self, process: Process, within: u64) {
        let at = self.now + self.dice.net.between(0, within);
        self.queue.push(at, Happening::Start(process));
    }

    fn skew(&mut self, most: u64) -> i64 {
        let ahead = i64::try_from(self.dice.net.between(0, most)).unwrap_or(0);
        if self.dice.net.chance(500) { ahead } else { -ahead }
    }

    fn host_info(&mut self, region: u8, host: u32, datacenter: u8, racks: u32) -> Option<HostInfo> {
        let cores = u32::try_from(self.dice.net.between(4, 16)).unwrap_or(4);
        Some(HostInfo {
            id: format!("r{region}-h{host}").parse().ok()?,
            datacenter: format!("r{region}-dc{datacenter}").parse().ok()?,
            power_domain: format!("r{region}-dc{datacenter}-p").parse().ok()?,
            rack: format!("r{region}-dc{datacenter}-k{}", host / 2 % racks.max(1)).parse().ok()?,
            capacity: Capacity {
                cpu: Cpu::from_centi_cores(cores * 100),
                memory: Bytes::from_mib(cores * 2048),
                ports: PortRange { first: 20_000, last: 20_200 },
            },
            labels: std::collections::BTreeMap::new(),
            address: "10.0.0.1".to_owned(),
            agent: "sim".to_owned(),
        })
    }

    /// The next thing happens. False when nothing is left.
    pub(crate) fn next(&mut self) -> bool {
        let Some((at, ordinal, happening)) = self.queue.pop() else { return false };
        self.now = at.max(self.now);
        self.trace.moment(self.now, ordinal);
        self.counts.happenings += 1;
        self.happens(happening);
        true
    }

    /// Lets something happen, unless it is for a process that is gone, or that stands still.
    pub(crate) fn happens(&mut self, happening: Happening) {
        if let Some((process, life)) = concerns(&happening) {
            if let Some(life) = life
                && !self.is_life(process, life)
            {
                return self.missed_its_process(happening);
            }
            if self.proc(process).frozen_until > self.now && !matches!(happening, Happening::Thaw(..)) {
                return self.held.entry(process).or_default().push(happening);
            }
        }
        self.go(happening);
    }

    /// What was for a process that is gone is lost, but for what somebody else has to see.
    fn missed_its_process(&mut self, happening: Happening) {
        if let Happening::Up(node, life, from, session, message) = happening {
            self.up(node, from, session, message, life);
        }
    }

    fn go(&mut self, happening: Happening) {
        match happening {
            Happening::Wake(..)
            | Happening::GoOn(..)
            | Happening::Answer(..)
            | Happening::Restore(..)
            | Happening::Reading(..) => self.of_actor(happening),
            Happening::ToRouter(at, _, event) => self.deliver(RouterAt(at), *event),
            Happening::ToLedger(at, _, event) => self.deliver(LedgerAt(at), *event),
            Happening::ToAllocator(at, _, event) => self.deliver(at, *event),
            Happening::ToShard(at, _, event) => self.deliver(at, *event),
            Happening::ToHost(at, _, event) => self.deliver(at, *event),
            Happening::Written(at, _, cell_life) => self.written(at, cell_life),
            Happening::Txn(txn) => self.apply_txn(txn),
            Happening::Start(process) => self.start(process),
            Happening::Renew(process, life) => self.renew(process, life),
            Happening::Renewed(process, life, asked) => self.renewed(process, life, asked),
            Happening::LeaseCheck(process, life) => self.lease_check(process, life),
            Happening::LeaseEnd(process, life) => self.lease_end(process, life),
            Happening::Acquire(process, life) => self.acquire(process, life),
            Happening::Missed(node, _) => self.repeat_missed(node),
            Happening::Connect(at, _) => self.connect(at),
            Happening::ConnectTimeout(at, _, session) => self.connect_timeout(at, session),
            Happening::Up(node, life, from, session, message) => self.up(node, from, session, message, life),
            Happening::Down(at, life, from, session, message) => self.down(at, from, session, message, life),
            Happening::HostIdle(at, _, cut) => self.host_idle(at, cut),
            Happening::NodeIdle(node, _, at, session) => self.node_idle(node, at, session),
            Happening::EnteringEnds(node, _, host, session, said) => self.entering_ends(node, host, session, said),
            Happening::Owed(node, _, at, session) => self.pay_owed(node, at, session),
            Happening::LaunchEnds(at, _, id) => self.launch_ends(at, id),
            Happening::Exit(at, boot, id, status) => self.exit(at, boot, id, *status),
            Happening::RemoveEnds(at, _, id) => self.remove_ends(at, id),
            Happening::Tick(at, life) => self.tick(at, life),
            Happening::Ask(node, from, life, number, ask) => self.ask_arrives(node, from, life, number, *ask),
            Happening::Tell(at, life, region, number, tell) => self.tell_arrives(at, life, region, number, *tell),
            Happening::Look(at, _, region, number) => self.look(at, region, number),
            Happening::PutTimeout(at, _, region, job, number) => self.put_answered(at, region, &job, number),
            Happening::Changes(node, _, to) => self.tell_changes(node, to),
            Happening::AllotmentKnown(node, _, put) => self.allotment_known(node, put),
            Happening::AllotmentStore(node, _, put) => self.allotment_stored(node, put),
            Happening::Fault(fault) => self.fault(fault),
            Happening::Repair(repair) => self.repair(*repair),
            Happening::Thaw(process, life) => self.thaw(process, life),
            Happening::Person => self.person(),
            // Whoever still wanted something then does without.
            Happening::PersonAgain(_) if self.healed => {}
            Happening::PersonAgain(order) => self.ask_for(*order),
        }
    }

    fn ask_arrives(&mut self, node: NodeAt, from: FedAt, life: u32, number: u32, ask: Ask) {
        if self.region(node.region).cut_down {
            // A request that waits in a network arrives after it, or never.
            let put = ask.is_put();
            if put && self.dice.net.chance(300) {
                let later = self.now + self.dice.net.between(100, 60_000);
                self.queue.push(later, Happening::Ask(node, from, life, number, Box::new(ask)));
            }
            return;
        }
        if self.node(node).process.up {
            self.asked(node, from, life, number, ask);
        }
    }

    fn tell_arrives(&mut self, at: FedAt, life: u32, region: u8, number: u32, tell: Tell) {
        let local = matches!(tell, Tell::Failed);
        if self.region(region).cut_up && !local {
            if matches!(tell, Tell::Changes(_) | Tell::WatchEnded) {
                let held = Happening::Tell(at, life, region, number, Box::new(tell));
                self.region_mut(region).held_up.push(held);
            }
            return;
        }
        self.told(at, region, number, tell);
    }

    /// A process that stood still goes on with all that came meanwhile.
    pub(crate) fn thaw(&mut self, process: Process, life: u32) {
        if self.proc(process).frozen_until > self.now {
            return self.queue.push(self.proc(process).frozen_until, Happening::Thaw(process, life));
        }
        for happening in self.held.remove(&process).unwrap_or_default() {
            self.happens(happening);
        }
    }
}

/// Which process a happening is for, and in which life of it.
fn concerns(happening: &Happening) -> Option<(Process, Option<u32>)> {
    use Happening as H;
    let node = |at: &NodeAt, life: &u32| Some((Process::Node(*at), Some(*life)));
    let agent = |at: &HostAt, life: &u32| Some((Process::Agent(*at), Some(*life)));
    let fed = |at: &FedAt, life: &u32| Some((Process::Federation(*at), Some(*life)));
    match happening {
        H::Wake(actor, _) | H::GoOn(actor) | H::Answer(actor, ..) | H::Restore(actor, _) | H::Reading(actor, ..) => {
            Some((actor.process(), None))
        }
        H::ToRouter(at, life, _) | H::ToLedger(at, life, _) => fed(at, life),
        H::ToAllocator(at, life, _) => node(&at.0, life),
        H::ToShard(at, life, _) => node(&at.node, life),
        H::ToHost(at, life, _) | H::Written(at, life, _) => agent(at, life),
        H::Renew(process, life)
        | H::Renewed(process, life, _)
        | H::LeaseCheck(process, life)
        | H::Acquire(process, life)
        | H::Thaw(process, life) => Some((*process, Some(*life))),
        H::Missed(at, life)
        | H::Up(at, life, ..)
        | H::NodeIdle(at, life, ..)
        | H::EnteringEnds(at, life, ..)
        | H::Owed(at, life, ..)
        | H::Changes(at, life, ..)
        | H::AllotmentKnown(at, life, _)
        | H::AllotmentStore(at, life, _) => node(at, life),
        H::Connect(at, life)
        | H::ConnectTimeout(at, life, _)
        | H::Down(at, life, ..)
        | H::HostIdle(at, life, _)
        | H::LaunchEnds(at, life, _)
        | H::RemoveEnds(at, life, _)
        | H::Tick(at, life) => agent(at, life),
        H::Tell(at, life, ..) | H::Look(at, life, ..) | H::PutTimeout(at, life, ..) => fed(at, life),
        // Whoever is there takes it.
        H::Ask(at, ..) => Some((Process::Node(*at), None)),
        H::Txn(_)
        | H::Start(_)
        | H::LeaseEnd(..)
        | H::Exit(..)
        | H::Fault(_)
        | H::Repair(_)
        | H::Person
        | H::PersonAgain(_) => None,
    }
}
