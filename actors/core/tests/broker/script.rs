//! Runs the scripts in `tests/scripts/broker`.
//!
//! Commands: `link HOST SESSION [boot=B] [cpu=N] [datacenter=D] [drain=VERSION left=N forced=N]`, `heard HOST SESSION`,
//! `unlinked HOST SESSION`, `attest HOST SESSION VERSION [boot=B] [left=N] [forced=N]`, `refused HOST VERSION`, `cordon HOST`,
//! `uncordon HOST`, `drain HOST SECS`, `abort HOST`, `after SECS`, `restart`, `show`.

use std::{collections::BTreeMap, fmt::Write as _};

use polder_core::{
    broker::{Broker, Config, Delta, Done, Effect, Event, HostRecord, Session},
    machine::{Durable, Effects, Machine},
    message::{DrainAttestation, HostHealth, ReplyId},
};
use polder_types::{
    BootId, Bytes, Capacity, ContainerId, Cpu, DrainVersion, HomeId, HostId, HostInfo, Millis, PortRange, Timestamp,
};

use crate::harness::{Words, run_all};

#[test]
fn scripts() {
    run_all("broker", || {
        let mut script = Script::new();
        move |command: &str| script.run(command)
    });
}

pub(crate) fn config() -> Config {
    Config::new("dc1".parse().unwrap())
}

pub(crate) fn info(host: &str) -> HostInfo {
    HostInfo {
        id: host.parse().unwrap(),
        datacenter: "dc1".parse().unwrap(),
        power_domain: "p1".parse().unwrap(),
        rack: "r1".parse().unwrap(),
        capacity: Capacity {
            cpu: Cpu::from_centi_cores(400),
            memory: Bytes::from_mib(4096),
            ports: PortRange { first: 20_000, last: 21_000 },
        },
        labels: BTreeMap::new(),
        address: "127.0.0.1".into(),
        agent: "1.0".into(),
    }
}

pub(crate) fn containers(count: u32) -> Vec<ContainerId> {
    (0..count).map(|number| format!("shop/web/{number}@1").parse().unwrap()).collect()
}

fn health(health: HostHealth) -> String {
    match health {
        HostHealth::Ready => "ready".into(),
        HostHealth::Unknown { since } => format!("unknown since {}ms", since.0),
    }
}

fn record(record: &HostRecord) -> String {
    let mut parts = vec![format!("{} boot={} cpu={}", record.info.id, record.boot, record.info.capacity.cpu)];
    parts.extend(record.cordon.as_ref().map(|cordon| format!("cordoned by {}", cordon.by)));
    if let Some(drain) = &record.drain {
        let lifted = if drain.lifted_at.is_some() { " lifted" } else { "" };
        let late = if drain.attested_late_at.is_some() { " attested late" } else { "" };
        parts.push(format!(
            "drain {} {} until {}ms forced={} left={}{late}{lifted}",
            drain.version,
            drain.state,
            drain.deadline.0,
            drain.forced.len(),
            drain.left.len()
        ));
    }
    parts.join(", ")
}

fn done(done: &Done) -> String {
    let changed = if done.changed { "" } else { " unchanged" };
    let drain =
        done.drain.as_ref().map(|drain| format!(", drain {} {}", drain.version, drain.state)).unwrap_or_default();
    format!("ok {}{changed}{}{drain}", done.host, if done.cordoned { ", cordoned" } else { "" })
}

fn show(effect: &Effect) -> String {
    match effect {
        Effect::Host(notice) => {
            let condition = &notice.condition;
            let drain = condition.drain.map(|drain| format!(", drain {}", drain.version)).unwrap_or_default();
            let cordoned = if condition.cordoned { ", cordoned" } else { "" };
            format!("tell all: {} {}{cordoned}{drain}", condition.host, health(condition.health))
        }
        Effect::Order { host, order } => format!("{host}: {order:?}"),
        Effect::LinkReply { result, .. } => match result {
            Ok(done) => format!("{} let in", done.host),
            Err(refused) => format!("not let in: {refused}"),
        },
        Effect::Reply { reply, result: Ok(answer) } => format!("reply {}: {}", reply.0, done(answer)),
        Effect::Reply { reply, result: Err(refused) } => format!("reply {}: refused, {refused}", reply.0),
        Effect::Notice(notice) => format!("notice {} {}: {}", notice.kind, notice.subject, notice.message),
    }
}

struct Script {
    now: Timestamp,
    broker: Broker,
    stored: BTreeMap<HostId, HostRecord>,
    replies: u64,
}

