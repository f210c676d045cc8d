//! Runs the scripts in `tests/scripts/job_shard`.
//!
//! Commands: `apply NAME [tasks=N] [image=V] [kind=batch] [KEY=..]`, `stop NAME`, `delete NAME`, `grant [SLOT=HOST..]` (all
//! that is asked for: to h1), `no-room [spread]`, `allocator EPOCH`, `report HOST STATUS..`, `listed HOST BOOT STATUS..`,
//! `refused HOST TASK WHY`, `prepared HOST TASK under-way|done|failed`, `host HOST ready|silent|drain=SECS|undrain`, `after SECS`, `restart`, `set-aside NAME`, `show NAME`.
//! A status is `NAME/SLOT@EPOCH:preparing|running|ready|stopping|exit0..|signal9|lost|failed`.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use polder_core::{
    job_shard::{Delta, Effect, Event, JobRecord, JobShard, Origin, TaskChunk},
    machine::{Durable, Effects, Machine},
    message::{
        Charge, DrainOrder, Grant, HostCondition, HostHealth, HostNotice, PlacementAnswer, PlacementNote,
        PlacementReport, PlacementRequest, Preparation, Refusal, RejectReason, ReplyId, RequestId,
    },
};
use polder_types::{
    BootId, Bytes, Capacity, ContainerId, ContainerPhase, ContainerStatus, Cpu, DrainVersion, Epoch, ExitStatus,
    HostId, HostInfo, JobId, JobKind, Millis, Name, OwnerEpoch, PortBinding, PortRange, RestartPolicy, Slots,
    Timestamp,
};

use crate::{
    fixtures::{config, job, slice},
    harness::{Words, run_all},
    show,
};

#[test]
fn scripts() {
    run_all("job_shard", || {
        let mut script = Script::new();
        move |command: &str| script.run(command)
    });
}

/// The durable state as it follows from the deltas.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stored {
    pub(crate) jobs: BTreeMap<JobId, JobRecord>,
    pub(crate) chunks: BTreeMap<(JobId, u32), TaskChunk>,
}

impl Stored {
    pub(crate) fn commit(&mut self, delta: Delta) {
        match delta {
            Delta::FenceAllocator(_) => {}
            Delta::PutJob(job) => drop(self.jobs.insert(job.id().clone(), *job)),
            Delta::PutChunk(chunk) => drop(self.chunks.insert((chunk.job.clone(), chunk.number), chunk)),
            Delta::DeleteChunk { job, number } => assert!(self.chunks.remove(&(job, number)).is_some()),
            Delta::DeleteJob(job) => assert!(self.jobs.remove(&job).is_some()),
        }
    }

    pub(crate) fn restore(&self, owner: u64, now: Timestamp) -> (JobShard, Effects<JobShard>) {
        let (jobs, chunks) = (self.jobs.values().cloned(), self.chunks.values().cloned());
        JobShard::restore(config(owner), jobs.collect(), chunks.collect(), now)
    }

    /// Whether a restored shard would charge what the running one does.
    pub(crate) fn agrees(&self, shard: &JobShard, now: Timestamp) {
        let (restored, effects) = self.restore(99, now);
        let (told, _, _) = effects.split();
        let Some(Effect::Allocator(PlacementNote::Restored { charges, .. })) = told.into_iter().next() else {
            panic!("a restored shard says first what it charges")
        };
        let sorted = |mut charges: Vec<Charge>| {
            charges.sort_by(|one, other| one.container.cmp(&other.container));
            charges
        };
        assert_eq!(sorted(charges), sorted(shard.charges().collect()), "the records don't say what the shard charges");
        restored.check().unwrap();
    }
}

pub(crate) fn host_info(host: &HostId) -> Arc<HostInfo> {
    Arc::new(HostInfo {
        id: host.clone(),
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
        agent: "test".into(),
    })
}

