//! A job shard in memory: its records, and beside them what hosts and the allocator said since this owner began.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    sync::Arc,
    vec::Vec,
};
use polder_types::{BootId, ContainerPhase, Epoch, Generation, HostId, JobId, JobKind, Millis, OwnerEpoch, Timestamp};

use super::{
    event::Config,
    prepare::Preparing,
    state::{JobRecord, Outcome, Placement, StopReason, TASKS_PER_CHUNK, TaskChunk, TaskRecord, Template},
};
use crate::message::{Charge, DrainOrder, HostCondition, HostHealth, PlacementReport, RequestId, TaskShape};

/// The owner of a share of a region's jobs. See this module's page.
#[derive(Debug)]
pub struct JobShard {
    pub(super) config: Config,
    /// The newest allocator that was heard of.
    pub(super) allocator: Option<OwnerEpoch>,
    pub(super) jobs: BTreeMap<JobId, Job>,
    /// Chunks whose job has no record. They are charged, and nothing is done about them.
    pub(super) orphans: Vec<TaskChunk>,
    pub(super) hosts: BTreeMap<HostId, Host>,
    /// Tasks with a placement on a host.
    pub(super) by_host: BTreeMap<HostId, BTreeSet<(JobId, u32)>>,
    /// Requests for room that are not answered in full.
    pub(super) asks: BTreeMap<RequestId, AskGroup>,
    pub(super) requests_made: u64,
    pub(super) due: BTreeSet<(Timestamp, Due)>,
    /// Containers that people were told of because no record knows them.
    pub(super) strangers: BTreeSet<polder_types::ContainerId>,
}

/// What has a deadline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Task(JobId, u32),
    Host(HostId),
    Request(RequestId),
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) record: JobRecord,
    /// Every slot that is wanted or has a record.
    pub(super) tasks: BTreeMap<u32, Task>,
    /// The newest template.
    pub(super) template: Template,
    /// Shapes by generation, made when asked for.
    pub(super) shapes: BTreeMap<Generation, Arc<TaskShape>>,
    /// Chunks that are stored.
    pub(super) chunks: BTreeSet<u32>,
    /// Tasks that are to be moved or come under a newer generation.
    pub(super) restless: BTreeSet<u32>,
    /// Whether people were told that it crash-loops.
    pub(super) crash_told: bool,
    /// The newest generation of which people were told that a host can't have its image.
    pub(super) image_told: Option<Generation>,
}

#[derive(Debug)]
pub(super) struct Task {
    pub(super) record: TaskRecord,
    /// Whether the job is to have this task now.
    pub(super) wanted: bool,
    /// What is known of each of its placements.
    pub(super) live: Vec<Live>,
    pub(super) ask: Option<Ask>,
    /// A host that just failed it.
    pub(super) avoid: Option<HostId>,
    /// What is known of the image of its next container, while the current one is to give way to it.
    pub(super) preparing: Option<Preparing>,
    /// No room is asked for before this.
    pub(super) ask_after: Option<Timestamp>,
    pub(super) due: Option<Timestamp>,
}

/// What is known of a container since this owner began.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) epoch: Epoch,
    /// Its phase when last reported; never `Ended`.
    pub(super) phase: Option<ContainerPhase>,
    /// Whether its host has said anything that covers it.
    pub(super) heard: bool,
    /// The request that it was granted by, if this owner placed it.
    pub(super) granted_by: Option<RequestId>,
    /// Since when its host's inventory is without it though it should be there.
    pub(super) missing_since: Option<Timestamp>,
    /// Whether its host refused to start it.
    pub(super) refused: bool,
    /// Whether its host has ever said that it has it.
    pub(super) seen: bool,
    pub(super) started_at: Option<Timestamp>,
    pub(super) ready_since: Option<Timestamp>,
    /// Orders sent in a row.
    pub(super) tries: u32,
    /// When its order is sent next. None waits for the host to be heard.
    pub(super) order_at: Option<Timestamp>,
    /// Why its host was chosen.
    pub(super) why: Option<String>,
}

/// A task's part in a request for room.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) id: RequestId,
    pub(super) epoch: Epoch,
    pub(super) since: Timestamp,
    pub(super) report: Option<PlacementReport>,
}

/// A request for room.
#[derive(Debug)]
pub(super) struct AskGroup {
    pub(super) job: JobId,
    pub(super) generation: Generation,
    pub(super) shape: Arc<TaskShape>,
    /// Slots that were not granted, and what each is to avoid.
    pub(super) tasks: BTreeMap<u32, Option<HostId>>,
    pub(super) tries: u32,
    pub(super) repeat_at: Timestamp,
}