impl Script {
    fn new() -> Self {
        let (broker, _) = Broker::restore(config(), Vec::new(), Timestamp(0));
        Self { now: Timestamp(0), broker, stored: BTreeMap::new(), replies: 0 }
    }

    fn take(&mut self, effects: Effects<Broker>) -> String {
        self.broker.check().unwrap();
        let (now, persist, after) = effects.split();
        let mut out = String::new();
        for effect in &now {
            writeln!(out, "  now     {}", show(effect)).unwrap();
        }
        for Delta::PutHost(host) in persist {
            writeln!(out, "  persist {}", record(&host)).unwrap();
            self.stored.insert(host.info.id.clone(), *host);
        }
        for effect in &after.open(Durable::committed()) {
            writeln!(out, "  after   {}", show(effect)).unwrap();
        }
        for (id, stored) in &self.stored {
            assert_eq!(self.broker.host_record(id), Some(stored), "what is stored is what the broker holds");
        }
        out
    }

    fn pass(&mut self, time: Millis) -> String {
        let end = self.now + time;
        let mut out = String::new();
        while let Some(at) = self.broker.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            let effects = self.broker.wake(self.now);
            let done = self.take(effects);
            if !done.is_empty() {
                writeln!(out, "  at {}ms", self.now.0).unwrap();
                out += &done;
            }
        }
        self.now = end;
        out
    }

    fn show(&self) -> String {
        let mut out = String::new();
        for view in self.broker.hosts() {
            write!(out, "  {} {}", view.info.id, health(view.health)).unwrap();
            if let Some(progress) = view.progress {
                write!(out, ": {}; at {}ms: {}", progress.reason, progress.deadline.0, progress.then).unwrap();
            }
            out.push('\n');
        }
        out
    }

    fn run(&mut self, command: &str) -> String {
        let words = Words::of(command);
        let plain = &words.plain;
        let host = || plain[1].parse::<HostId>().unwrap();
        let session = || Session(plain[2].parse().unwrap());
        let number = |key: &str| words.get(key).map_or(0, |number| number.parse().unwrap());
        let boot = BootId(words.get("boot").unwrap_or("b1").into());
        let attestation = |version: u64| DrainAttestation {
            version: DrainVersion(version),
            boot: boot.clone(),
            remaining: containers(number("left")),
            forced: containers(number("forced")),
        };
        let home = HomeId(words.get("home").map_or(1, |home| home.parse().unwrap()));
        let reply = ReplyId(self.replies + 1);
        let (by, reason) = ("ann".to_owned(), "kernel".to_owned());
        let event = match plain[0] {
            "link" => {
                let mut info = info(plain[1]);
                if let Some(cpu) = words.get("cpu") {
                    info.capacity.cpu = cpu.parse().unwrap();
                }
                if let Some(datacenter) = words.get("datacenter") {
                    info.datacenter = datacenter.parse().unwrap();
                }
                let drain = words.get("drain").map(|version| attestation(version.parse().unwrap()));
                let reply = ReplyId(0);
                Event::HostLinked { reply, info: Box::new(info), boot: boot.clone(), home, session: session(), drain }
            }
            "heard" => Event::HostHeard { host: host(), home, session: session() },
            "unlinked" => Event::HostUnlinked { host: host(), session: session() },
            "attest" => Event::DrainAttested {
                host: host(),
                home,
                session: session(),
                attestation: attestation(plain[3].parse().unwrap()),
            },
            "refused" => Event::StartRefused { host: host(), version: DrainVersion(plain[2].parse().unwrap()) },
            "cordon" => Event::Cordon { reply, host: host(), by, reason },
            "uncordon" => Event::Uncordon { reply, host: host() },
            "drain" => {
                let deadline = self.now + Millis::from_secs(plain[2].parse().unwrap());
                Event::Drain { reply, host: host(), deadline, by, reason }
            }
            "abort" => Event::AbortDrain { reply, host: host() },
            "readmit" => Event::Readmit { reply, host: host(), by, reason },
            "after" => return self.pass(Millis::from_secs(plain[1].parse().unwrap())),
            "restart" => {
                let (broker, effects) = Broker::restore(config(), self.stored.values().cloned().collect(), self.now);
                self.broker = broker;
                return self.take(effects);
            }
            "show" => return self.show(),
            other => panic!("no such command: {other}"),
        };
        if matches!(plain[0], "cordon" | "uncordon" | "drain" | "abort" | "readmit") {
            self.replies += 1;
        }
        let effects = self.broker.step(self.now, event);
        self.take(effects)
    }
}
