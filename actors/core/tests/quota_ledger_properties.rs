//! The quota ledger over links that lose, delay and repeat: what all regions may believe together is never raised
//! above the quota, and in the end each region has its part.

use polder_core::{
    machine::{Durable, Effects, Machine as _},
    message::ReplyId,
    quota_ledger::{AccountHeard, Answer, Delta, Effect, Event, QuotaLedger, QuotaRecord},
};
use polder_types::{AccountId, Allotment, Amounts, Bytes, Cpu, RegionId, Timestamp};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

const REGIONS: [&str; 3] = ["east", "north", "west"];

fn id<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    text.parse().unwrap()
}

fn amounts(cores: u32, mib: u32, tasks: u32) -> Amounts {
    Amounts { cpu: Cpu::from_centi_cores(cores * 100), memory: Bytes::from_mib(mib), tasks }
}

fn shop() -> AccountId {
    id("shop")
}

struct World {
    now: Timestamp,
    ledger: QuotaLedger,
    durable: BTreeMap<AccountId, QuotaRecord>,
    known: Vec<RegionId>,
    believed: BTreeMap<RegionId, Allotment>,
    puts: VecDeque<(RegionId, Allotment)>,
    answer: Option<Answer>,
    ceilings: Amounts,
}

impl World {
    fn new(regions: &[&str]) -> Self {
        let mut world = Self {
            now: Timestamp(1000),
            ledger: QuotaLedger::restore([], Timestamp(0)).0,
            durable: BTreeMap::new(),
            known: Vec::new(),
            believed: BTreeMap::new(),
            puts: VecDeque::new(),
            answer: None,
            ceilings: Amounts::default(),
        };
        for region in regions {
            world.join(region);
        }
        world
    }

    fn join(&mut self, region: &str) {
        self.known.push(id(region));
        self.step(Event::RegionKnown { region: id(region) });
    }

    fn step(&mut self, event: Event) {
        let effects = self.ledger.step(self.now, event);
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Effects<QuotaLedger>) {
        self.ledger.check().unwrap();
        let (now, persist, after) = effects.split();
        assert!(now.iter().all(|effect| matches!(effect, Effect::Notice(_))), "sent before it is durable");
        for Delta::Put(record) in persist {
            self.durable.insert(record.quota.account.clone(), *record);
        }
        for effect in after.open(Durable::committed()) {
            match effect {
                Effect::PutAllotment { region, allotment } => self.puts.push_back((region, allotment)),
                Effect::Reply { answer, .. } => self.answer = Some(answer),
                Effect::Notice(_) => {}
            }
        }
        let Some(view) = self.ledger.quota(&shop()) else {
            if self.durable.get(&shop()).is_some_and(QuotaRecord::is_removed) {
                self.ceilings = Amounts::UNLIMITED;
            }
            return;
        };
        let sum = view.regions.iter().fold(Amounts::default(), |sum, share| sum.plus(share.share.ceiling));
        let limit = view.quota.limit;
        let raised = |new: bool, within: bool| !new || within;
        assert!(raised(sum.cpu > self.ceilings.cpu, sum.cpu <= limit.cpu), "{view:?}");
        assert!(raised(sum.memory > self.ceilings.memory, sum.memory <= limit.memory), "{view:?}");
        assert!(raised(sum.tasks > self.ceilings.tasks, sum.tasks <= limit.tasks), "{view:?}");
        self.ceilings = sum;
        for share in &view.regions {
            if let Some(believed) = self.believed.get(&share.region) {
                assert!(believed.limit.within(share.share.ceiling), "{believed:?} above {share:?}");
            }
        }
    }

    fn set(&mut self, limit: Amounts, regions: Option<BTreeMap<RegionId, Amounts>>) -> Answer {
        self.step(Event::Set { reply: ReplyId(1), account: shop(), limit, regions });
        self.answer.take().expect("an answer")
    }

    fn deliver(&mut self, lose: bool, lose_ack: bool) {
        let Some((region, allotment)) = self.puts.pop_front() else { return };
        if lose {
            return;
        }
        let (account, version) = (allotment.account.clone(), allotment.version);
        if self.believed.get(&region).is_none_or(|has| has.version < version) {
            self.believed.insert(region.clone(), allotment);
        }
        if !lose_ack {
            // Regions may answer either way.
            if version % 2 == 0 {
                let allotment = self.believed[&region].clone();
                self.step(Event::AllotmentHeld { region, allotment });
            } else {
                self.step(Event::AllotmentAcked { region, account, version });
            }
        }
    }