#[derive(Debug, Default)]
pub(super) struct Host {
    pub(super) condition: Option<HostCondition>,
    pub(super) boot: Option<BootId>,
    /// When it is asked for its inventory.
    pub(super) relist_at: Option<Timestamp>,
    pub(super) relist_tries: u32,
}

impl Host {
    pub(super) fn silent_since(&self) -> Option<Timestamp> {
        match self.condition.as_ref()?.health {
            HostHealth::Unknown { since } => Some(since),
            HostHealth::Ready => None,
        }
    }

    pub(super) fn drain(&self) -> Option<DrainOrder> {
        self.condition.as_ref()?.drain
    }
}

/// What a shard knows of one of its tasks' readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// Ready since then.
    Ready(Timestamp),
    /// Not ready: stopping it takes nothing away.
    NotReady,
    /// Its host has not been heard.
    Unknown,
}

impl Live {
    pub(super) const fn restored(epoch: Epoch) -> Self {
        Self {
            epoch,
            phase: None,
            heard: false,
            granted_by: None,
            missing_since: None,
            refused: false,
            seen: false,
            started_at: None,
            ready_since: None,
            tries: 0,
            order_at: None,
            why: None,
        }
    }
}

impl Task {
    pub(super) fn new(record: TaskRecord, wanted: bool) -> Self {
        let live = record.placements().map(|placement| Live::restored(placement.epoch)).collect();
        Self { record, wanted, live, ask: None, avoid: None, preparing: None, ask_after: None, due: None }
    }

    pub(super) fn live(&self, epoch: Epoch) -> Option<&Live> {
        self.live.iter().find(|live| live.epoch == epoch)
    }

    pub(super) fn live_mut(&mut self, epoch: Epoch) -> Option<&mut Live> {
        self.live.iter_mut().find(|live| live.epoch == epoch)
    }

    pub(super) fn current_live(&self) -> Option<&Live> {
        self.live(self.record.current.as_ref()?.epoch)
    }

    /// Whether it is to have a container now or later.
    pub(super) const fn startable(&self) -> bool {
        self.wanted && self.record.outcome.is_none()
    }

    pub(super) fn readiness(&self, hosts: &BTreeMap<HostId, Host>) -> Readiness {
        let Some(current) = &self.record.current else { return Readiness::NotReady };
        if hosts.get(&current.host).is_some_and(|host| host.silent_since().is_some()) {
            return Readiness::Unknown;
        }
        match self.live(current.epoch) {
            Some(live) if live.heard => live.ready_since.map_or(Readiness::NotReady, Readiness::Ready),
            _ => Readiness::Unknown,
        }
    }

    /// Whether it has been ready, and not on its way out, for so long.
    pub(super) fn settled(&self, hosts: &BTreeMap<HostId, Host>, min_healthy: Millis, now: Timestamp) -> bool {
        let staying = self.record.current.as_ref().is_some_and(|current| current.stop.is_none());
        staying && matches!(self.readiness(hosts), Readiness::Ready(since) if since + min_healthy <= now)
    }

    /// Whether its record says anything that could not be made up again.
    pub(super) fn is_blank(&self) -> bool {
        let record = &self.record;
        record.epoch == Epoch(0)
            && record.is_gone()
            && record.failures == 0
            && record.restarts == 0
            && record.restart_at.is_none()
            && record.last_exit.is_none()
            && record.outcome.is_none()
    }
}

impl Job {
    pub(super) fn new(record: JobRecord) -> Self {
        Self {
            template: Template::of(&record.slice.spec),
            record,
            tasks: BTreeMap::new(),
            shapes: BTreeMap::new(),
            chunks: BTreeSet::new(),
            restless: BTreeSet::new(),
            crash_told: false,
            image_told: None,
        }
    }

    pub(super) fn template_of(&self, generation: Generation) -> Option<&Template> {
        if generation == self.record.generation {
            return Some(&self.template);
        }
        self.record.older.iter().find(|older| older.generation == generation).map(|older| &older.template)
    }

    /// Whether two generations make the same containers: going back to an earlier spec moves nothing that still runs it.
    pub(super) fn same(&self, one: Generation, other: Generation) -> bool {
        one == other
            || matches!((self.template_of(one), self.template_of(other)), (Some(one), Some(other)) if one == other)
    }

    pub(super) fn is_newest(&self, generation: Generation) -> bool {
        self.same(generation, self.record.generation)
    }

    pub(super) fn shape(&mut self, generation: Generation) -> Option<Arc<TaskShape>> {
        if let Some(shape) = self.shapes.get(&generation) {
            return Some(Arc::clone(shape));
        }
        let template = self.template_of(generation)?;
        let shape = Arc::new(TaskShape {
            resources: template.resources,
            ports: template.ports.clone(),
            constraints: template.constraints.clone(),
            spread: template.spread,
            priority: self.record.slice.spec.priority,
        });
        self.shapes.insert(generation, Arc::clone(&shape));
        Some(shape)
    }