pub(crate) fn grant(request: &PlacementRequest, index: u32, host: &HostId) -> Grant {
    let epoch = request.tasks.iter().find(|task| task.index == index).unwrap().epoch;
    Grant {
        index,
        epoch,
        host: host.clone(),
        ports: vec![PortBinding { name: Name::new("http").unwrap(), port: 20_000 }],
        why: "best".into(),
    }
}

struct Script {
    now: Timestamp,
    owner: u64,
    allocator: u64,
    shard: JobShard,
    stored: Stored,
    replies: u64,
    asks: BTreeMap<RequestId, PlacementRequest>,
    conditions: BTreeMap<HostId, HostCondition>,
}

impl Script {
    fn new() -> Self {
        let (shard, _) = JobShard::restore(config(1), Vec::new(), Vec::new(), Timestamp(0));
        Self {
            now: Timestamp(0),
            owner: 1,
            allocator: 1,
            shard,
            stored: Stored::default(),
            replies: 0,
            asks: BTreeMap::new(),
            conditions: BTreeMap::new(),
        }
    }

    fn take(&mut self, effects: Effects<JobShard>) -> String {
        self.shard.check().unwrap();
        let (now, persist, after) = effects.split();
        let mut out = String::new();
        for effect in &now {
            writeln!(out, "  now     {}", show::effect(effect)).unwrap();
        }
        for delta in persist {
            writeln!(out, "  persist {}", show::delta(&delta)).unwrap();
            self.stored.commit(delta);
        }
        let after = after.open(Durable::committed());
        for effect in &after {
            writeln!(out, "  after   {}", show::effect(effect)).unwrap();
        }
        for effect in now.into_iter().chain(after) {
            match effect {
                Effect::Allocator(PlacementNote::Request(request)) => drop(self.asks.insert(request.id, request)),
                Effect::Allocator(PlacementNote::Withdraw { request, tasks }) => self.settled(request, &tasks),
                Effect::Allocator(PlacementNote::Restored { .. }) => self.asks.clear(),
                _ => {}
            }
        }
        self.stored.agrees(&self.shard, self.now);
        out
    }

    fn settled(&mut self, request: RequestId, tasks: &[u32]) {
        if let Some(ask) = self.asks.get_mut(&request) {
            ask.tasks.retain(|task| !tasks.contains(&task.index));
            if ask.tasks.is_empty() {
                self.asks.remove(&request);
            }
        }
    }

    fn event(&mut self, event: Event) -> String {
        let effects = self.shard.step(self.now, event);
        self.take(effects)
    }

    fn notice(&mut self, host: &str, change: impl FnOnce(&mut HostCondition)) -> String {
        let host: HostId = host.parse().unwrap();
        let condition = self.conditions.entry(host.clone()).or_insert_with(|| HostCondition {
            host: host.clone(),
            health: HostHealth::Ready,
            cordoned: false,
            drain: None,
        });
        change(condition);
        let condition = condition.clone();
        self.event(Event::HostNotice(HostNotice { info: host_info(&host), condition }))
    }

    fn statuses(&self, words: &[&str]) -> Vec<ContainerStatus> {
        words
            .iter()
            .map(|word| {
                let (container, phase) = word.split_once(':').unwrap();
                let id: ContainerId = format!("shop/{container}").parse().unwrap();
                let at = self.now;
                let ended = |status| ContainerPhase::Ended { status, at };
                let running = |ready| ContainerPhase::Running { started_at: at, pid: 7, ready };
                let phase = match phase {
                    "preparing" => ContainerPhase::Preparing,
                    "running" => running(false),
                    "ready" => running(true),
                    "stopping" => ContainerPhase::Stopping { kill_at: at + Millis::from_secs(10) },
                    "lost" => ended(ExitStatus::Unknown { reason: "gone".into() }),
                    "failed" => ended(ExitStatus::NotStarted { reason: "no image".into() }),
                    other => match other.strip_prefix("exit") {
                        Some(code) => ended(ExitStatus::Code { code: code.parse().unwrap() }),
                        None => ended(ExitStatus::Signal {
                            signal: other.strip_prefix("signal").unwrap().parse().unwrap(),
                            oom: false,
                        }),
                    },
                };
                ContainerStatus { id, phase }
            })
            .collect()
    }

