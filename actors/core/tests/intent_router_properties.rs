//! The intent router over links that lose, delay and repeat, with regions that fall silent and a router that is
//! restored: a slot never runs in two regions at once, and in the end every slot is where it belongs.

use polder_core::{
    intent_router::{Answer, Delta, Effect, Event, IntentRecord, IntentRouter, Problem},
    machine::{Durable, Effects, Machine as _},
    message::{ReplyId, SliceStatus},
};
use polder_types::{
    Bytes, Cpu, Entrypoint, JobId, JobKind, JobSpec, Millis, Priority, RegionId, RegionSplit, Regions, Resources,
    RestartPolicy, RestartSpec, Slice, SliceVersion, Slots, Spread, StopSignal, StopSpec, Timestamp, UpdateSpec,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

fn id<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    text.parse().unwrap()
}

fn spec(job: &str, tasks: u32, image: &str, names: &[&str], split: RegionSplit) -> JobSpec {
    JobSpec {
        id: id(job),
        kind: JobKind::Service,
        tasks,
        priority: Priority::default(),
        image: String::from(image),
        entrypoints: BTreeMap::new(),
        entrypoint: None,
        process: Entrypoint::default(),
        resources: Resources { cpu: Cpu::from_centi_cores(10), memory: Bytes::from_mib(16), pids: 10 },
        ports: Vec::new(),
        constraints: Vec::new(),
        spread: Spread::default(),
        update: UpdateSpec { max_unavailable: 1, min_healthy: Millis(0) },
        stop: StopSpec { signal: StopSignal::Sigterm, grace: Millis(1000) },
        restart: RestartSpec {
            policy: RestartPolicy::Always,
            backoff: Millis(100),
            backoff_max: Millis(1000),
            reset_after: Millis(1000),
            max_failures: None,
        },
        replace_after: Millis(1000),
        health: None,
        regions: Regions { names: names.iter().map(|name| id(name)).collect(), split },
    }
}

fn counts(of: &[(&str, u32)]) -> RegionSplit {
    RegionSplit::Counts { counts: of.iter().map(|(region, count)| (id(region), *count)).collect() }
}

fn weights(of: &[(&str, u32)]) -> RegionSplit {
    RegionSplit::Weights { weights: of.iter().map(|(region, weight)| (id(region), *weight)).collect() }
}

/// A region that does what it is told.
#[derive(Default)]
struct FakeRegion {
    slices: BTreeMap<JobId, Slice>,
    /// Slots with a container, also those that are no longer in the slice.
    running: BTreeSet<(JobId, u32)>,
    heard: bool,
}

impl FakeRegion {
    fn status(&self, job: &JobId) -> SliceStatus {
        let slice = &self.slices[job];
        let runs = |slot: &u32| self.running.contains(&(job.clone(), *slot));
        let running: u32 = slice.slots.iter().filter(runs).count() as u32;
        let all = self.running.iter().filter(|(of, _)| of == job).count() as u32;
        SliceStatus {
            job: job.clone(),
            version: slice.version,
            stopped: slice.stopped,
            wanted: if slice.stopped { 0 } else { slice.slots.count() },
            running,
            updated: 0,
            ready: running,
            completed: 0,
            failed: 0,
            leaving: all - running,
            stuck: 0,
            waiting: Vec::new(),
        }
    }

    fn drop_slice(&mut self, job: &JobId, version: SliceVersion) -> Result<(), ()> {
        let Some(slice) = self.slices.get(job) else { return Ok(()) };
        if !slice.stopped || slice.version > version || self.running.iter().any(|(of, _)| of == job) {
            return Err(());
        }
        self.slices.remove(job);
        Ok(())
    }

    fn put(&mut self, slice: Slice) {
        let job = slice.spec.id.clone();
        if self.slices.get(&job).is_some_and(|has| has.version >= slice.version) {
            return;
        }
        self.slices.insert(job, slice);
    }

    /// Starts what is wanted.
    fn start(&mut self) {
        for (job, slice) in &self.slices {
            if !slice.stopped {
                self.running.extend(slice.slots.iter().map(|slot| (job.clone(), slot)));
            }
        }
    }

