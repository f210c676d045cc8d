//! The allocator, case by case.

use polder_core::{
    allocator::{Allocator, Config, Effect, Event},
    machine::{Effects, Machine as _},
    message::{
        Charge, Grant, HostCondition, HostHealth, HostNotice, Notice, PlacementAnswer, PlacementNote, PlacementReport,
        PlacementRequest, RejectReason, RequestId, TaskShape, TaskToPlace,
    },
};
use polder_types::{
    AccountId, Allotment, Amounts, Bytes, Capacity, ContainerId, Cpu, Epoch, HostId, HostInfo, JobId, OwnerEpoch,
    PortRange, PortSpec, Priority, Resources, ShardId, Spread, TaskId, Timestamp,
};
use std::{collections::BTreeMap, sync::Arc};

const SHARD: ShardId = ShardId(3);

fn id<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    text.parse().unwrap()
}

fn notice(host: &str, rack: &str, cores: u32) -> HostNotice {
    let info = HostInfo {
        id: id(host),
        datacenter: id("dc"),
        power_domain: id("p"),
        rack: id(rack),
        capacity: Capacity {
            cpu: Cpu::from_centi_cores(cores * 100),
            memory: Bytes::from_mib(cores * 1024),
            ports: PortRange { first: 20000, last: 20009 },
        },
        labels: BTreeMap::new(),
        address: String::new(),
        agent: String::new(),
    };
    let condition = HostCondition { host: id(host), health: HostHealth::Ready, cordoned: false, drain: None };
    HostNotice { info: Arc::new(info), condition }
}

fn shape(cores: u32) -> TaskShape {
    TaskShape {
        resources: Resources {
            cpu: Cpu::from_centi_cores(cores * 100),
            memory: Bytes::from_mib(cores * 1024),
            pids: 10,
        },
        ports: Vec::new(),
        constraints: Vec::new(),
        spread: Spread::default(),
        priority: Priority(50),
    }
}

fn request(number: u64) -> RequestId {
    RequestId { shard: SHARD, owner: OwnerEpoch(1), number }
}

fn ask(number: u64, job: &str, tasks: std::ops::Range<u32>, shape: TaskShape) -> Event {
    let task = |index| TaskToPlace { index, epoch: Epoch(1), avoid: None };
    let (job, tasks) = (id(job), tasks.map(task).collect());
    Event::Note(PlacementNote::Request(PlacementRequest { id: request(number), job, shape: Arc::new(shape), tasks }))
}

fn allot(account: &str, version: u64, tasks: u32) -> Event {
    let limit = Amounts { cpu: Cpu::from_centi_cores(10_000), memory: Bytes::from_mib(1 << 20), tasks };
    Event::AllotmentChanged(Allotment { account: id(account), version, limit })
}

struct World {
    now: Timestamp,
    allocator: Allocator,
    grants: Vec<Grant>,
    waiting: Vec<(RequestId, Vec<u32>, PlacementReport)>,
    notices: Vec<Notice>,
}

impl World {
    fn new(hosts: &[HostNotice]) -> Self {
        let (allocator, _) = Allocator::restore(Config::new(OwnerEpoch(7)), [], [], Timestamp(0));
        let mut world = Self { now: Timestamp(10_000), allocator, grants: vec![], waiting: vec![], notices: vec![] };
        for host in hosts {
            world.step(Event::Host(host.clone()));
        }
        world
    }

    fn carry_out(&mut self, effects: Effects<Allocator>) {
        self.allocator.check().unwrap();
        for effect in effects.split().0 {
            match effect {
                Effect::Answer { shard, answer } => {
                    assert_eq!(shard, SHARD);
                    match answer {
                        PlacementAnswer::Granted { grants, .. } => self.grants.extend(grants),
                        PlacementAnswer::Waiting { request, tasks, report } => {
                            self.waiting.push((request, tasks, report));
                        }
                        PlacementAnswer::Started { .. } => {}
                    }
                }
                Effect::Notice(notice) => self.notices.push(notice),
                Effect::Broadcast(_) => {}
            }
        }
    }

    fn step(&mut self, event: Event) {
        let effects = self.allocator.step(self.now, event);
        self.carry_out(effects);
    }

    fn pass(&mut self, millis: u64) {
        let end = Timestamp(self.now.0 + millis);
        while let Some(at) = self.allocator.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            let effects = self.allocator.wake(self.now);
            self.carry_out(effects);
        }
        self.now = end;
    }

    fn take_grants(&mut self) -> Vec<(u32, String)> {
        self.grants.drain(..).map(|grant| (grant.index, grant.host.to_string())).collect()
    }

    fn place(&mut self, number: u64, job: &str, index: u32, host: &str, cores: u32) {
        let charge = charge(job, index, 1, host, cores);
        self.step(Event::Note(PlacementNote::Placed { request: request(number), charges: vec![charge] }));
    }

    fn used_tasks(&self, account: &str) -> u32 {
        self.allocator.account_usage(&id::<AccountId>(account)).used.tasks
    }
}