    fn apply(&mut self, words: &Words<'_>) -> String {
        let secs = |text: &str| Millis::from_secs(text.parse().unwrap());
        let tasks = words.get("tasks").map_or(1, |tasks| tasks.parse().unwrap());
        let mut slice = slice(words.plain[1], tasks);
        let mut origin = Origin::Local;
        for (key, value) in &words.pairs {
            match *key {
                "tasks" => {}
                "slots" => slice.slots = value.split(',').map(|slot| slot.parse::<u32>().unwrap()).collect::<Slots>(),
                "image" => slice.spec.image = format!("oci:web:{value}"),
                "kind" => slice.spec.kind = if *value == "batch" { JobKind::Batch } else { JobKind::Service },
                "cpu" => slice.spec.resources.cpu = value.parse().unwrap(),
                "max_unavailable" => slice.spec.update.max_unavailable = value.parse().unwrap(),
                "min_healthy" => slice.spec.update.min_healthy = secs(value),
                "max_failures" => slice.spec.restart.max_failures = Some(value.parse().unwrap()),
                "policy" => {
                    slice.spec.restart.policy = match *value {
                        "never" => RestartPolicy::Never,
                        "on-failure" => RestartPolicy::OnFailure,
                        _ => RestartPolicy::Always,
                    }
                }
                "version" => {
                    origin = Origin::Federation;
                    slice.version = polder_types::SliceVersion(value.parse().unwrap());
                }
                "stopped" => slice.stopped = *value == "true",
                other => panic!("no such key: {other}"),
            }
        }
        self.replies += 1;
        self.event(Event::Apply { reply: ReplyId(self.replies), slice: Box::new(slice), origin })
    }

    fn grant(&mut self, words: &Words<'_>) -> String {
        let mut out = String::new();
        for (id, ask) in self.asks.clone() {
            let all: Vec<(u32, HostId)> = ask
                .tasks
                .iter()
                .filter_map(|task| {
                    let host = words.get(&task.index.to_string()).or_else(|| words.pairs.is_empty().then_some("h1"))?;
                    Some((task.index, host.parse().unwrap()))
                })
                .collect();
            if all.is_empty() {
                continue;
            }
            let grants = all.iter().map(|(index, host)| grant(&ask, *index, host)).collect();
            let done: Vec<u32> = all.iter().map(|(index, _)| *index).collect();
            self.settled(id, &done);
            let allocator = OwnerEpoch(self.allocator);
            out += &self.event(Event::Placement(PlacementAnswer::Granted { request: id, allocator, grants }));
        }
        out
    }

