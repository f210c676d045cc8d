//! The allocator beside a slow one that is obviously right: each grant must be the one that a look at every host
//! would have made, nothing may ever be overcommitted, and at rest nothing may wait that could be placed.

use polder_core::{
    allocator::{Allocator, Config, Effect, Event, account_and_above, task_amounts},
    machine::{Durable, Effects, Machine as _},
    message::{
        Charge, DrainOrder, HostCondition, HostHealth, HostNotice, PlacementAnswer, PlacementNote, PlacementRequest,
        RequestId, TaskShape, TaskToPlace,
    },
};
use polder_types::{
    Allotment, Amounts, Bytes, Capacity, Constraint, ConstraintOp, ContainerId, Cpu, DrainVersion, Epoch, HostId,
    HostInfo, JobId, OwnerEpoch, PortRange, PortSpec, Priority, Resources, ShardId, Spread, TaskId, Timestamp,
};
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

const SHARDS: u16 = 2;

#[derive(Clone, Debug)]
enum Op {
    /// A host joins, or its state changes.
    Host { host: u8, state: u8 },
    /// A shard asks for `tasks` more containers of a job; every third goes to a task that has one already.
    Ask { job: u8, tasks: u8, shape: u8, avoid: Option<u8> },
    /// Some grants are placed.
    Place { some: u8 },
    /// Some grants are withdrawn.
    Withdraw { some: u8 },
    /// Some containers are gone.
    Release { some: u8 },
    /// An account's allotment changes.
    Allot { account: u8, tasks: u8, cores: u8 },
    /// A shard is restored: its grants and requests are void.
    Restore { shard: u8 },
    /// Time passes.
    Pass { millis: u16 },
    /// The allocator is restored from what is placed.
    Restart,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..9_u8, 0..8_u8).prop_map(|(host, state)| Op::Host { host, state }),
        6 => (0..4_u8, 1..9_u8, 0..6_u8, proptest::option::weighted(0.2, 0..9_u8))
            .prop_map(|(job, tasks, shape, avoid)| Op::Ask { job, tasks, shape, avoid }),
        5 => any::<u8>().prop_map(|some| Op::Place { some }),
        1 => any::<u8>().prop_map(|some| Op::Withdraw { some }),
        3 => any::<u8>().prop_map(|some| Op::Release { some }),
        1 => (0..3_u8, 0..30_u8, 0..40_u8).prop_map(|(account, tasks, cores)| Op::Allot { account, tasks, cores }),
        1 => (0..2_u8).prop_map(|shard| Op::Restore { shard }),
        3 => (0..500_u16).prop_map(|millis| Op::Pass { millis }),
        1 => Just(Op::Restart),
    ]
}

/// Whether it is to be avoided, tasks in the datacenter, the rack, on the host, stranding.
type Key = (bool, u32, u32, u32, u64);

#[derive(Clone, Debug)]
struct Asked {
    job: JobId,
    shape: Arc<TaskShape>,
    tasks: BTreeMap<u32, TaskToPlace>,
}

/// The world as everybody but the allocator knows it.
struct World {
    now: Timestamp,
    allocator: Allocator,
    hosts: BTreeMap<HostId, HostNotice>,
    placed: BTreeMap<ContainerId, Charge>,
    granted: BTreeMap<ContainerId, (RequestId, Charge)>,
    asked: BTreeMap<RequestId, Asked>,
    allotments: BTreeMap<polder_types::AccountId, Allotment>,
    owners: BTreeMap<ShardId, OwnerEpoch>,
    epoch: u64,
    numbers: u64,
}

fn id<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    text.parse().unwrap()
}

fn notice(host: u8, state: u8) -> HostNotice {
    let name: HostId = id(&format!("h{host}"));
    let sizes = [(400, 4096), (800, 8192), (1600, 4096)];
    let (cpu, mib) = sizes[usize::from(host) % sizes.len()];
    let info = HostInfo {
        id: name.clone(),
        datacenter: id(&format!("dc{}", host / 5)),
        power_domain: id("power"),
        rack: id(&format!("r{}", host / 2)),
        capacity: Capacity {
            cpu: Cpu::from_centi_cores(cpu),
            memory: Bytes::from_mib(mib),
            ports: PortRange { first: 20000, last: 20003 },
        },
        labels: [(id("disk"), String::from(if host.is_multiple_of(2) { "ssd" } else { "hdd" }))].into(),
        address: String::from("127.0.0.1"),
        agent: String::from("test"),
    };
    let health = if state == 1 { HostHealth::Unknown { since: Timestamp(0) } } else { HostHealth::Ready };
    let drain = (state == 2).then_some(DrainOrder { version: DrainVersion(1), deadline: Timestamp(0) });
    let condition = HostCondition { host: name, health, cordoned: state == 3, drain };
    HostNotice { info: Arc::new(info), condition }
}

