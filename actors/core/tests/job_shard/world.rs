//! A small world around a job shard: hosts that run containers, an allocator with room for a few, a broker that is
//! always right, a store; and everything between them can be late, lost or cut off.

mod allocator;
mod hosts;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use polder_core::{
    job_shard::{Effect, Event, JobShard, Origin, StopReason, TaskState},
    machine::{Durable, Effects, Machine},
    message::{
        DrainOrder, HostCondition, HostHealth, HostNotice, HostOrder, PlacementAnswer, PlacementNote, PlacementRequest,
        Preparation, ReplyId, RequestId,
    },
};
use polder_types::{ContainerId, ContainerPhase, Epoch, HostId, JobId, Millis, OwnerEpoch, Slice, TaskId, Timestamp};

use crate::script::{Stored, host_info};

/// Containers that a host has room for.
const ROOM: usize = 8;

/// What goes wrong with the next commit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Crash {
    /// Nothing of it became durable.
    Before,
    /// Only its first transaction did.
    Partly,
    /// All of it did, and nobody was told.
    After,
}

#[derive(Debug)]
struct SimHost {
    linked: bool,
    /// Since when its broker calls it silent.
    silent: Option<Timestamp>,
    cut_at: Timestamp,
    boot: u32,
    containers: BTreeMap<ContainerId, ContainerPhase>,
    /// The highest epoch seen of each task; on disk.
    seen: BTreeMap<TaskId, Epoch>,
    drain: Option<DrainOrder>,
    /// Images that are not to be had here.
    lacks: BTreeSet<String>,
    inbox: VecDeque<HostOrder>,
    outbox: VecDeque<Event>,
}

#[derive(Debug, Default)]
struct SimAllocator {
    epoch: u64,
    charged: BTreeMap<ContainerId, HostId>,
    granted: BTreeMap<(RequestId, u32), (ContainerId, HostId)>,
    pending: BTreeMap<RequestId, PlacementRequest>,
}

pub(crate) struct World {
    pub(crate) now: Timestamp,
    pub(crate) shard: JobShard,
    owner: u64,
    stored: Stored,
    hosts: BTreeMap<HostId, SimHost>,
    allocator: SimAllocator,
    notes: VecDeque<PlacementNote>,
    answers: VecDeque<PlacementAnswer>,
    pub(crate) crash: Option<Crash>,
    started: BTreeSet<ContainerId>,
    /// Containers of which a host last said to this owner that it can't have their image.
    imageless: BTreeSet<(HostId, ContainerId)>,
    replies: BTreeMap<u64, u32>,
}

fn live(phase: &ContainerPhase) -> bool {
    !matches!(phase, ContainerPhase::Ended { .. })
}

impl World {
    pub(crate) fn new(hosts: usize) -> Self {
        let stored = Stored::default();
        let (shard, _) = stored.restore(1, Timestamp(0));
        let host = |_| SimHost {
            linked: true,
            silent: None,
            cut_at: Timestamp(0),
            boot: 1,
            containers: BTreeMap::new(),
            seen: BTreeMap::new(),
            drain: None,
            lacks: BTreeSet::new(),
            inbox: VecDeque::new(),
            outbox: VecDeque::new(),
        };
        let hosts = (0..hosts).map(|number| (format!("h{number}").parse().unwrap(), host(number))).collect();
        let allocator = SimAllocator { epoch: 1, ..Default::default() };
        let mut world = Self {
            now: Timestamp(0),
            shard,
            owner: 1,
            stored,
            hosts,
            allocator,
            notes: VecDeque::new(),
            answers: VecDeque::new(),
            crash: None,
            started: BTreeSet::new(),
            imageless: BTreeSet::new(),
            replies: BTreeMap::new(),
        };
        world.tell_conditions();
        world
    }

    fn name(&self, number: usize) -> HostId {
        self.hosts.keys().nth(number % self.hosts.len()).unwrap().clone()
    }

    fn condition(&self, id: &HostId) -> HostCondition {
        let host = &self.hosts[id];
        let health = host.silent.map_or(HostHealth::Ready, |since| HostHealth::Unknown { since });
        HostCondition { host: id.clone(), health, cordoned: false, drain: host.drain }
    }

    fn tell_condition(&mut self, id: &HostId) {
        let condition = self.condition(id);
        self.event(Event::HostNotice(HostNotice { info: host_info(id), condition }));
    }

