//! Whatever happens, in whatever order: a drain says `drained` only of a host that is empty and stays so, an older link
//! never speaks, silence is not forgotten, and every drain ends by its deadline and a margin.

use std::collections::{BTreeMap, VecDeque};

use polder_core::{
    broker::{Broker, Delta, DrainState, Effect, Event, HostRecord, Session},
    machine::{Durable, Effects, Machine},
    message::{DrainAttestation, DrainOrder, HostHealth, HostOrder, ReplyId},
};
use polder_types::{BootId, ContainerId, DrainVersion, HomeId, HostId, Millis, Timestamp};
use proptest::prelude::*;

use crate::script::{config, containers, info};

#[derive(Clone, Debug)]
enum Op {
    Link,
    Cut,
    Beat,
    Reboot,
    Start(u32),
    Ends,
    Obey,
    LoseOrders,
    Attest,
    OldLink,
    Drain(u64),
    Abort,
    Uncordon,
    Cordon,
    Restart,
    LostCommit,
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => Just(Op::Link),
        2 => Just(Op::Cut),
        6 => Just(Op::Beat),
        1 => Just(Op::Reboot),
        3 => (1..4_u32).prop_map(Op::Start),
        2 => Just(Op::Ends),
        5 => Just(Op::Obey),
        1 => Just(Op::LoseOrders),
        5 => Just(Op::Attest),
        1 => Just(Op::OldLink),
        3 => (1..60_u64).prop_map(Op::Drain),
        1 => Just(Op::Abort),
        1 => Just(Op::Uncordon),
        1 => Just(Op::Cordon),
        1 => Just(Op::Restart),
        1 => Just(Op::LostCommit),
        6 => (1..20_u64).prop_map(Op::Pass),
    ]
}

/// A host that keeps its word: once it has accepted a drain it starts nothing.
struct World {
    now: Timestamp,
    broker: Broker,
    stored: BTreeMap<HostId, HostRecord>,
    session: u64,
    linked: bool,
    boot: u32,
    running: Vec<ContainerId>,
    forced: Vec<ContainerId>,
    drain: Option<DrainOrder>,
    inbox: VecDeque<HostOrder>,
    lose_commit: bool,
    replies: u64,
    heard_at: Option<Timestamp>,
}

impl World {
    fn host() -> HostId {
        "h1".parse().unwrap()
    }

    fn event(&mut self, event: Event) {
        let effects = self.broker.step(self.now, event);
        self.take(effects);
    }

    fn take(&mut self, effects: Effects<Broker>) {
        self.broker.check().unwrap();
        let (_, persist, after) = effects.split();
        if !persist.is_empty() && std::mem::take(&mut self.lose_commit) {
            return self.restart();
        }
        for Delta::PutHost(record) in persist {
            let before = self.stored.get(&record.info.id).and_then(|record| record.drain.clone());
            if let Some(drain) = &record.drain {
                let was = before.filter(|before| before.version == drain.version).map(|before| before.state);
                if drain.state == DrainState::Drained && was != Some(DrainState::Drained) {
                    assert!(self.running.is_empty(), "drained, and {:?} is left", self.running);
                    assert!(self.drain.is_some(), "drained, and the host takes starts");
                    assert!(drain.forced.is_empty(), "drained, and something was killed");
                }
                if let Some(was) = was.filter(|was| *was != DrainState::Draining) {
                    assert_eq!(was, drain.state, "a drain ends once");
                }
            }
            self.stored.insert(record.info.id.clone(), *record);
        }
        for effect in after.open(Durable::committed()) {
            match effect {
                Effect::Order { order, .. } if self.linked => self.inbox.push_back(order),
                Effect::Host(notice) => {
                    if let (HostHealth::Unknown { since }, Some(heard)) = (notice.condition.health, self.heard_at) {
                        assert!(since <= heard, "silence counts from when it was last heard, or earlier");
                    }
                }
                _ => {}
            }
        }
        let margin = config().attest_margin;
        for view in self.broker.hosts() {
            if let Some(drain) = view.drain.filter(|drain| drain.state == DrainState::Draining) {
                assert!(self.now <= drain.deadline + margin, "a drain goes on after its deadline");
                assert!(view.progress.is_some(), "a drain says what it waits for");
            }
        }
    }

    fn restart(&mut self) {
        let (broker, effects) = Broker::restore(config(), self.stored.values().cloned().collect(), self.now);
        self.broker = broker;
        self.heard_at = None;
        self.take(effects);
        // A restored broker wakes up before anything else: deadlines may have passed.
        let effects = self.broker.wake(self.now);
        self.take(effects);
    }

    fn attestation(&self) -> Option<DrainAttestation> {
        Some(DrainAttestation {
            version: self.drain?.version,
            boot: BootId(self.boot.to_string()),
            remaining: self.running.clone(),
            forced: self.forced.clone(),
        })
    }

    fn link(&mut self) {
        self.session += 1;
        self.linked = true;
        self.inbox.clear();
        self.heard_at = Some(self.now);
        let boot = BootId(self.boot.to_string());
        let (session, drain) = (Session(self.session), self.attestation());
        self.event(Event::HostLinked {
            reply: ReplyId(0),
            info: Box::new(info("h1")),
            boot,
            home: HomeId(1),
            session,
            drain,
        });
    }

