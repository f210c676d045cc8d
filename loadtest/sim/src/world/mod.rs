//! A world: a federation, regions, hosts and people under one virtual clock and one queue.

mod agent;
mod broker;
mod commits;
mod driver;
mod faults;
mod federation;
mod follow;
mod host;
mod link;
mod people;
mod process;
mod region;
mod requests;
mod run;
mod shard;

pub(crate) use driver::Step;
pub(crate) use host::{HostSim, Real, RealState};
pub(crate) use people::People;
pub(crate) use process::Proc;

use crate::{
    dice::Dice,
    happening::{Happening, Process},
    names::{FedAt, HostAt, NodeAt},
    oracle::Oracles,
    outcome::{Counts, Found},
    plan::{Fault, Plan},
    plant::Plant,
    queue::Queue,
    store::Store,
    trace::{Detail, Trace},
};
use federation::FedLead;
use polder_types::{DatacenterId, RegionId, Timestamp};
use region::Lead;
use std::collections::BTreeMap;

/// Where virtual time begins, so that nothing is ever before the beginning.
pub(crate) const EPOCH: u64 = 1_000_000;

/// A node of the federation.
#[derive(Debug)]
pub(crate) struct FedNode {
    pub(crate) process: Proc,
    pub(crate) lead: Option<FedLead>,
}

/// A node of a region.
#[derive(Debug)]
pub(crate) struct RegionNode {
    pub(crate) process: Proc,
    pub(crate) lead: Option<Lead>,
}

/// A region.
#[derive(Debug)]
pub(crate) struct RegionSim {
    pub(crate) id: RegionId,
    pub(crate) store: Store,
    pub(crate) nodes: Vec<RegionNode>,
    pub(crate) hosts: Vec<HostSim>,
    pub(crate) datacenters: Vec<DatacenterId>,
    pub(crate) shards: u16,
    /// Whether what it says reaches the federation, and the other way round.
    pub(crate) cut_up: bool,
    pub(crate) cut_down: bool,
    pub(crate) cut: u32,
    /// What waits until they do.
    pub(crate) held_up: Vec<Happening>,
}

/// Chance, by what it is for.
#[derive(Debug)]
pub(crate) struct Chance {
    pub(crate) net: Dice,
    pub(crate) store: Dice,
    pub(crate) host: Dice,
    pub(crate) faults: Dice,
    pub(crate) people: Dice,
}

/// All there is.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) now: u64,
    pub(crate) queue: Queue,
    pub(crate) dice: Chance,
    pub(crate) trace: Trace,
    pub(crate) federation: Store,
    pub(crate) fed_nodes: Vec<FedNode>,
    pub(crate) regions: Vec<RegionSim>,
    pub(crate) people: People,
    pub(crate) oracles: Oracles,
    pub(crate) plant: Option<Plant>,
    pub(crate) counts: Counts,
    /// Rates of faults that strike what is under way, in ten thousand.
    pub(crate) rates: BTreeMap<Fault, u64>,
    /// Whether faults are over.
    pub(crate) healed: bool,
    pub(crate) found: Option<Found>,
    /// What came for processes while they stand still.
    pub(crate) held: BTreeMap<Process, Vec<Happening>>,
    pub(crate) until_check: u32,
    pub(crate) tokens: u32,
    pub(crate) lives: u32,
}

impl World {
    /// A world as a seed draws it. Every process starts in its first moments.
    pub(crate) fn new(seed: u64, plan: Plan, detail: Detail, oracles: Oracles, plant: Option<Plant>) -> Self {
        let stream = |number| Dice::new(seed, number);
        let dice = Chance { net: stream(1), store: stream(2), host: stream(3), faults: stream(4), people: stream(5) };
        let rates = plan.faults.iter().filter(|(fault, _)| !fault.is_timed()).copied().collect();
        let mut world = Self {
            now: EPOCH,
            queue: Queue::default(),
            dice,
            trace: Trace::new(detail),
            federation: Store::default(),
            fed_nodes: Vec::new(),
            regions: Vec::new(),
            people: People::default(),
            oracles,
            plant,
            counts: Counts::default(),
            rates,
            healed: false,
            found: None,
            held: BTreeMap::new(),
            until_check: 1,
            tokens: 0,
            lives: 0,
            plan,
        };
        world.build();
        world
    }

    /// A number that no life had before.
    pub(crate) fn new_life(&mut self) -> u32 {
        self.lives += 1;
        self.lives
    }