    /// Ends what is not wanted any more.
    fn end(&mut self) {
        let slices = &self.slices;
        self.running.retain(|(job, slot)| {
            let slice = &slices[job];
            !slice.stopped && slice.slots.contains(*slot)
        });
    }
}

/// What a region is sent. A link keeps the order of what is about one job.
#[derive(Clone, Debug)]
enum Sent {
    Put(Box<Slice>),
    Drop(JobId, SliceVersion),
}

struct World {
    now: Timestamp,
    router: IntentRouter,
    durable: BTreeMap<JobId, IntentRecord>,
    regions: BTreeMap<RegionId, FakeRegion>,
    /// What is under way.
    puts: VecDeque<(RegionId, Sent)>,
    answers: BTreeMap<ReplyId, Answer>,
    replies: u64,
}

impl World {
    fn new(regions: &[&str]) -> Self {
        let mut world = Self {
            now: Timestamp(1000),
            router: IntentRouter::restore([], Timestamp(1000)).0,
            durable: BTreeMap::new(),
            regions: regions.iter().map(|name| (id(name), FakeRegion::default())).collect(),
            puts: VecDeque::new(),
            answers: BTreeMap::new(),
            replies: 0,
        };
        world.know_regions();
        world
    }

    fn know_regions(&mut self) {
        let regions: Vec<RegionId> = self.regions.keys().cloned().collect();
        for region in regions {
            self.step(Event::RegionKnown { region });
        }
    }

    fn step(&mut self, event: Event) {
        let effects = self.router.step(self.now, event);
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Effects<IntentRouter>) {
        self.router.check().unwrap();
        let (now, persist, after) = effects.split();
        assert!(now.iter().all(|effect| matches!(effect, Effect::Notice(_))), "sent before it is durable");
        for delta in persist {
            match delta {
                Delta::Put(record) => drop(self.durable.insert(record.spec.id.clone(), *record)),
                Delta::Delete(job) => drop(self.durable.remove(&job)),
            }
        }
        for effect in after.open(Durable::committed()) {
            match effect {
                Effect::PutSlice { region, slice } => self.puts.push_back((region, Sent::Put(slice))),
                Effect::DropSlice { region, job, version } => self.puts.push_back((region, Sent::Drop(job, version))),
                Effect::Reply { reply, answer } => drop(self.answers.insert(reply, answer)),
                Effect::Notice(_) => {}
            }
        }
    }

    fn ask(&mut self, event: impl FnOnce(ReplyId) -> Event) -> Answer {
        self.replies += 1;
        let reply = ReplyId(self.replies);
        self.step(event(reply));
        self.answers.remove(&reply).expect("an answer")
    }

    fn apply(&mut self, spec: JobSpec) -> Answer {
        self.ask(|reply| Event::Apply { reply, spec: Box::new(spec) })
    }

    fn hear(&mut self, region: &RegionId, complete: bool) {
        let fake = self.regions.get_mut(region).unwrap();
        fake.heard = true;
        let statuses = fake.slices.keys().map(|job| fake.status(job)).collect();
        self.step(Event::RegionHeard { region: region.clone(), at: self.now, statuses, complete });
    }

    fn deliver(&mut self, lose: bool, lose_ack: bool) {
        let Some((region, sent)) = self.puts.pop_front() else { return };
        if lose {
            return;
        }
        let fake = self.regions.get_mut(&region).unwrap();
        let event = match sent {
            Sent::Put(slice) => {
                let (job, version) = (slice.spec.id.clone(), slice.version);
                fake.put(*slice);
                Event::SliceAcked { region, job, version }
            }
            Sent::Drop(job, version) => match fake.drop_slice(&job, version) {
                Ok(()) => {
                    // Nothing older about the job comes behind it.
                    let of = |sent: &Sent| matches!(sent, Sent::Put(slice) if slice.spec.id == job && slice.version <= version);
                    self.puts.retain(|(to, sent)| *to != region || !of(sent));
                    Event::SliceDropped { region, job }
                }
                Err(()) => {
                    let problem = String::from("something is left");
                    Event::SliceRefused { region, job, version, problem }
                }
            },
        };
        if !lose_ack {
            self.step(event);
        }
    }