    fn hear(&mut self, region: &RegionId, with_allotment: bool) {
        let allotment = self.believed.get(region).filter(|_| with_allotment).cloned();
        let accounts = vec![AccountHeard { account: shop(), used: amounts(1, 1, 1), allotment }];
        self.step(Event::RegionHeard { region: region.clone(), at: self.now, accounts });
    }

    fn pass(&mut self, millis: u64) {
        let end = Timestamp(self.now.0 + millis);
        while let Some(at) = self.ledger.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            let effects = self.ledger.wake(self.now);
            self.carry_out(effects);
        }
        self.now = end;
    }

    fn settle(&mut self) {
        for _ in 0..6 {
            for region in self.known.clone() {
                self.hear(&region, false);
            }
            self.pass(1000);
            while !self.puts.is_empty() {
                self.deliver(false, false);
            }
        }
    }

    fn believed(&self, region: &str) -> Amounts {
        self.believed[&id::<RegionId>(region)].limit
    }
}

#[derive(Clone, Debug)]
enum Op {
    Set { cores: u8, mib: u8, tasks: u8, parts: Option<[u8; 3]> },
    Remove,
    Deliver { lose: bool, lose_ack: bool },
    Repeat,
    Hear { region: u8, with_allotment: bool },
    Silent { region: u8 },
    Pass { millis: u16 },
    Join,
    Restore,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..20_u8, 0..50_u8, 0..20_u8, proptest::option::of(any::<[u8; 3]>()))
            .prop_map(|(cores, mib, tasks, parts)| Op::Set { cores, mib, tasks, parts }),
        1 => Just(Op::Remove),
        8 => (any::<bool>(), any::<bool>()).prop_map(|(lose, lose_ack)| Op::Deliver { lose, lose_ack }),
        1 => Just(Op::Repeat),
        5 => (0..3_u8, any::<bool>()).prop_map(|(region, with_allotment)| Op::Hear { region, with_allotment }),
        1 => (0..3_u8).prop_map(|region| Op::Silent { region }),
        3 => (0..3000_u16).prop_map(|millis| Op::Pass { millis }),
        1 => Just(Op::Join),
        1 => Just(Op::Restore),
    ]
}