fn charge(job: &str, index: u32, epoch: u64, host: &str, cores: u32) -> Charge {
    let task = TaskId { job: id(job), index };
    let container = ContainerId { task, epoch: Epoch(epoch) };
    Charge { container, host: id(host), resources: shape(cores).resources, ports: Vec::new() }
}

#[test]
fn spreads_over_racks_before_it_packs_and_says_why() {
    let mut world = World::new(&[notice("a1", "a", 4), notice("a2", "a", 4), notice("b1", "b", 8)]);
    world.step(ask(1, "shop/web", 0..3, shape(1)));
    let why: Vec<&str> = world.grants.iter().map(|grant| grant.why.as_str()).collect();
    assert_eq!(
        why,
        [
            "as good as a2, and first by name",
            "fewest tasks of the job in its rack: 0, and 1 for a2, the next best",
            "fewest tasks of the job on it: 0, and 1 for a1, the next best",
        ]
    );
    assert_eq!(world.take_grants(), [(0, "a1".into()), (1, "b1".into()), (2, "a2".into())]);
    // Another job: the fuller host of an equal rack.
    world.step(ask(2, "shop/db", 0..1, shape(3)));
    assert_eq!(world.take_grants(), [(0, "a1".into())]);
    world.step(ask(3, "shop/cache", 0..1, shape(1)));
    assert!(world.grants[0].why.starts_with("leaves least of the host unused or out of balance"));
    assert_eq!(world.take_grants(), [(0, "a2".into())]);
}

#[test]
fn who_waits_is_told_why_and_gets_what_becomes_free() {
    let mut closed = notice("b1", "b", 8);
    closed.condition.cordoned = true;
    let mut world = World::new(&[notice("a1", "a", 2), closed]);
    world.step(ask(1, "shop/web", 0..3, shape(1)));
    assert_eq!(world.take_grants().len(), 2);
    let (_, tasks, report) = world.waiting.pop().unwrap();
    assert_eq!((tasks, report.hosts, report.quota), (vec![2], 2, None));
    assert_eq!(report.rejected, [(RejectReason::Cordoned, 1), (RejectReason::Cpu, 1)].into());
    let view = world.allocator.waiting().next().unwrap();
    assert_eq!((view.tasks, view.report.unwrap().hosts), (vec![2], 2));

    world.place(1, "shop/web", 0, "a1", 1);
    let gone = charge("shop/web", 0, 1, "a1", 1).container;
    world.step(Event::Note(PlacementNote::Released { containers: vec![gone] }));
    world.pass(100);
    assert_eq!(world.take_grants(), [(2, "a1".into())]);
    assert_eq!(world.allocator.waiting().count(), 0);
}

#[test]
fn the_higher_priority_goes_first_then_the_older() {
    let mut world = World::new(&[notice("a1", "a", 1)]);
    world.step(ask(1, "shop/fill", 0..1, shape(1)));
    world.step(ask(2, "shop/old", 0..1, shape(1)));
    world.step(ask(3, "shop/new", 0..1, shape(1)));
    world.step(ask(4, "shop/high", 0..1, TaskShape { priority: Priority(60), ..shape(1) }));
    world.grants.clear();
    let order: Vec<JobId> = (2..5)
        .map(|number| {
            world.step(Event::Host(notice(&format!("x{number}"), "a", 1)));
            world.pass(200);
            let host: HostId = id(&format!("x{number}"));
            let granted = world.grants.pop().unwrap();
            assert_eq!(granted.host, host);
            // Whose it is shows in who waits no more.
            let still: Vec<JobId> = world.allocator.waiting().map(|view| view.job).collect();
            ["shop/high", "shop/old", "shop/new"]
                .into_iter()
                .map(id::<JobId>)
                .rfind(|job| !still.contains(job))
                .unwrap()
        })
        .collect();
    assert_eq!(order, [id("shop/high"), id("shop/old"), id::<JobId>("shop/new")]);
}