    fn pass(&mut self, millis: u64) {
        let end = Timestamp(self.now.0 + millis);
        let mut rounds = 0;
        while let Some(at) = self.router.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            let effects = self.router.wake(self.now);
            self.carry_out(effects);
            rounds += 1;
            assert!(rounds < 10_000, "never comes to rest");
        }
        self.now = end;
    }

    fn restore(&mut self) {
        self.router = IntentRouter::restore(self.durable.values().cloned(), self.now).0;
        self.router.check().unwrap();
        self.know_regions();
    }

    /// Links work, regions work: runs until nothing is left to do.
    fn settle(&mut self) {
        let regions: Vec<RegionId> = self.regions.keys().cloned().collect();
        for _ in 0..12 {
            for region in &regions {
                self.hear(region, true);
            }
            self.pass(1000);
            while !self.puts.is_empty() {
                self.deliver(false, false);
            }
            for fake in self.regions.values_mut() {
                fake.end();
                fake.start();
            }
            self.check_once();
        }
        for region in &regions {
            self.hear(region, true);
        }
    }

    fn check_once(&self) {
        let mut seen: BTreeMap<(JobId, u32), RegionId> = BTreeMap::new();
        for (region, fake) in &self.regions {
            // What is in a slice may start at any time, so it counts as much as what runs.
            let wanted = fake.slices.iter().flat_map(|(job, slice)| slice.slots.iter().map(|slot| (job.clone(), slot)));
            for task in fake.running.iter().cloned().chain(wanted) {
                if let Some(other) = seen.insert(task.clone(), region.clone()) {
                    assert_eq!(other, *region, "{}/{} is in {other} and in {region}", task.0, task.1);
                }
            }
        }
    }

    fn slots(&self, job: &str) -> BTreeMap<String, Vec<u32>> {
        let view = self.router.intent(&id(job)).unwrap();
        view.regions.iter().map(|share| (share.region.region.to_string(), share.slots.iter().collect())).collect()
    }
}

#[derive(Clone, Debug)]
enum Op {
    Apply { job: u8, tasks: u8, image: u8, split: u8 },
    Stop { job: u8 },
    Delete { job: u8 },
    Deliver { lose: bool, lose_ack: bool },
    Repeat,
    Hear { region: u8, complete: bool },
    Silent { region: u8 },
    Start { region: u8 },
    End { region: u8 },
    Pass { millis: u16 },
    Restore,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..2_u8, 1..9_u8, 0..2_u8, 0..5_u8)
            .prop_map(|(job, tasks, image, split)| Op::Apply { job, tasks, image, split }),
        1 => (0..2_u8).prop_map(|job| Op::Stop { job }),
        1 => (0..2_u8).prop_map(|job| Op::Delete { job }),
        8 => (any::<bool>(), any::<bool>()).prop_map(|(lose, lose_ack)| Op::Deliver { lose, lose_ack }),
        1 => Just(Op::Repeat),
        6 => (0..3_u8, any::<bool>()).prop_map(|(region, complete)| Op::Hear { region, complete }),
        2 => (0..3_u8).prop_map(|region| Op::Silent { region }),
        3 => (0..3_u8).prop_map(|region| Op::Start { region }),
        3 => (0..3_u8).prop_map(|region| Op::End { region }),
        3 => (0..3000_u16).prop_map(|millis| Op::Pass { millis }),
        1 => Just(Op::Restore),
    ]
}

const REGIONS: [&str; 3] = ["east", "north", "west"];