impl World {
    fn run(&mut self, op: Op) {
        match op {
            Op::Set { cores, mib, tasks, parts } => {
                let limit = amounts(u32::from(cores), u32::from(mib), u32::from(tasks));
                let part = |whole: u8, weight: u8| u32::from(whole) * u32::from(weight) / 255 / 3;
                let parts = parts.map(|weights| {
                    let part = |weight| amounts(part(cores, weight), part(mib, weight), part(tasks, weight));
                    self.known.iter().cloned().zip(weights.map(part)).collect()
                });
                let answer = self.set(limit, parts);
                assert!(matches!(answer, Answer::Done { .. }), "{answer:?}");
            }
            Op::Remove => self.step(Event::Remove { reply: ReplyId(1), account: shop() }),
            Op::Deliver { lose, lose_ack } => self.deliver(lose, lose_ack),
            Op::Repeat => {
                if let Some(put) = self.puts.front().cloned() {
                    self.puts.push_back(put);
                }
            }
            Op::Hear { region, with_allotment } => {
                if let Some(region) = self.known.get(usize::from(region)).cloned() {
                    self.hear(&region, with_allotment);
                }
            }
            Op::Silent { region } => {
                if let Some(region) = self.known.get(usize::from(region)).cloned() {
                    self.step(Event::RegionSilent { region });
                }
            }
            Op::Pass { millis } => self.pass(u64::from(millis)),
            Op::Join => {
                if let Some(region) = REGIONS.get(self.known.len()) {
                    self.join(region);
                }
            }
            Op::Restore => {
                self.ledger = QuotaLedger::restore(self.durable.values().cloned(), self.now).0;
                self.ledger.check().unwrap();
                for region in self.known.clone() {
                    self.step(Event::RegionKnown { region });
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn regions_together_never_believe_more_than_the_quota(ops in proptest::collection::vec(op(), 1..80)) {
        let mut world = World::new(&REGIONS[..2]);
        for op in ops {
            world.run(op);
        }
        world.settle();
        prop_assert_eq!(world.ledger.puts_pending(), 0);
        if let Some(view) = world.ledger.quota(&shop()) {
            for share in &view.regions {
                prop_assert_eq!(world.believed[&share.region].limit, share.wanted, "in {}", share.region);
            }
            let sum = world.believed.values().fold(Amounts::default(), |sum, has| sum.plus(has.limit));
            prop_assert!(sum.within(view.quota.limit));
        } else if world.durable.contains_key(&shop()) {
            for (region, believed) in &world.believed {
                prop_assert_eq!(believed.limit, Amounts::UNLIMITED, "in {}", region);
            }
        }
    }
}

#[test]
fn shares_out_evenly_and_the_earlier_get_what_does_not_divide() {
    let mut world = World::new(&REGIONS);
    world.set(amounts(10, 100, 8), None);
    world.settle();
    assert_eq!(world.believed("east").tasks, 3);
    assert_eq!(world.believed("west").tasks, 2);
    let used = world.ledger.quota(&shop()).unwrap().used;
    assert_eq!(used, amounts(3, 3, 3));
}

#[test]
fn a_part_grows_only_when_the_other_has_agreed_to_shrink() {
    let mut world = World::new(&["east", "west"]);
    let parts = |east, west| Some([(id("east"), amounts(0, 0, east)), (id("west"), amounts(0, 0, west))].into());
    world.set(amounts(0, 0, 10), parts(8, 2));
    world.settle();
    world.step(Event::RegionSilent { region: id("east") });
    world.set(amounts(0, 0, 10), parts(2, 8));
    world.pass(60_000);
    while !world.puts.is_empty() {
        world.deliver(false, false);
    }
    assert_eq!((world.believed("east").tasks, world.believed("west").tasks), (8, 2));
    world.settle();
    assert_eq!((world.believed("east").tasks, world.believed("west").tasks), (2, 8));
}

#[test]
fn refuses_parts_above_the_whole_and_regions_that_are_not_known() {
    let mut world = World::new(&["east"]);
    let refused = |answer| match answer {
        Answer::Refused(problem) => problem.to_string(),
        answer => panic!("{answer:?}"),
    };
    let over = [(id("east"), amounts(3, 0, 12))].into();
    assert_eq!(
        refused(world.set(amounts(1, 0, 10), Some(over))),
        "the parts of the regions add up to more than the quota of shop: 2 CPU, 0B and 2 tasks over"
    );
    let unknown = [(id("moon"), amounts(0, 0, 1))].into();
    assert!(refused(world.set(amounts(1, 0, 10), Some(unknown))).contains("not known: moon; known are: east"));
}

#[test]
fn a_region_that_joins_later_gets_nothing_until_it_is_given_something() {
    let mut world = World::new(&["east"]);
    world.set(amounts(1, 1, 10), None);
    world.settle();
    world.join("west");
    world.settle();
    assert_eq!((world.believed("east").tasks, world.believed("west")), (10, Amounts::default()));
    world.set(amounts(1, 1, 10), None);
    // The answer says nothing changed only if nothing did.
    world.settle();
    assert_eq!((world.believed("east").tasks, world.believed("west").tasks), (5, 5));
}

#[test]
fn a_region_restored_from_a_copy_agrees_anew() {
    let mut world = World::new(&["east", "west"]);
    world.set(amounts(0, 0, 10), None);
    world.settle();
    let parts = [(id("east"), amounts(0, 0, 1)), (id("west"), amounts(0, 0, 9))].into();
    let copy = world.believed[&id::<RegionId>("east")].clone();
    world.set(amounts(0, 0, 10), Some(parts));
    world.settle();
    assert_eq!(world.believed("east").tasks, 1);
    world.believed.insert(id("east"), copy);
    // Ceilings go up by what the region says: that is not the ledger's doing.
    world.ceilings = amounts(100, 100, 100);
    world.hear(&id("east"), true);
    world.settle();
    assert_eq!((world.believed("east").tasks, world.believed("west").tasks), (1, 9));
}
