//! What a seed draws before anything happens: the topology, the workload, and which faults there are and how often.

use crate::dice::Dice;
use std::fmt;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $mean:literal;)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault {
            $($(#[$doc])* $name,)*
        }

        impl Fault {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// For one that strikes by itself: the usual time between two, in milliseconds. For one that strikes what
            /// is under way: how often in ten thousand. See [`Self::is_timed`].
            const fn usual(self) -> u64 {
                match self {
                    $(Self::$name => $mean,)*
                }
            }
        }
    };
}

faults! {
    /// A region's node is killed and started again.
    NodeCrash = "node-crash", 60_000;
    /// A region's node stands still for a while, and goes on as if nothing had been.
    NodeFreeze = "node-freeze", 60_000;
    /// A node of the federation is killed and started again.
    FederationCrash = "federation-crash", 60_000;
    /// A node of the federation stands still for a while.
    FederationFreeze = "federation-freeze", 90_000;
    /// A host's agent is killed and started again; containers go on.
    AgentCrash = "agent-crash", 20_000;
    /// A host's agent stands still for a while; containers go on.
    AgentFreeze = "agent-freeze", 40_000;
    /// A whole host dies with its containers, and boots again.
    PowerLoss = "power-loss", 60_000;
    /// A whole host dies and stays dead.
    HostLost = "host-lost", 200_000;
    /// Nothing passes between a host and its nodes.
    LinkCut = "link-cut", 30_000;
    /// Nothing passes from a host to its nodes.
    LinkCutUp = "link-cut-up", 40_000;
    /// Nothing passes from nodes to a host.
    LinkCutDown = "link-cut-down", 40_000;
    /// A link breaks, and both sides see it.
    LinkReset = "link-reset", 20_000;
    /// All hosts of a datacenter are cut off.
    DatacenterCut = "datacenter-cut", 120_000;
    /// Nothing passes between the federation and a region.
    RegionCut = "region-cut", 60_000;
    /// What a region says does not reach the federation.
    RegionCutUp = "region-cut-up", 80_000;
    /// What the federation says does not reach a region.
    RegionCutDown = "region-cut-down", 80_000;
    /// A store answers late for a while: compaction, defragmentation, a new leader.
    StoreUpkeep = "store-upkeep", 30_000;
    /// A node can't reach its store, for so long that its lease may end.
    StoreCut = "store-cut", 60_000;
    /// A machine panics in a step and is restored.
    Panic = "panic", 20_000;
    /// An actor gets no turn for a while, and its inbox fills up.
    Stall = "stall", 15_000;
    /// A container's process ends by itself.
    ContainerExit = "container-exit", 10_000;
    /// The clock of a host is set.
    ClockStep = "clock-step", 60_000;
    /// A commit is lost on its way to the store, and its outcome unknown.
    CommitLost = "commit-lost", 60;
    /// A commit is applied, and the answer lost.
    CommitUnanswered = "commit-unanswered", 60;
    /// A commit is applied after its outcome was called unknown.
    CommitLate = "commit-late", 40;
    /// A host's own store does not say whether it wrote.
    DiskUnknown = "disk-unknown", 30;
    /// An order or a report finds its queue full and is dropped.
    MessageDropped = "message-dropped", 100;
    /// A request of the federation comes twice, or its answer gets lost.
    RequestRepeated = "request-repeated", 200;
    /// A container can't be started.
    LaunchFails = "launch-fails", 200;
    /// A container takes long to start.
    LaunchSlow = "launch-slow", 500;
    /// What a container left can't be removed at once.
    RemoveFails = "remove-fails", 500;
    /// A container ignores its stop signal.
    StopIgnored = "stop-ignored", 1_000;
    /// A container's health check fails for a while.
    Unhealthy = "unhealthy", 100;
}