    fn tell_conditions(&mut self) {
        for id in self.hosts.keys().cloned().collect::<Vec<_>>() {
            self.tell_condition(&id);
        }
    }

    // ---- the shard ----

    pub(crate) fn event(&mut self, event: Event) {
        let before = self.voluntary();
        if let Event::HostPrepared { host, container, preparation } = &event {
            let key = (host.clone(), container.clone());
            match preparation {
                Preparation::Failed { .. } => drop(self.imageless.insert(key)),
                Preparation::Done => drop(self.imageless.remove(&key)),
                Preparation::UnderWay => {}
            }
        }
        let effects = self.shard.step(self.now, event);
        self.take(effects);
        self.check_budget(&before);
    }

    pub(crate) fn wake(&mut self) {
        let before = self.voluntary();
        let effects = self.shard.wake(self.now);
        self.take(effects);
        self.check_budget(&before);
    }

    fn take(&mut self, effects: Effects<JobShard>) {
        self.shard.check().unwrap();
        let (now, persist, after) = effects.split();
        self.carry_out(now);
        let fenced = persist.iter().any(|delta| {
            matches!(delta, polder_core::job_shard::Delta::FenceAllocator(epoch) if *epoch != OwnerEpoch(self.allocator.epoch))
        });
        if fenced {
            return self.restart();
        }
        let crash = if persist.is_empty() { None } else { self.crash.take() };
        let durable = match crash {
            Some(Crash::Before) => 0,
            Some(Crash::Partly) => persist.len() / 2,
            _ => persist.len(),
        };
        for delta in persist.into_iter().take(durable) {
            self.stored.commit(delta);
        }
        if crash.is_some() {
            return self.restart();
        }
        self.stored.agrees(&self.shard, self.now);
        self.carry_out(after.open(Durable::committed()));
    }