    fn attest(&mut self) {
        if let (true, Some(attestation)) = (self.linked, self.attestation()) {
            self.heard_at = Some(self.now);
            self.event(Event::DrainAttested {
                host: Self::host(),
                home: HomeId(1),
                session: Session(self.session),
                attestation,
            });
        }
    }

    fn obey(&mut self) {
        while let Some(order) = self.inbox.pop_front() {
            match order {
                HostOrder::Drain(drain) if self.drain.is_none_or(|known| known.version < drain.version) => {
                    self.drain = Some(drain);
                    self.forced.clear();
                }
                HostOrder::ForceDrain { version } if self.drain.is_some_and(|drain| drain.version == version) => {
                    self.forced.append(&mut self.running);
                }
                HostOrder::EndDrain { version } if self.drain.is_some_and(|drain| drain.version <= version) => {
                    self.drain = None;
                    self.forced.clear();
                }
                _ => {}
            }
        }
        self.attest();
    }

    fn beat(&mut self) {
        if self.linked {
            self.heard_at = Some(self.now);
            self.event(Event::HostHeard { host: Self::host(), home: HomeId(1), session: Session(self.session) });
        }
    }

    fn pass(&mut self, secs: u64) {
        let end = self.now + Millis::from_secs(secs);
        while let Some(at) = self.broker.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            let effects = self.broker.wake(self.now);
            self.take(effects);
        }
        self.now = end;
    }

    fn run(&mut self, op: &Op) {
        let host = Self::host();
        self.replies += 1;
        let reply = ReplyId(self.replies);
        let (by, reason) = ("ann".to_owned(), "test".to_owned());
        match op {
            Op::Link => self.link(),
            Op::Cut => {
                self.linked = false;
                self.inbox.clear();
                self.event(Event::HostUnlinked { host, session: Session(self.session) });
            }
            Op::Beat => self.beat(),
            Op::Reboot => {
                self.linked = false;
                self.boot += 1;
                self.running.clear();
                self.link();
            }
            Op::Start(count) if self.drain.is_none() => self.running = containers(*count),
            Op::Start(_) => {
                if let (true, Some(drain)) = (self.linked, self.drain) {
                    self.event(Event::StartRefused { host, version: drain.version });
                }
            }
            Op::Ends => drop(self.running.pop()),
            Op::Obey => self.obey(),
            Op::LoseOrders => self.inbox.clear(),
            Op::Attest => self.attest(),
            Op::OldLink => {
                // A link of another time says that all is well and empty: whatever it says is not heard.
                let before = self.broker.host_record(&host).cloned();
                let session = Session(self.session.saturating_sub(1));
                let known = self.broker.host(&host).and_then(|view| view.heard_at).is_some();
                if known && self.session > 1 && self.linked {
                    let version = self.drain.map_or(DrainVersion(1), |drain| drain.version);
                    let boot = BootId(self.boot.to_string());
                    let attestation = DrainAttestation { version, boot, remaining: vec![], forced: vec![] };
                    self.event(Event::DrainAttested { host: host.clone(), home: HomeId(1), session, attestation });
                    assert_eq!(self.broker.host_record(&host).cloned(), before, "an older link spoke");
                }
            }
            Op::Drain(secs) => {
                let deadline = self.now + Millis::from_secs(*secs);
                self.event(Event::Drain { reply, host, deadline, by, reason });
            }
            Op::Abort => self.event(Event::AbortDrain { reply, host }),
            Op::Uncordon => self.event(Event::Uncordon { reply, host }),
            Op::Cordon => self.event(Event::Cordon { reply, host, by, reason }),
            Op::Restart => self.restart(),
            Op::LostCommit => self.lose_commit = true,
            Op::Pass(secs) => self.pass(*secs),
        }
    }
}

fn run(ops: &[Op]) {
    let (broker, _) = Broker::restore(config(), Vec::new(), Timestamp(0));
    let mut world = World {
        now: Timestamp(0),
        broker,
        stored: BTreeMap::new(),
        session: 0,
        linked: false,
        boot: 1,
        running: Vec::new(),
        forced: Vec::new(),
        drain: None,
        inbox: VecDeque::new(),
        lose_commit: false,
        replies: 0,
        heard_at: None,
    };
    for op in ops {
        world.run(op);
    }
    // All is well from now on: the host and its broker come to agree, and a drain that stands succeeds.
    world.lose_commit = false;
    world.link();
    world.running.clear();
    for _ in 0..40 {
        world.obey();
        world.beat();
        world.pass(2);
    }
    let record = world.broker.host_record(&World::host()).unwrap();
    match (&world.drain, record.closing_drain()) {
        (Some(known), Some(standing)) => assert_eq!(known.version, standing.version),
        (None, None) => {}
        (known, standing) => panic!("the host knows of {known:?}, and {standing:?} stands"),
    }
    assert!(record.drain.as_ref().is_none_or(|drain| drain.state != DrainState::Draining), "{record:?}");
    let view = world.broker.host(&World::host()).unwrap();
    assert_eq!(view.health, HostHealth::Ready);
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn drains_keep_their_word(ops in prop::collection::vec(op(), 0..100)) {
        run(&ops);
    }
}