#[test]
fn quota_is_counted_for_each_account_on_the_way_up_and_says_by_how_much_it_lacks() {
    let mut world = World::new(&[notice("a1", "a", 64)]);
    world.step(allot("shop", 1, 3));
    world.step(allot("shop/checkout", 1, 2));
    world.step(ask(1, "shop/checkout/web", 0..3, shape(1)));
    assert_eq!(world.take_grants().len(), 2);
    let shortfall = world.waiting.pop().unwrap().2.quota.unwrap();
    assert_eq!(shortfall.account, id::<AccountId>("shop/checkout"));
    assert_eq!((shortfall.limit.tasks, shortfall.used.tasks, shortfall.asked.tasks), (2, 2, 1));

    world.step(ask(2, "shop/search", 0..2, shape(1)));
    assert_eq!(world.take_grants().len(), 1);
    assert_eq!(world.waiting.pop().unwrap().2.quota.unwrap().account, id::<AccountId>("shop"));
    // Others are not limited, and more allotment lets those in who wait.
    world.step(ask(3, "ops/agent", 0..5, shape(1)));
    assert_eq!(world.take_grants().len(), 5);
    world.step(allot("shop", 2, 10));
    world.pass(200);
    assert_eq!(world.take_grants(), [(1, "a1".into())]);
    assert_eq!((world.used_tasks("shop"), world.used_tasks("shop/checkout")), (4, 2));
    // An older version changes nothing.
    world.step(allot("shop", 1, 99));
    assert_eq!(world.allocator.account_usage(&id("shop")).limit.unwrap().tasks, 10);
}

#[test]
fn a_task_with_two_containers_counts_once_and_is_never_refused_its_own_replacement() {
    let mut world = World::new(&[notice("a1", "a", 8), notice("b1", "b", 8)]);
    world.step(allot("shop", 1, 2));
    world.step(ask(1, "shop/web", 0..2, shape(1)));
    for (index, host) in world.take_grants() {
        world.place(1, "shop/web", index, &host, 1);
    }
    world.step(allot("shop", 2, 1));
    let task = TaskToPlace { index: 0, epoch: Epoch(2), avoid: Some(id("a1")) };
    let spread = Spread { max_per_rack: Some(1), ..Spread::default() };
    let request = PlacementRequest {
        id: request(2),
        job: id("shop/web"),
        shape: Arc::new(TaskShape { spread, ..shape(1) }),
        tasks: vec![task],
    };
    world.step(Event::Note(PlacementNote::Request(request)));
    // Rack b has a sibling, rack a only the task's own container; a1 is avoided, but nothing else will do.
    assert_eq!(world.take_grants(), [(0, "a1".into())]);
    assert_eq!(world.used_tasks("shop"), 2);
    world.step(ask(3, "shop/web", 5..6, shape(1)));
    assert!(world.take_grants().is_empty());
    assert_eq!(world.waiting.pop().unwrap().2.quota.unwrap().used.tasks, 2);
}

#[test]
fn a_grant_holds_is_repeated_and_ends_with_a_withdrawal() {
    let mut world = World::new(&[notice("a1", "a", 1)]);
    world.step(ask(1, "shop/web", 0..1, shape(1)));
    assert_eq!(world.take_grants().len(), 1);
    world.pass(60_000);
    assert_eq!(world.take_grants().len(), 2);
    assert_eq!(world.notices.len(), 1);
    assert!(world.notices[0].message.contains("has not placed it yet; it is held"));
    // Whoever asks again gets the same answer.
    world.step(ask(1, "shop/web", 0..1, shape(1)));
    assert_eq!(world.take_grants(), [(0, "a1".into())]);
    world.step(ask(2, "shop/db", 0..1, shape(1)));
    assert!(world.take_grants().is_empty());
    world.step(Event::Note(PlacementNote::Withdraw { request: request(1), tasks: Vec::new() }));
    world.pass(200);
    assert_eq!(world.take_grants(), [(0, "a1".into())]);
    // What is placed is not withdrawn.
    world.place(2, "shop/db", 0, "a1", 1);
    world.step(Event::Note(PlacementNote::Withdraw { request: request(2), tasks: Vec::new() }));
    assert_eq!(world.allocator.host_usage(&id("a1")).containers, 1);
    assert_eq!(world.allocator.unplaced(), 0);
}

#[test]
fn a_restored_shard_replaces_all_it_held_and_older_owners_are_not_heard() {
    let mut world = World::new(&[notice("a1", "a", 8)]);
    world.step(ask(1, "shop/web", 0..2, shape(1)));
    world.place(1, "shop/web", 0, "a1", 1);
    world.grants.clear();
    let restored = |owner| {
        let charges = vec![charge("shop/web", 9, 4, "a1", 2)];
        Event::Note(PlacementNote::Restored { shard: SHARD, owner: OwnerEpoch(owner), charges })
    };
    world.step(restored(2));
    assert_eq!(world.allocator.host_usage(&id("a1")).cpu, Cpu::from_centi_cores(200));
    world.step(ask(5, "shop/web", 0..2, shape(1)));
    world.place(1, "shop/web", 1, "a1", 1);
    assert!(world.take_grants().is_empty());
    assert_eq!(world.allocator.host_usage(&id("a1")).containers, 1);
    world.step(restored(1));
    assert_eq!(world.allocator.host_usage(&id("a1")).containers, 1);
}