    fn pass(&mut self, time: Millis) -> String {
        let end = self.now + time;
        let mut out = String::new();
        while let Some(at) = self.shard.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            let effects = self.shard.wake(self.now);
            let done = self.take(effects);
            if !done.is_empty() {
                writeln!(out, "  at {}ms", self.now.0).unwrap();
                out += &done;
            }
        }
        self.now = end;
        out
    }

    fn show(&self, name: &str) -> String {
        let id = job(name);
        let Some(view) = self.shard.job_view(&id) else { return "  no such job\n".into() };
        let status = &view.status;
        let mut out = format!(
            "  wanted={} running={} ready={} updated={} completed={} failed={} leaving={} waiting={:?}\n",
            status.wanted,
            status.running,
            status.ready,
            status.updated,
            status.completed,
            status.failed,
            status.leaving,
            status.waiting
        );
        if let Some(update) = view.update {
            let wait = update.wait.map(|wait| wait.detail).unwrap_or_default();
            writeln!(
                out,
                "  update to g{}: {} done, {} under way, {} to come; {wait}",
                update.to, update.done, update.under_way, update.to_come
            )
            .unwrap();
        }
        for task in self.shard.task_views(&id) {
            write!(out, "  {} {}", task.task.index, task.state).unwrap();
            if let Some(wait) = task.wait {
                write!(out, ": {}; at {}ms: {}", wait.detail, wait.deadline.0, wait.then).unwrap();
            }
            out.push('\n');
        }
        out
    }

    fn run(&mut self, command: &str) -> String {
        let words = Words::of(command);
        let plain = &words.plain;
        match plain[0] {
            "apply" => self.apply(&words),
            "stop" | "delete" => {
                self.replies += 1;
                let (reply, job, origin) = (ReplyId(self.replies), job(plain[1]), Origin::Local);
                self.event(if plain[0] == "stop" {
                    Event::Stop { reply, job, origin }
                } else {
                    Event::Delete { reply, job, origin }
                })
            }
            "grant" => self.grant(&words),
            "no-room" => {
                let reason = if plain.get(1) == Some(&"spread") { RejectReason::Spread } else { RejectReason::Cpu };
                let report = PlacementReport { hosts: 3, rejected: BTreeMap::from([(reason, 3)]), quota: None };
                let asks: Vec<_> = self.asks.values().cloned().collect();
                asks.into_iter()
                    .map(|ask| {
                        let tasks = ask.tasks.iter().map(|task| task.index).collect();
                        self.event(Event::Placement(PlacementAnswer::Waiting {
                            request: ask.id,
                            tasks,
                            report: report.clone(),
                        }))
                    })
                    .collect()
            }
            "allocator" => {
                self.allocator = plain[1].parse().unwrap();
                self.asks.clear();
                let allocator = OwnerEpoch(self.allocator);
                self.event(Event::Placement(PlacementAnswer::Started { allocator }))
            }
            "report" => {
                let statuses = self.statuses(&plain[2..]);
                self.event(Event::HostReported { host: plain[1].parse().unwrap(), statuses })
            }
            "listed" => {
                let statuses = self.statuses(&plain[3..]);
                self.event(Event::HostListed {
                    host: plain[1].parse().unwrap(),
                    boot: BootId(plain[2].into()),
                    statuses,
                })
            }
            "refused" => {
                let why = match words.get("seen") {
                    Some(seen) => Refusal::StaleContainer { seen: Epoch(seen.parse().unwrap()) },
                    None => Refusal::Draining { version: DrainVersion(1) },
                };
                let container = format!("shop/{}", plain[2]).parse().unwrap();
                self.event(Event::HostRefused { host: plain[1].parse().unwrap(), container, why })
            }
            "prepared" => {
                let preparation = match plain[3] {
                    "under-way" => Preparation::UnderWay,
                    "done" => Preparation::Done,
                    _ => Preparation::Failed { reason: "no such layout".into() },
                };
                let container = format!("shop/{}", plain[2]).parse().unwrap();
                self.event(Event::HostPrepared { host: plain[1].parse().unwrap(), container, preparation })
            }
            "host" => {
                let now = self.now;
                let drain = words.get("drain").map(|secs| Millis::from_secs(secs.parse().unwrap()));
                match plain.get(2) {
                    Some(&"ready") => self.notice(plain[1], |host| host.health = HostHealth::Ready),
                    Some(&"silent") => self.notice(plain[1], |host| host.health = HostHealth::Unknown { since: now }),
                    Some(&"undrain") => self.notice(plain[1], |host| host.drain = None),
                    _ => self.notice(plain[1], |host| {
                        host.drain = drain.map(|secs| DrainOrder { version: DrainVersion(1), deadline: now + secs });
                    }),
                }
            }
            "after" => self.pass(Millis::from_secs(plain[1].parse().unwrap())),
            "restart" => {
                self.owner += 1;
                self.conditions.clear();
                let (shard, effects) = self.stored.restore(self.owner, self.now);
                self.shard = shard;
                self.take(effects)
            }
            "set-aside" => self.event(Event::Quarantine { job: job(plain[1]), reason: "it panicked".into() }),
            "show" => self.show(plain[1]),
            other => panic!("no such command: {other}"),
        }
    }
}