    /// The shard's owner dies and another one takes over.
    pub(crate) fn restart(&mut self) {
        self.owner += 1;
        self.imageless.clear();
        let (shard, effects) = self.stored.restore(self.owner, self.now);
        self.shard = shard;
        self.take(effects);
        self.tell_conditions();
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Allocator(note) => self.notes.push_back(note),
                Effect::Order { host, order } => {
                    self.check_order(&host, &order);
                    let host = self.hosts.get_mut(&host).unwrap();
                    if host.linked {
                        host.inbox.push_back(order);
                    }
                }
                Effect::AskInventory { host } => self.list(&host),
                Effect::Reply { reply, .. } => {
                    let answers = self.replies.entry(reply.0).or_default();
                    *answers += 1;
                    assert_eq!(*answers, 1, "one answer to each question");
                }
                Effect::Notice(_) | Effect::SliceChanged(_) => {}
            }
        }
    }

    /// No start without a durable record of it, and none while another container of the task may run, unless that
    /// one's host has been silent for as long as the job allows.
    fn check_order(&mut self, host: &HostId, order: &HostOrder) {
        let record = |container: &ContainerId| {
            let chunk = self.stored.chunks.get(&(container.task.job.clone(), container.task.index / 32))?;
            chunk.tasks.iter().find(|task| task.index == container.task.index)
        };
        match order {
            HostOrder::Start { container, .. } => {
                let task = record(container).expect("a start is on record");
                let current = task.current.as_ref().expect("what is started is current");
                assert_eq!((current.epoch, &current.host), (container.epoch, host), "what is started is current");
                if !self.started.insert(container.clone()) {
                    return;
                }
                let patience = self.stored.jobs[&container.task.job].slice.spec.replace_after;
                for (id, other) in &self.hosts {
                    let gone = other.silent.is_some_and(|since| since + patience <= self.now);
                    for (running, phase) in &other.containers {
                        assert!(
                            running.task != container.task || *running == *container || !live(phase) || gone,
                            "{container} is started while {running} may run on {id}"
                        );
                    }
                }
            }
            HostOrder::Stop { container, .. } => {
                if let Some(task) = record(container) {
                    let staying = task.placements().any(|at| at.epoch == container.epoch && at.stop.is_none());
                    assert!(!staying, "{container} is stopped before that is on record");
                }
            }
            _ => {}
        }
    }

    /// Tasks whose containers were ordered to give way, and whether they serve.
    fn voluntary(&self) -> BTreeMap<TaskId, bool> {
        let views = self.shard.job_ids().flat_map(|job| self.shard.task_views(job));
        let moved = views.filter_map(|view| {
            let current = view.current.as_ref()?;
            let serves = matches!(current.phase, Some(ContainerPhase::Running { ready: true, .. }));
            let moves = matches!(current.stop?.why, StopReason::Updated | StopReason::Drained);
            moves.then_some((view.task, serves))
        });
        moved.collect()
    }

    fn check_budget(&self, before: &BTreeMap<TaskId, bool>) {
        let now = self.voluntary();
        let stopped = now.iter().filter(|(task, serves)| **serves && !before.contains_key(*task));
        let stopped: Vec<_> = stopped.collect();
        for (task, _) in &stopped {
            let view = self.shard.task_view(task).unwrap();
            let next = view.next.as_ref().map(|next| (next.host.clone(), next.container.clone()));
            let gone = next.is_some_and(|next| self.imageless.contains(&next));
            assert!(!gone, "{task} was stopped for an image that its next host can't have");
        }
        let jobs: BTreeSet<&JobId> = stopped.into_iter().map(|(task, _)| &task.job).collect();
        for job in jobs {
            let max = self.shard.job_record(job).unwrap().slice.spec.update.max_unavailable;
            let views = self.shard.task_views(job);
            let down = views
                .iter()
                .filter(|view| view.wanted && view.outcome.is_none() && view.state != TaskState::Ready)
                .count();
            assert!(down <= max as usize, "{job}: {down} tasks are down after a task that served was stopped");
        }
    }

    // ---- all of it ----

    pub(crate) fn apply(&mut self, reply: u64, slice: Slice) {
        self.event(Event::Apply { reply: ReplyId(reply), slice: Box::new(slice), origin: Origin::Local });
    }

    pub(crate) fn pass(&mut self, time: Millis) {
        let end = self.now + time;
        while let Some(at) = self.shard.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.wake();
        }
        self.now = end;
    }

    /// Everything is well from now on; time passes until all is as it should be.
    pub(crate) fn recover(&mut self, jobs: &BTreeMap<JobId, Slice>) {
        self.crash = None;
        for number in 0..self.hosts.len() {
            self.heal(number);
            self.drain(number, false);
            let id = self.name(number);
            self.hosts.get_mut(&id).unwrap().lacks.clear();
        }
        for round in 0..400 {
            for _ in 0..6 {
                self.allocator_reads();
                self.allocator_grants();
                self.hear_allocator();
                for number in 0..self.hosts.len() {
                    self.host_obeys(number);
                    self.host_works(number);
                    self.host_reports(number);
                }
            }
            if self.as_wanted(jobs) {
                return;
            }
            let Some(at) = self.shard.next_deadline() else { panic!("it waits for nothing in round {round}") };
            self.now = self.now.max(at);
            self.wake();
        }
        let views: Vec<_> = self.shard.job_ids().flat_map(|job| self.shard.task_views(job)).collect();
        panic!("not as wanted after all that time: {views:#?}");
    }

    fn as_wanted(&self, jobs: &BTreeMap<JobId, Slice>) -> bool {
        jobs.iter().all(|(id, slice)| {
            let Some(record) = self.shard.job_record(id) else { return false };
            let views = self.shard.task_views(id);
            let wanted: BTreeSet<u32> = if slice.stopped { BTreeSet::new() } else { slice.slots.iter().collect() };
            views.iter().all(|view| {
                if wanted.contains(&view.task.index) {
                    let at = view.current.as_ref();
                    let newest = at.is_some_and(|at| {
                        at.generation == record.generation || {
                            let chunk = |older: &polder_core::job_shard::OlderTemplate| {
                                older.generation == at.generation
                                    && older.template == polder_core::job_shard::Template::of(&record.slice.spec)
                            };
                            record.older.iter().any(chunk)
                        }
                    });
                    view.state == TaskState::Ready && newest && view.next.is_none() && view.lingering.is_empty()
                } else {
                    view.current.is_none() && view.next.is_none() && view.lingering.is_empty()
                }
            })
        }) && self.runs_just(jobs)
    }

    /// Whether hosts run what is wanted and nothing else.
    fn runs_just(&self, jobs: &BTreeMap<JobId, Slice>) -> bool {
        let wanted: usize =
            jobs.values().filter(|slice| !slice.stopped).map(|slice| slice.slots.count() as usize).sum();
        let running = self.hosts.values().flat_map(|host| host.containers.values()).filter(|phase| live(phase)).count();
        running == wanted
    }
}