impl Fault {
    /// Whether it strikes by itself; otherwise it strikes what is under way.
    #[must_use]
    pub fn is_timed(self) -> bool {
        self < Self::CommitLost
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A region as it is drawn.
#[derive(Clone, Debug)]
pub(crate) struct RegionPlan {
    pub(crate) hosts: u32,
    pub(crate) datacenters: u8,
    pub(crate) racks: u32,
    pub(crate) nodes: u8,
    pub(crate) shards: u16,
}

/// Everything that is drawn beforehand.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) regions: Vec<RegionPlan>,
    pub(crate) federation_nodes: u8,
    pub(crate) jobs: u32,
    pub(crate) tasks_max: u32,
    /// The usual time between two orders of people.
    pub(crate) person_gap: u64,
    /// Which faults there are, each with its time or its rate.
    pub(crate) faults: Vec<(Fault, u64)>,
    /// How long a message takes, at least and at most: within a node, over a link, to another region, to a store.
    pub(crate) local: (u64, u64),
    pub(crate) link: (u64, u64),
    pub(crate) wide: (u64, u64),
    pub(crate) store: (u64, u64),
    pub(crate) launch: (u64, u64),
    /// Changes in one transaction, at most.
    pub(crate) txn_writes_max: usize,
    /// Events that can wait for an actor before senders that don't wait are refused.
    pub(crate) inbox_max: usize,
    pub(crate) lease_ttl: u64,
    /// How far a host's clock may be off.
    pub(crate) host_skew: u64,
    /// How far a node's clock may be off.
    pub(crate) node_skew: u64,
    /// Whether machines check themselves after each step; otherwise every so many steps.
    pub(crate) check_every: u32,
    /// Whether accounts have quotas that may be reached.
    pub(crate) tight: bool,
}

/// What a caller asks of a world, beside its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As the seed draws it.
    Drawn,
    /// One region with so many hosts and no faults: to measure.
    Large {
        /// Hosts.
        hosts: u32,
    },
    /// As the seed draws it, without any fault.
    Calm,
}

impl Plan {
    pub(crate) fn draw(seed: u64, shape: Shape) -> Self {
        let mut dice = Dice::new(seed, 0);
        let dice = &mut dice;
        let regions = dice.between(1, 3);
        let regions: Vec<RegionPlan> = (0..regions)
            .map(|_| RegionPlan {
                hosts: u32::try_from(dice.between(2, 12)).unwrap_or(2),
                datacenters: u8::try_from(dice.between(1, 2)).unwrap_or(1),
                racks: u32::try_from(dice.between(1, 3)).unwrap_or(1),
                nodes: u8::try_from(dice.between(1, 2)).unwrap_or(1),
                shards: u16::try_from(dice.between(1, 4)).unwrap_or(1),
            })
            .collect();
        let mut faults = Vec::new();
        // A third of all seeds has few kinds of faults, but often; others have many.
        let share = [150, 500, 800][dice.index(3)];
        for &fault in Fault::ALL {
            let usual = fault.usual();
            let rate =
                if fault.is_timed() { dice.between(usual / 3, usual * 3) } else { dice.between(usual / 4, usual * 3) };
            if dice.chance(share) {
                faults.push((fault, rate.max(1)));
            }
        }
        let slow = dice.chance(200);
        let mut plan = Self {
            jobs: u32::try_from(dice.between(1, 8)).unwrap_or(1),
            tasks_max: u32::try_from(dice.between(1, 12)).unwrap_or(1),
            person_gap: dice.between(2_000, 15_000),
            regions,
            federation_nodes: u8::try_from(dice.between(1, 2)).unwrap_or(1),
            faults,
            local: (0, dice.between(0, 20)),
            link: (1, if slow { 2_000 } else { dice.between(2, 100) }),
            wide: (5, if slow { 3_000 } else { dice.between(10, 300) }),
            store: (1, if slow { 800 } else { dice.between(2, 60) }),
            launch: (20, dice.between(50, 5_000)),
            txn_writes_max: usize::try_from([1, 2, 8, 128][dice.index(4)]).unwrap_or(128),
            inbox_max: [16, 64, 8192][dice.index(3)],
            lease_ttl: dice.between(4_000, 15_000),
            host_skew: if dice.chance(500) { dice.between(0, 10_000) } else { 0 },
            node_skew: if dice.chance(500) { dice.between(0, 1_000) } else { 0 },
            check_every: 1,
            tight: dice.chance(300),
        };
        match shape {
            Shape::Drawn => {}
            Shape::Calm => plan.faults.clear(),
            Shape::Large { hosts } => plan.enlarge(hosts),
        }
        plan
    }

    fn enlarge(&mut self, hosts: u32) {
        self.regions =
            vec![RegionPlan { hosts, datacenters: 2, racks: hosts.div_ceil(40).max(1), nodes: 1, shards: 8 }];
        self.federation_nodes = 1;
        self.faults.clear();
        self.jobs = hosts.div_ceil(5);
        self.tasks_max = 40;
        self.person_gap = 200;
        self.inbox_max = 8192;
        self.txn_writes_max = 128;
        self.check_every = 50_000;
        self.local = (0, 2);
        self.link = (1, 20);
        self.wide = (5, 40);
        self.store = (1, 10);
        self.launch = (20, 500);
        self.lease_ttl = 10_000;
        self.tight = false;
    }

    /// The rate of a fault that strikes what is under way, in ten thousand.
    pub(crate) fn rate(&self, fault: Fault) -> u64 {
        self.faults.iter().find(|(kind, _)| *kind == fault).map_or(0, |(_, rate)| *rate)
    }
}