    pub(super) const fn is_batch(&self) -> bool {
        matches!(self.record.slice.spec.kind, JobKind::Batch)
    }

    /// Why a task's container should give way to another one, if it should.
    pub(super) fn move_reason(&self, task: &Task, hosts: &BTreeMap<HostId, Host>) -> Option<StopReason> {
        let current = task.record.current.as_ref()?;
        if hosts.get(&current.host).is_some_and(|host| host.drain().is_some()) {
            return Some(StopReason::Drained);
        }
        // A batch task that runs is left to its work: it comes under the newer generation when it starts again.
        (!self.is_batch() && !self.same(current.generation, task.record.want)).then_some(StopReason::Updated)
    }

    /// Whether a task is behind the newest generation, so that a release has yet to reach it.
    pub(super) fn is_behind(&self, task: &Task) -> bool {
        let runs = self.is_batch() && task.record.current.is_some();
        task.startable() && !runs && !self.is_newest(task.record.want)
    }

    pub(super) fn chunk(&self, number: u32) -> TaskChunk {
        let first = number.saturating_mul(TASKS_PER_CHUNK);
        let last = first.saturating_add(TASKS_PER_CHUNK - 1);
        let tasks = self.tasks.range(first..=last).filter(|(_, task)| !task.is_blank());
        TaskChunk { job: self.record.id().clone(), number, tasks: tasks.map(|(_, task)| task.record.clone()).collect() }
    }

    pub(super) fn containers(&self) -> impl Iterator<Item = (u32, &Placement)> {
        self.tasks.iter().flat_map(|(index, task)| task.record.placements().map(move |placement| (*index, placement)))
    }

    /// Whether all its tasks have done their work.
    pub(super) fn all_completed(&self) -> bool {
        self.tasks.values().filter(|task| task.wanted).all(|task| task.record.outcome == Some(Outcome::Completed))
    }
}

impl JobShard {
    /// Everything that its records charge.
    pub fn charges(&self) -> impl Iterator<Item = Charge> + '_ {
        let jobs = self.jobs.values().flat_map(|job| {
            let id = job.record.id();
            job.tasks.values().flat_map(move |task| task.record.charges(id))
        });
        let orphans =
            self.orphans.iter().flat_map(|chunk| chunk.tasks.iter().flat_map(move |task| task.charges(&chunk.job)));
        jobs.chain(orphans)
    }

    pub(super) fn task_mut(&mut self, job: &JobId, index: u32) -> Option<&mut Task> {
        self.jobs.get_mut(job)?.tasks.get_mut(&index)
    }

    /// Brings the index of a host up to date with one task.
    pub(super) fn reindex(&mut self, host: &HostId, job: &JobId, index: u32) {
        let holds = self
            .jobs
            .get(job)
            .and_then(|job| job.tasks.get(&index))
            .is_some_and(|task| task.record.placements().any(|placement| placement.host == *host));
        if holds {
            self.by_host.entry(host.clone()).or_default().insert((job.clone(), index));
        } else if let Some(tasks) = self.by_host.get_mut(host) {
            tasks.remove(&(job.clone(), index));
            if tasks.is_empty() {
                self.by_host.remove(host);
            }
        }
    }

    pub(super) fn set_task_due(&mut self, job: &JobId, index: u32, at: Option<Timestamp>) {
        let Some(task) = self.jobs.get_mut(job).and_then(|job| job.tasks.get_mut(&index)) else { return };
        if task.due == at {
            return;
        }
        let old = core::mem::replace(&mut task.due, at);
        if let Some(old) = old {
            self.due.remove(&(old, Due::Task(job.clone(), index)));
        }
        if let Some(at) = at {
            self.due.insert((at, Due::Task(job.clone(), index)));
        }
    }

    pub(super) fn set_host_due(&mut self, host: &HostId, at: Option<Timestamp>) {
        let entry = self.hosts.entry(host.clone()).or_default();
        if entry.relist_at == at {
            return;
        }
        let old = core::mem::replace(&mut entry.relist_at, at);
        if let Some(old) = old {
            self.due.remove(&(old, Due::Host(host.clone())));
        }
        if let Some(at) = at {
            self.due.insert((at, Due::Host(host.clone())));
        }
    }
}

/// A time that doubles with each try.
pub(super) fn doubled(first: Millis, tries: u32, max: Millis) -> Millis {
    let factor = 1_u64.checked_shl(tries.min(32)).unwrap_or(u64::MAX);
    Millis(first.0.saturating_mul(factor).min(max.0))
}