impl World {
    fn run(&mut self, op: Op) {
        let job = |number: u8| ["shop/web", "shop/db"][usize::from(number)];
        let region = |number: u8| -> RegionId { id(REGIONS[usize::from(number)]) };
        match op {
            Op::Apply { job: number, tasks, image, split } => {
                let tasks = u32::from(tasks);
                let (names, split): (&[&str], RegionSplit) = match split {
                    0 => (&[], RegionSplit::Even),
                    1 => (&["west", "east"], RegionSplit::Even),
                    2 => (&[], weights(&[("east", 3), ("west", 1)])),
                    3 => (&["north"], RegionSplit::Even),
                    _ => (&[], counts(&[("north", tasks / 2), ("west", tasks - tasks / 2)])),
                };
                let answer = self.apply(spec(job(number), tasks, ["a", "b"][usize::from(image)], names, split));
                let fits = matches!(answer, Answer::Done { .. } | Answer::Refused(Problem::BeingDeleted { .. }));
                assert!(fits, "{answer:?}");
            }
            Op::Stop { job: number } => drop(self.ask(|reply| Event::Stop { reply, job: id(job(number)) })),
            Op::Delete { job: number } => {
                let answer = self.ask(|reply| Event::Delete { reply, job: id(job(number)) });
                if matches!(answer, Answer::Done { .. }) {
                    let left =
                        self.regions.values().flat_map(|fake| &fake.running).find(|(of, _)| *of == id(job(number)));
                    assert_eq!(left, None, "deleted while it runs");
                }
            }
            Op::Deliver { lose, lose_ack } => self.deliver(lose, lose_ack),
            Op::Repeat => {
                if let Some(put) = self.puts.front().cloned() {
                    self.puts.push_back(put);
                }
            }
            Op::Hear { region: number, complete } => self.hear(&region(number), complete),
            Op::Silent { region: number } => {
                self.regions.get_mut(&region(number)).unwrap().heard = false;
                self.step(Event::RegionSilent { region: region(number) });
            }
            Op::Start { region: number } => self.regions.get_mut(&region(number)).unwrap().start(),
            Op::End { region: number } => self.regions.get_mut(&region(number)).unwrap().end(),
            Op::Pass { millis } => self.pass(u64::from(millis)),
            Op::Restore => self.restore(),
        }
        self.check_once();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_slot_is_in_one_region_and_ends_where_it_belongs(ops in proptest::collection::vec(op(), 1..80)) {
        let mut world = World::new(&REGIONS);
        for op in ops {
            world.run(op);
        }
        world.settle();
        prop_assert_eq!(world.router.puts_pending(), 0);
        for view in world.router.intents() {
            let job = &view.record.spec.id;
            prop_assert!(!view.record.deleting, "{} is still being deleted", job);
            for share in &view.regions {
                let fake = &world.regions[&share.region.region];
                let has: Slots = fake.running.iter().filter(|(of, _)| of == job).map(|(_, slot)| *slot).collect();
                let wanted = if view.record.stopped { Slots::default() } else { share.slots.clone() };
                prop_assert_eq!(&has, &wanted, "{} in {}", job, share.region.region);
                prop_assert_eq!((share.awaited.count(), share.leaving.count()), (0, 0));
                if share.slots.count() > 0 {
                    prop_assert_eq!(&fake.slices[job].spec, &view.record.spec);
                }
            }
        }
    }
}

#[test]
fn splits_by_counts_weights_and_evenly() {
    let mut world = World::new(&REGIONS);
    let sizes = |world: &World, job: &str| -> Vec<usize> { world.slots(job).values().map(Vec::len).collect() };
    world.apply(spec("a/even", 7, "i", &[], RegionSplit::Even));
    assert_eq!(sizes(&world, "a/even"), [3, 2, 2]);
    world.apply(spec("a/named", 7, "i", &["west", "east"], RegionSplit::Even));
    assert_eq!(world.slots("a/named")["west"].len(), 4);
    world.apply(spec("a/weights", 10, "i", &[], weights(&[("east", 2), ("north", 1), ("west", 1)])));
    assert_eq!(sizes(&world, "a/weights"), [5, 3, 2]);
    world.apply(spec("a/counts", 6, "i", &[], counts(&[("north", 4), ("west", 2)])));
    assert_eq!(sizes(&world, "a/counts"), [4, 2]);
}

#[test]
fn refuses_what_it_can_not_split_and_says_why() {
    let mut world = World::new(&["east", "west"]);
    let mut refused = |spec| match world.apply(spec) {
        Answer::Refused(problem) => problem.to_string(),
        answer => panic!("{answer:?}"),
    };
    assert_eq!(
        refused(spec("a/b", 2, "i", &["moon", "east"], RegionSplit::Even)),
        "job a/b names regions that are not known: moon; known are: east, west"
    );
    assert_eq!(
        refused(spec("a/b", 5, "i", &[], counts(&[("east", 2), ("west", 2)]))),
        "job a/b has 5 tasks, but its counts per region add up to 4"
    );
    assert!(refused(spec("a/b", 5, "i", &[], weights(&[("east", 0)]))).contains("no region has a weight"));
    assert!(refused(spec("a/b", 1, "i", &["west"], weights(&[("east", 1)]))).contains("not among the regions"));
    let empty = IntentRouter::restore([], Timestamp(0)).0.intents().count();
    assert_eq!(empty, 0);
    let answer = World::new(&[]).apply(spec("a/b", 1, "i", &[], RegionSplit::Even));
    assert_eq!(answer, Answer::Refused(Problem::NoRegions { job: id("a/b") }));
}

#[test]
fn a_silent_region_keeps_its_share_and_moves_wait_for_it() {
    let mut world = World::new(&["east", "west"]);
    world.apply(spec("a/b", 4, "i", &[], counts(&[("east", 4)])));
    world.settle();
    world.step(Event::RegionSilent { region: id("east") });
    world.apply(spec("a/b", 4, "i", &[], counts(&[("east", 1), ("west", 3)])));
    world.pass(60_000);
    let view = world.router.intent(&id("a/b")).unwrap();
    let west = &view.regions[1];
    assert_eq!((west.slots.count(), west.awaited.count()), (0, 3));
    assert_eq!(view.regions[0].leaving.count(), 3);
    world.settle();
    assert_eq!(world.slots("a/b"), [("east".into(), vec![0]), ("west".into(), vec![1, 2, 3])].into());
}

#[test]
fn applying_the_same_again_changes_nothing_and_a_new_image_moves_nothing() {
    let mut world = World::new(&["east"]);
    world.apply(spec("a/b", 3, "one", &[], RegionSplit::Even));
    world.settle();
    world.regions.insert(id("west"), FakeRegion::default());
    world.know_regions();
    let answer = world.apply(spec("a/b", 3, "one", &[], RegionSplit::Even));
    assert!(matches!(answer, Answer::Done { changed: false, .. }));
    let answer = world.apply(spec("a/b", 3, "two", &[], RegionSplit::Even));
    assert!(matches!(answer, Answer::Done { changed: true, generation, .. } if generation.0 == 2));
    assert_eq!(world.slots("a/b"), [("east".into(), vec![0, 1, 2])].into());
}

#[test]
fn a_region_that_is_ahead_gets_what_is_on_record_under_a_newer_version() {
    let mut world = World::new(&["east"]);
    world.apply(spec("a/b", 1, "one", &[], RegionSplit::Even));
    world.settle();
    let slice = world.regions.values_mut().next().unwrap().slices.values_mut().next().unwrap();
    slice.version = SliceVersion(9);
    slice.spec.image = String::from("from a lost future");
    world.settle();
    let slice = &world.regions[&id("east")].slices[&id("a/b")];
    assert_eq!((slice.version, slice.spec.image.as_str()), (SliceVersion(10), "one"));
}

#[test]
fn a_refused_slice_is_seen_and_tried_again_seldom() {
    let mut world = World::new(&["east"]);
    world.apply(spec("a/b", 1, "one", &[], RegionSplit::Even));
    world.hear(&id("east"), true);
    let (region, sent) = world.puts.pop_front().unwrap();
    let Sent::Put(slice) = sent else { panic!("{sent:?}") };
    let (job, version) = (slice.spec.id.clone(), slice.version);
    world.step(Event::SliceRefused { region, job, version, problem: String::from("too big") });
    assert_eq!(world.router.intent(&id("a/b")).unwrap().regions[0].refused.as_deref(), Some("too big"));
    world.pass(59_000);
    assert!(world.puts.is_empty());
    world.pass(2_000);
    assert_eq!(world.puts.len(), 1);
}

#[test]
fn a_deleted_job_goes_everywhere_before_its_name_is_free() {
    let mut world = World::new(&["east", "west"]);
    let web = || spec("a/b", 4, "one", &[], RegionSplit::Even);
    let delete = |world: &mut World| world.ask(|reply| Event::Delete { reply, job: id("a/b") });
    world.apply(web());
    world.settle();
    assert_eq!(delete(&mut world), Answer::Refused(Problem::NotStopped { job: id("a/b") }));
    world.ask(|reply| Event::Stop { reply, job: id("a/b") });
    assert!(matches!(delete(&mut world), Answer::Refused(Problem::NotGone { why, .. }) if why.contains("region east")));
    world.settle();
    world.step(Event::RegionSilent { region: id("west") });
    assert!(matches!(delete(&mut world), Answer::Refused(Problem::NotGone { why, .. }) if why.contains("region west")));
    world.settle();
    assert!(matches!(delete(&mut world), Answer::Done { changed: true, .. }));
    assert_eq!(world.apply(web()), Answer::Refused(Problem::BeingDeleted { job: id("a/b") }));
    world.deliver(false, false);
    world.restore();
    assert!(matches!(delete(&mut world), Answer::Done { changed: false, .. }));
    world.settle();
    assert!(world.router.intent(&id("a/b")).is_none() && world.durable.is_empty());
    assert!(world.regions.values().all(|fake| fake.slices.is_empty()));
    // The name is free, for a job of another kind as well.
    let batch = JobSpec { kind: JobKind::Batch, ..web() };
    assert!(matches!(world.apply(batch), Answer::Done { changed: true, generation, .. } if generation.0 == 1));
    world.settle();
    assert_eq!(world.slots("a/b").values().map(Vec::len).sum::<usize>(), 4);
}

#[test]
fn a_job_that_a_region_refused_can_be_deleted() {
    let mut world = World::new(&["east"]);
    world.apply(spec("a/b", 1, "one", &[], RegionSplit::Even));
    world.ask(|reply| Event::Stop { reply, job: id("a/b") });
    world.hear(&id("east"), true);
    let (region, sent) = world.puts.pop_front().unwrap();
    let Sent::Put(slice) = sent else { panic!("{sent:?}") };
    let (job, version) = (slice.spec.id.clone(), slice.version);
    world.step(Event::SliceRefused { region, job, version, problem: String::from("the name is taken") });
    let answer = world.ask(|reply| Event::Delete { reply, job: id("a/b") });
    assert!(matches!(answer, Answer::Done { changed: true, .. }), "{answer:?}");
    world.settle();
    assert!(world.router.intent(&id("a/b")).is_none());
}

/// A region tells of slices from memory. When it loses one before that is durable, it says an older version again.
#[test]
fn what_a_region_told_of_and_lost_is_sent_again() {
    let (region, job) = (id::<RegionId>("eu"), id::<JobId>("shop/web"));
    let (mut router, _) = IntentRouter::restore([], Timestamp(0));
    let mut step = |at, event| {
        let (_, _, after) = router.step(Timestamp(at), event).split();
        router.check().unwrap();
        let puts = after.open(Durable::committed()).into_iter().filter_map(|effect| match effect {
            Effect::PutSlice { slice, .. } => Some(slice.version.0),
            _ => None,
        });
        puts.collect::<Vec<u64>>()
    };
    let status = |version| SliceStatus {
        job: job.clone(),
        version: SliceVersion(version),
        stopped: false,
        wanted: 1,
        running: 0,
        ready: 0,
        updated: 0,
        completed: 0,
        failed: 0,
        leaving: 0,
        stuck: 0,
        waiting: Vec::new(),
    };
    let heard =
        |at, statuses| Event::RegionHeard { region: region.clone(), at: Timestamp(at), statuses, complete: false };
    let apply = |image| {
        let spec = Box::new(spec("shop/web", 1, image, &["eu"], RegionSplit::Even));
        Event::Apply { reply: ReplyId(1), spec }
    };
    step(1, heard(1, Vec::new()));
    assert_eq!(step(2, apply("a")), [1]);
    assert_eq!(step(3, apply("b")), [2]);
    assert_eq!(step(4, heard(4, vec![status(2)])), [] as [u64; 0], "the region has it");
    assert_eq!(step(5, heard(5, vec![status(1)])), [2], "and has lost it");
    assert_eq!(step(6, heard(6, vec![status(2)])), [] as [u64; 0]);
}