    /// Whether a fault strikes that strikes what is under way.
    pub(crate) fn strikes(&mut self, fault: Fault) -> bool {
        if self.healed {
            return false;
        }
        let Some(rate) = self.rates.get(&fault).copied() else { return false };
        let strikes = self.dice.faults.below(10_000) < rate;
        if strikes {
            self.counts.fault(fault);
        }
        strikes
    }

    /// Notes that a promise is broken. Only the first counts.
    pub(crate) fn violated(&mut self, oracle: &'static str, what: String) {
        if self.found.is_none() && self.oracles.watches(oracle) {
            self.trace.note(&"VIOLATION", format_args!("{oracle}: {what}"));
            self.found = Some(Found { oracle, what, at: self.now });
        }
    }

    pub(crate) fn node(&self, at: NodeAt) -> &RegionNode {
        &self.regions[usize::from(at.region)].nodes[usize::from(at.node)]
    }

    pub(crate) fn node_mut(&mut self, at: NodeAt) -> &mut RegionNode {
        &mut self.regions[usize::from(at.region)].nodes[usize::from(at.node)]
    }

    pub(crate) fn region(&self, region: u8) -> &RegionSim {
        &self.regions[usize::from(region)]
    }

    pub(crate) fn region_mut(&mut self, region: u8) -> &mut RegionSim {
        &mut self.regions[usize::from(region)]
    }

    pub(crate) fn host(&self, at: HostAt) -> &HostSim {
        &self.regions[usize::from(at.region)].hosts[at.host as usize]
    }

    pub(crate) fn host_mut(&mut self, at: HostAt) -> &mut HostSim {
        &mut self.regions[usize::from(at.region)].hosts[at.host as usize]
    }

    pub(crate) fn fed(&self, at: FedAt) -> &FedNode {
        &self.fed_nodes[usize::from(at.0)]
    }

    pub(crate) fn fed_mut(&mut self, at: FedAt) -> &mut FedNode {
        &mut self.fed_nodes[usize::from(at.0)]
    }

    pub(crate) fn federation_nodes(&self) -> impl Iterator<Item = (FedAt, &FedNode)> {
        (0..).map(FedAt).zip(&self.fed_nodes)
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = (NodeAt, &RegionNode)> {
        (0..)
            .zip(&self.regions)
            .flat_map(|(region, sim)| (0..).zip(&sim.nodes).map(move |(node, sim)| (NodeAt { region, node }, sim)))
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = (HostAt, &HostSim)> {
        (0..)
            .zip(&self.regions)
            .flat_map(|(region, sim)| (0..).zip(&sim.hosts).map(move |(host, sim)| (HostAt { region, host }, sim)))
    }

    /// The node that leads a region, if one does.
    pub(crate) fn leader(&self, region: u8) -> Option<NodeAt> {
        self.nodes().find(|(at, node)| at.region == region && node.lead.is_some()).map(|(at, _)| at)
    }

    /// The node that leads the federation, if one does.
    pub(crate) fn fed_leader(&self) -> Option<FedAt> {
        self.federation_nodes().find(|(_, node)| node.lead.is_some()).map(|(at, _)| at)
    }

    pub(crate) fn proc(&self, process: Process) -> &Proc {
        match process {
            Process::Federation(at) => &self.fed(at).process,
            Process::Node(at) => &self.node(at).process,
            Process::Agent(at) => &self.host(at).agent,
        }
    }

    pub(crate) fn proc_mut(&mut self, process: Process) -> &mut Proc {
        match process {
            Process::Federation(at) => &mut self.fed_mut(at).process,
            Process::Node(at) => &mut self.node_mut(at).process,
            Process::Agent(at) => &mut self.host_mut(at).agent,
        }
    }

    /// What a process takes for the time.
    pub(crate) fn clock(&self, process: Process) -> Timestamp {
        Timestamp(self.now.saturating_add_signed(self.proc(process).offset))
    }

    fn between(dice: &mut Dice, (low, high): (u64, u64)) -> u64 {
        dice.between(low, high)
    }

    /// How long something takes within a process.
    pub(crate) fn local_delay(&mut self) -> u64 {
        Self::between(&mut self.dice.net, self.plan.local)
    }

    /// How long something takes over a link.
    pub(crate) fn link_delay(&mut self) -> u64 {
        Self::between(&mut self.dice.net, self.plan.link)
    }

    /// How long something takes between the federation and a region.
    pub(crate) fn wide_delay(&mut self) -> u64 {
        Self::between(&mut self.dice.net, self.plan.wide)
    }

    /// How long something takes to a store or back.
    pub(crate) fn store_delay(&mut self) -> u64 {
        Self::between(&mut self.dice.store, self.plan.store)
    }
}