#[test]
fn a_forgotten_host_keeps_its_charges_and_gets_nothing() {
    let mut world = World::new(&[notice("a1", "a", 8), notice("b1", "b", 8)]);
    world.place(1, "shop/web", 0, "a1", 1);
    world.step(Event::HostForgotten(id("a1")));
    world.step(Event::HostForgotten(id("b1")));
    assert_eq!(world.allocator.host_usage(&id("a1")).containers, 1);
    assert_eq!(world.allocator.host_usages().count(), 1);
    world.step(ask(2, "shop/web", 1..2, shape(1)));
    assert_eq!(world.waiting.pop().unwrap().2, PlacementReport::default());
    let gone = charge("shop/web", 0, 1, "a1", 1).container;
    world.step(Event::Note(PlacementNote::Released { containers: vec![gone] }));
    assert_eq!(world.allocator.host_usages().count(), 0);
    assert_eq!(world.used_tasks("shop"), 0);
}

#[test]
fn nothing_is_granted_before_the_hosts_were_told_of() {
    let (allocator, _) = Allocator::restore(Config::new(OwnerEpoch(1)), [], [], Timestamp(1000));
    let mut world = World::new(&[]);
    (world.allocator, world.now) = (allocator, Timestamp(1000));
    world.step(Event::Host(notice("a1", "a", 8)));
    world.step(ask(1, "shop/web", 0..2, shape(1)));
    assert!(world.grants.is_empty());
    world.step(Event::Host(notice("b1", "b", 8)));
    world.pass(500);
    assert_eq!(world.take_grants(), [(0, "a1".into()), (1, "b1".into())]);
}

#[test]
fn a_dry_run_is_what_happens_and_changes_nothing() {
    let mut world = World::new(&[notice("a1", "a", 2), notice("b1", "b", 2)]);
    let shape = TaskShape {
        ports: vec![PortSpec { name: id("http"), fixed: Some(80) }, PortSpec { name: id("admin"), fixed: None }],
        ..shape(1)
    };
    let tasks: Vec<TaskToPlace> = (0..3).map(|index| TaskToPlace { index, epoch: Epoch(1), avoid: None }).collect();
    let plan = world.allocator.plan(&id("shop/web"), &shape, &tasks);
    assert_eq!(plan, world.allocator.plan(&id("shop/web"), &shape, &tasks));
    world.step(ask(1, "shop/web", 0..3, shape.clone()));
    assert_eq!(plan.grants, world.grants);
    let (report, waiting) = &plan.waiting[0];
    assert_eq!((waiting, report), (&vec![2], &world.waiting[0].2));
    assert_eq!(report.rejected, [(RejectReason::Ports, 2)].into());
    let explanation = world.allocator.explain(&id("shop/db"), &TaskShape { ports: Vec::new(), ..shape });
    assert_eq!(explanation.choices.iter().map(|choice| choice.host.as_str()).collect::<Vec<_>>(), ["a1", "b1"]);
    assert_eq!(explanation.choices[1].why, "the only host that can take it");
}

#[test]
fn one_step_takes_only_so_much_work_and_the_rest_follows_at_once() {
    let hosts: Vec<HostNotice> =
        (0..2000).map(|host| notice(&format!("h{host}"), &format!("r{}", host / 40), 8)).collect();
    let (allocator, _) = Allocator::restore(Config::new(OwnerEpoch(7)), [], [], Timestamp(0));
    let mut world = World { now: Timestamp(10_000), allocator, grants: vec![], waiting: vec![], notices: vec![] };
    for host in hosts {
        drop(world.allocator.step(world.now, Event::Host(host)).split());
    }
    // Each of these looks at every host by itself.
    let task = |index| TaskToPlace { index, epoch: Epoch(1), avoid: Some(id("h7")) };
    let (tasks, shape) = ((0..1000).map(task).collect(), Arc::new(shape(1)));
    let request = PlacementRequest { id: request(1), job: id("shop/web"), shape, tasks };
    world.step(Event::Note(PlacementNote::Request(request)));
    let first = world.grants.len();
    assert!(first > 50 && first < 500, "{first}");
    assert!(world.allocator.next_deadline().is_some_and(|at| at <= world.now));
    world.pass(0);
    let granted: std::collections::BTreeSet<u32> = world.grants.iter().map(|grant| grant.index).collect();
    assert_eq!((world.grants.len(), granted.len()), (1000, 1000));
}