fn shape(number: u8) -> TaskShape {
    let resources = |cpu, mib| Resources { cpu: Cpu::from_centi_cores(cpu), memory: Bytes::from_mib(mib), pids: 10 };
    let port = |name: &str, fixed| PortSpec { name: id(name), fixed };
    let plain = TaskShape {
        resources: resources(100, 512),
        ports: Vec::new(),
        constraints: Vec::new(),
        spread: Spread::default(),
        priority: Priority(50),
    };
    match number {
        0 => plain,
        1 => TaskShape { resources: resources(300, 256), priority: Priority(80), ..plain },
        2 => TaskShape { ports: vec![port("http", None), port("admin", None)], ..plain },
        3 => TaskShape { ports: vec![port("http", Some(8080)), port("admin", None)], ..plain },
        4 => TaskShape {
            constraints: vec![
                Constraint { label: id("disk"), op: ConstraintOp::In, values: vec![String::from("ssd")] },
                Constraint { label: id("rack"), op: ConstraintOp::NotIn, values: vec![String::from("r1")] },
            ],
            ..plain
        },
        _ => TaskShape {
            spread: Spread { max_per_host: Some(1), max_per_rack: Some(2), max_per_datacenter: Some(3) },
            ..plain
        },
    }
}

fn job(number: u8) -> JobId {
    id(["shop/checkout/web", "shop/search", "ops/agent", "shop/checkout/cron"][usize::from(number) % 4])
}

impl World {
    fn new() -> Self {
        let (allocator, effects) = Allocator::restore(Config::new(OwnerEpoch(1)), [], [], Timestamp(0));
        assert_eq!(effects.split().0.len(), 1);
        Self {
            now: Timestamp(1000),
            allocator,
            hosts: BTreeMap::new(),
            placed: BTreeMap::new(),
            granted: BTreeMap::new(),
            asked: BTreeMap::new(),
            allotments: BTreeMap::new(),
            owners: BTreeMap::new(),
            epoch: 1,
            numbers: 0,
        }
    }

    fn step(&mut self, event: Event) {
        let effects = self.allocator.step(self.now, event);
        self.carry_out(effects);
    }

    /// Lets time pass and wakes the allocator whenever it wants to be.
    fn pass(&mut self, millis: u64) {
        let end = Timestamp(self.now.0 + millis);
        while let Some(at) = self.allocator.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            let effects = self.allocator.wake(self.now);
            self.carry_out(effects);
        }
        self.now = end;
    }

    fn carry_out(&mut self, effects: Effects<Allocator>) {
        self.allocator.check().unwrap();
        let (now, persist, after) = effects.split();
        assert!(persist.is_empty() && after.open(Durable::committed()).is_empty());
        for effect in now {
            if let Effect::Answer { answer, .. } = effect {
                self.answer(answer);
            }
        }
    }

    fn answer(&mut self, answer: PlacementAnswer) {
        match answer {
            PlacementAnswer::Granted { request, allocator, grants } => {
                assert_eq!(allocator, OwnerEpoch(self.epoch));
                for grant in grants {
                    let (job, shape, task) = {
                        let Some(asked) = self.asked.get(&request) else { panic!("{request:?} was not asked") };
                        let task = TaskId { job: asked.job.clone(), index: grant.index };
                        (asked.job.clone(), Arc::clone(&asked.shape), task)
                    };
                    let container = ContainerId { task, epoch: grant.epoch };
                    if self.granted.contains_key(&container) {
                        continue; // repeated
                    }
                    let asked = self.asked.get_mut(&request).unwrap();
                    let task = asked.tasks.remove(&grant.index).expect("asked for");
                    assert_eq!(task.epoch, grant.epoch);
                    if let Some(why) = self.over_quota(&container, &shape) {
                        panic!("granted {container} above quota: {why}");
                    }
                    let best = self.best(&job, &shape, &task);
                    assert_eq!(Some(&grant.host), best.as_ref(), "for {container}: {}", grant.why);
                    assert_eq!(grant.ports.len(), shape.ports.len());
                    for (binding, spec) in grant.ports.iter().zip(&shape.ports) {
                        assert_eq!(binding.name, spec.name);
                        let allowed = match spec.fixed {
                            Some(port) => port == binding.port,
                            None => (20000..=20003).contains(&binding.port),
                        };
                        assert!(allowed, "{binding:?} for {spec:?}");
                        assert!(!self.ports(&grant.host).contains(&binding.port), "port {} twice", binding.port);
                    }
                    let charge = Charge {
                        container: container.clone(),
                        host: grant.host,
                        resources: shape.resources,
                        ports: grant.ports,
                    };
                    self.granted.insert(container, (request, charge));
                }
            }
            PlacementAnswer::Waiting { request, tasks, report } => {
                let asked = &self.asked[&request];
                for index in tasks {
                    let task = &asked.tasks[&index];
                    let id = TaskId { job: asked.job.clone(), index };
                    let container = ContainerId { task: id, epoch: task.epoch };
                    let quota = self.over_quota(&container, &asked.shape).is_some();
                    assert_eq!(quota, report.quota.is_some(), "{container}: {report:?}");
                    if !quota {
                        assert_eq!(self.best(&asked.job, &asked.shape, task), None, "{container}: {report:?}");
                        let rejected: u32 = report.rejected.values().sum();
                        assert_eq!((report.hosts, rejected), (self.hosts.len() as u32, self.hosts.len() as u32));
                    }
                }
            }
            PlacementAnswer::Started { .. } => {}
        }
    }

    fn charges(&self) -> impl Iterator<Item = &Charge> {
        self.placed.values().chain(self.granted.values().map(|(_, charge)| charge))
    }

    fn ports(&self, host: &HostId) -> Vec<u16> {
        self.charges().filter(|c| c.host == *host).flat_map(|c| c.ports.iter().map(|b| b.port)).collect()
    }

    fn used(&self, host: &HostId) -> (u64, u64) {
        let on = self.charges().filter(|charge| charge.host == *host);
        on.fold((0, 0), |(cpu, memory), charge| {
            (cpu + u64::from(charge.resources.cpu.centi_cores()), memory + charge.resources.memory.get())
        })
    }

    /// The host that a look at each finds, by the order of the score.
    fn best(&self, job: &JobId, shape: &TaskShape, task: &TaskToPlace) -> Option<HostId> {
        let others: Vec<(&Charge, Option<&HostInfo>)> = self
            .charges()
            .filter(|charge| charge.container.task.job == *job && charge.container.task.index != task.index)
            .map(|charge| (charge, self.hosts.get(&charge.host).map(|notice| &*notice.info)))
            .collect();
        let count = |pick: &dyn Fn(&Charge, Option<&HostInfo>) -> bool| {
            let picked = others.iter().filter(|(charge, info)| pick(charge, *info));
            picked.map(|(charge, _)| charge.container.task.index).collect::<BTreeSet<u32>>().len() as u32
        };
        let mut best: Option<(Key, HostId)> = None;
        for (host, notice) in &self.hosts {
            let info = &*notice.info;
            let in_datacenter = count(&|_, at| at.is_some_and(|at| at.datacenter == info.datacenter));
            let in_rack = count(&|_, at| at.is_some_and(|at| at.datacenter == info.datacenter && at.rack == info.rack));
            let on_host = count(&|charge, _| charge.host == *host);
            let spread = &shape.spread;
            let full = |max: Option<u32>, tasks| max.is_some_and(|max| tasks >= max);
            let (cpu, memory) = self.used(host);
            let cpu = cpu + u64::from(shape.resources.cpu.centi_cores());
            let memory = memory + shape.resources.memory.get();
            let capacity = (u64::from(info.capacity.cpu.centi_cores()), info.capacity.memory.get());
            let ports = self.ports(host);
            let fixed: Vec<u16> = shape.ports.iter().filter_map(|port| port.fixed).collect();
            let free = (20000..=20003).filter(|port| !ports.contains(port) && !fixed.contains(port)).count();
            let constraints = shape.constraints.iter().all(|constraint| {
                let value = match constraint.label.as_str() {
                    "rack" => info.rack.as_str(),
                    _ => info.labels[&constraint.label].as_str(),
                };
                (constraint.op == ConstraintOp::In) == constraint.values.iter().any(|v| v == value)
            });
            if notice.condition.closed().is_some()
                || !constraints
                || full(spread.max_per_datacenter, in_datacenter)
                || full(spread.max_per_rack, in_rack)
                || full(spread.max_per_host, on_host)
                || cpu > capacity.0
                || memory > capacity.1
                || fixed.iter().any(|port| ports.contains(port))
                || free < shape.ports.len() - fixed.len()
            {
                continue;
            }
            let left = |used: u64, capacity: u64| {
                u64::try_from(u128::from(capacity - used) * 1_000_000 / u128::from(capacity)).unwrap()
            };
            let (cpu, memory) = (left(cpu, capacity.0), left(memory, capacity.1));
            let stranding = cpu + memory + 3 * cpu.abs_diff(memory);
            let key = ((task.avoid == Some(host.clone()), in_datacenter, in_rack, on_host, stranding), host.clone());
            if best.as_ref().is_none_or(|best| key < *best) {
                best = Some(key);
            }
        }
        best.map(|(_, host)| host)
    }

    fn account(&self, account: &polder_types::AccountId, with: Option<(&TaskId, Resources)>) -> Amounts {
        let mut tasks: BTreeMap<TaskId, Vec<Resources>> = BTreeMap::new();
        let below = |task: &TaskId| account_and_above(&task.job.account).contains(account);
        for charge in self.charges().filter(|charge| below(&charge.container.task)) {
            tasks.entry(charge.container.task.clone()).or_default().push(charge.resources);
        }
        if let Some((task, resources)) = with {
            tasks.entry(task.clone()).or_default().push(resources);
        }
        let sums = tasks.values().filter_map(|containers| task_amounts(containers));
        sums.fold(Amounts::default(), Amounts::plus)
    }

    /// Says which account one more container would bring above its allotment in something that it adds to.
    fn over_quota(&self, container: &ContainerId, shape: &TaskShape) -> Option<String> {
        account_and_above(&container.task.job.account).into_iter().find_map(|account| {
            let limit = self.allotments.get(&account)?.limit;
            let before = self.account(&account, None);
            let after = self.account(&account, Some((&container.task, shape.resources)));
            let over = (after.cpu > before.cpu && after.cpu > limit.cpu)
                || (after.memory > before.memory && after.memory > limit.memory)
                || (after.tasks > before.tasks && after.tasks > limit.tasks);
            over.then(|| format!("{account}: {after:?} of {limit:?}"))
        })
    }

    fn owner(&self, shard: ShardId) -> OwnerEpoch {
        self.owners.get(&shard).copied().unwrap_or(OwnerEpoch(1))
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Host { host, state } => {
                let notice = notice(host, state);
                if state == 4 {
                    let gone: HostId = notice.info.id.clone();
                    self.hosts.remove(&gone);
                    self.step(Event::HostForgotten(gone));
                } else {
                    self.hosts.insert(notice.info.id.clone(), notice.clone());
                    self.step(Event::Host(notice));
                }
            }
            Op::Ask { job: number, tasks, shape: shape_number, avoid } => {
                let job = job(number);
                let shard = ShardId::of(&job, SHARDS);
                self.numbers += 1;
                let request = RequestId { shard, owner: self.owner(shard), number: self.numbers };
                let first = self.numbers * 100;
                let task = |at: u8| {
                    // Every third is a second container of a task that has one.
                    let again = self.placed.keys().filter(|c| c.task.job == job).nth(usize::from(at));
                    let index = match again {
                        Some(container) if at % 3 == 2 => container.task.index,
                        _ => first as u32 + u32::from(at),
                    };
                    TaskToPlace { index, epoch: Epoch(self.numbers), avoid: avoid.map(|host| id(&format!("h{host}"))) }
                };
                let tasks: Vec<TaskToPlace> = (0..tasks).map(task).collect();
                let shape = Arc::new(shape(shape_number));
                let by_index = tasks.iter().map(|task| (task.index, task.clone())).collect();
                self.asked.insert(request, Asked { job: job.clone(), shape: Arc::clone(&shape), tasks: by_index });
                let request = PlacementRequest { id: request, job, shape, tasks };
                self.step(Event::Note(PlacementNote::Request(request)));
            }
            Op::Place { some } => {
                let some: Vec<ContainerId> = self
                    .granted
                    .keys()
                    .enumerate()
                    .filter(|(at, _)| at % 3 != usize::from(some % 3))
                    .map(|(_, c)| c.clone())
                    .collect();
                for container in some {
                    let (request, charge) = self.granted.remove(&container).unwrap();
                    self.placed.insert(container, charge.clone());
                    self.step(Event::Note(PlacementNote::Placed { request, charges: vec![charge] }));
                }
            }
            Op::Withdraw { some } => {
                let Some(request) = self.asked.keys().nth(usize::from(some) % self.asked.len().max(1)).copied() else {
                    return;
                };
                self.asked.remove(&request);
                self.granted.retain(|_, (of, _)| *of != request);
                self.step(Event::Note(PlacementNote::Withdraw { request, tasks: Vec::new() }));
            }
            Op::Release { some } => {
                let gone: Vec<ContainerId> = self
                    .placed
                    .keys()
                    .enumerate()
                    .filter(|(at, _)| at % 4 == usize::from(some % 4))
                    .map(|(_, c)| c.clone())
                    .collect();
                for container in &gone {
                    self.placed.remove(container);
                }
                self.step(Event::Note(PlacementNote::Released { containers: gone }));
            }
            Op::Allot { account, tasks, cores } => {
                let account: polder_types::AccountId = id(["shop", "shop/checkout", "ops"][usize::from(account)]);
                let version = self.allotments.get(&account).map_or(0, |allotment| allotment.version) + 1;
                let limit = Amounts {
                    cpu: Cpu::from_centi_cores(u32::from(cores) * 100),
                    memory: Bytes::from_mib(16 * 1024),
                    tasks: u32::from(tasks),
                };
                let allotment = Allotment { account: account.clone(), version, limit };
                self.allotments.insert(account, allotment.clone());
                self.step(Event::AllotmentChanged(allotment));
            }
            Op::Restore { shard } => {
                let shard = ShardId(u16::from(shard));
                let owner = self.owner(shard).next();
                self.owners.insert(shard, owner);
                self.asked.retain(|request, _| request.shard != shard);
                self.granted.retain(|_, (request, _)| request.shard != shard);
                let of = |c: &&Charge| ShardId::of(&c.container.task.job, SHARDS) == shard;
                let charges = self.placed.values().filter(of).cloned().collect();
                self.step(Event::Note(PlacementNote::Restored { shard, owner, charges }));
            }
            Op::Pass { millis } => self.pass(u64::from(millis)),
            Op::Restart => self.restart(),
        }
    }

    /// A new allocator: every grant that is not placed is void, and shards ask again for what they want.
    fn restart(&mut self) {
        self.epoch += 1;
        let charges: Vec<(ShardId, Charge)> =
            self.placed.values().map(|c| (ShardId::of(&c.container.task.job, SHARDS), c.clone())).collect();
        let config = Config::new(OwnerEpoch(self.epoch));
        let (allocator, _) = Allocator::restore(config, charges, self.allotments.values().cloned(), self.now);
        self.allocator = allocator;
        self.allocator.check().unwrap();
        let granted = std::mem::take(&mut self.granted);
        for (container, (request, _)) in granted {
            let task = TaskToPlace { index: container.task.index, epoch: container.epoch, avoid: None };
            self.asked.get_mut(&request).unwrap().tasks.insert(container.task.index, task);
        }
        for notice in self.hosts.clone().into_values() {
            self.step(Event::Host(notice));
        }
        for (request, asked) in self.asked.clone() {
            let Asked { job, shape, tasks } = asked;
            let request = PlacementRequest { id: request, job, shape, tasks: tasks.into_values().collect() };
            self.step(Event::Note(PlacementNote::Request(request)));
        }
        assert!(self.granted.is_empty(), "granted before the hosts were told of");
        self.pass(1000);
    }

    fn check_rooms(&self) {
        for (host, notice) in &self.hosts {
            let (cpu, memory) = self.used(host);
            let capacity = &notice.info.capacity;
            assert!(cpu <= u64::from(capacity.cpu.centi_cores()), "{host} is overcommitted");
            assert!(memory <= capacity.memory.get(), "{host} is overcommitted");
            let usage = self.allocator.host_usage(host);
            assert_eq!((u64::from(usage.cpu.centi_cores()), usage.memory.get()), (cpu, memory));
        }
        for account in ["shop", "shop/checkout", "ops"] {
            let account = id(account);
            assert_eq!(self.allocator.account_usage(&account).used, self.account(&account, None));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_grant_is_the_one_that_a_look_at_each_host_finds(ops in proptest::collection::vec(op(), 1..60)) {
        let mut world = World::new();
        for op in ops {
            world.apply(op);
            world.check_rooms();
        }
        // At rest nothing waits that could be placed.
        world.pass(1000);
        for asked in world.asked.values() {
            for task in asked.tasks.values() {
                let id = TaskId { job: asked.job.clone(), index: task.index };
                let container = ContainerId { task: id, epoch: task.epoch };
                let fits = world.best(&asked.job, &asked.shape, task);
                let quota = world.over_quota(&container, &asked.shape);
                prop_assert!(fits.is_none() || quota.is_some(), "{} waits, but {:?} would do", container, fits);
            }
        }
    }
}
