//! A server of the API for tests: it remembers jobs, and plays a part that the names of jobs and hosts choose.
#![allow(dead_code, reason = "each test uses its part")]

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use polder_api::{
    Code, Problem,
    dto::*,
    job_file::JobFile,
    server::{self, Front, RegionFront, Stream},
};
use polder_types::*;
use std::{
    collections::BTreeMap,
    net::TcpListener,
    sync::{Arc, Mutex},
};

/// A time at which everything in the fake happens.
pub(crate) const NOW: Timestamp = Timestamp(1_700_000_000_000);

#[derive(Debug)]
struct Job {
    spec: JobSpec,
    generation: Generation,
    stopped: bool,
    asked: u32,
    /// How often the log of one of its tasks was opened.
    logs: u32,
}

/// What the fake remembers.
#[derive(Debug, Default)]
pub(crate) struct Fake {
    jobs: Mutex<BTreeMap<JobId, Job>>,
    drains: Mutex<BTreeMap<HostId, u32>>,
    quotas: Mutex<BTreeMap<AccountId, QuotaRequest>>,
}

/// A fake that serves on a free port of this machine, on a thread of its own.
pub(crate) struct Running {
    /// Where.
    pub address: String,
    handle: actix_web::dev::ServerHandle,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (handles, handle) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let front: Arc<dyn RegionFront> = Arc::new(Fake::default());
                let app = move || actix_web::App::new().configure(server::configure_region(Arc::clone(&front)));
                let server = actix_web::HttpServer::new(app)
                    .workers(1)
                    .disable_signals()
                    .shutdown_timeout(0)
                    .listen(listener)
                    .unwrap()
                    .run();
                handles.send(server.handle()).unwrap();
                server.await.unwrap();
            });
        });
        Self { address, handle: handle.recv().unwrap(), thread: Some(thread) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The order is sent by the call; the future would only wait for what the thread's end shows as well.
        drop(self.handle.stop(false));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn region() -> RegionId {
    RegionId::new("eu").unwrap()
}

fn not_found(job: &JobId) -> Problem {
    Problem::new(Code::JobNotFound, format!("`{job}`")).with_hint("`polder status` lists the jobs there are")
}

impl Job {
    /// Jobs called `stuck` never get well, `taken` are refused, `broken` fail; others are well, or done, from the second
    /// time somebody asks.
    fn state(&self) -> PartState {
        match (self.stopped, self.spec.id.name.as_str(), self.asked) {
            (true, _, 0..=1) => PartState::Stopping,
            (true, ..) => PartState::Stopped,
            (false, "stuck", _) => PartState::Degraded,
            (false, "taken", _) => PartState::Refused,
            (false, "broken", 2..) => PartState::Failed,
            (false, _, 0..=1) => PartState::Progressing,
            (false, ..) if self.spec.kind == JobKind::Batch => PartState::Completed,
            (false, ..) => PartState::Healthy,
        }
    }

    fn part(&self) -> RegionPart {
        let state = self.state();
        let wanted = if self.stopped { 0 } else { self.spec.tasks };
        let ready = if state == PartState::Healthy { wanted } else { 0 };
        RegionPart {
            region: region(),
            state,
            as_of: NOW,
            generation: self.generation,
            wanted,
            running: ready,
            ready,
            updated: wanted,
            completed: 0,
            failed: 0,
            detail: match state {
                PartState::Degraded => Some("2 tasks wait for room: not enough memory".to_owned()),
                PartState::Refused => Some("the region refuses it: the name is taken".to_owned()),
                _ => None,
            },
        }
    }

    fn task(&self, index: u32) -> TaskView {
        // Jobs called `again` restart whenever a log ends, three times.
        let again = self.spec.id.name.as_str() == "again";
        let healthy = self.state() == PartState::Healthy || again;
        let waits = self.state() == PartState::Degraded;
        TaskView {
            task: TaskId { job: self.spec.id.clone(), index },
            region: region(),
            host: healthy.then(|| HostId::new("h1").unwrap()),
            epoch: Epoch(if again { u64::from(self.logs.clamp(1, 3)) } else { 1 }),
            generation: self.generation,
            phase: if again && self.logs > 3 {
                TaskPhase::Completed
            } else if healthy {
                TaskPhase::Running
            } else {
                TaskPhase::Waiting
            },
            ready: healthy,
            since: NOW,
            restarts: 0,
            pid: healthy.then_some(4242),
            ports: self
                .spec
                .ports
                .iter()
                .filter(|_| healthy)
                .map(|port| PortView { name: port.name.clone(), port: 20_000, address: "10.0.0.1:20000".to_owned() })
                .collect(),
            waiting: waits.then(|| Wait {
                reason: "room".to_owned(),
                message: "not enough memory on 3 hosts".to_owned(),
                until: None,
            }),
            last_exit: None,
        }
    }
}

impl Fake {
    /// Hosts called `h1` get drained, `h2` is forced, `h3` is silent; `h4` never ends.
    fn drain_view(host: &HostId, asked: u32) -> DrainView {
        let state = match (host.as_str(), asked) {
            (_, 0) | ("h4", _) => DrainState::Draining,
            ("h1", _) => DrainState::Drained,
            ("h2", _) => DrainState::Forced,
            _ => DrainState::Unattested,
        };
        let task: TaskId = "shop/web/0".parse().unwrap();
        DrainView {
            host: host.clone(),
            version: DrainVersion(1),
            state,
            deadline: NOW + Millis::from_secs(600),
            reason: String::new(),
            owner: "tester".to_owned(),
            remaining: if matches!(state, DrainState::Drained | DrainState::Forced) {
                Vec::new()
            } else {
                vec![task.clone()]
            },
            moved: vec![MovedTask { task: task.clone(), host: HostId::new("h9").unwrap() }],
            forced: if state == DrainState::Forced { vec![ContainerId { task, epoch: Epoch(3) }] } else { Vec::new() },
        }
    }

    fn host_view(id: &HostId, cordoned: bool) -> HostView {
        HostView {
            id: id.clone(),
            region: region(),
            datacenter: DatacenterId::new("eu-a").unwrap(),
            power_domain: PowerDomainId::new("p1").unwrap(),
            rack: RackId::new("r1").unwrap(),
            address: "10.0.0.1".to_owned(),
            health: HostHealth::Ready,
            last_heard: NOW,
            cordoned,
            drain: None,
            capacity: HostRoom { cpu: Cpu::from_centi_cores(400), memory: Bytes::from_mib(8192) },
            used: HostRoom { cpu: Cpu::from_centi_cores(125), memory: Bytes::from_mib(1536) },
            ports: PortRange { first: 20_000, last: 29_999 },
            tasks: 5,
            labels: [(Label::new("disk").unwrap(), "ssd".to_owned())].into(),
            agent: "0.1.0".to_owned(),
        }
    }

    fn known(host: &HostId) -> Result<(), Problem> {
        if host.as_str().starts_with('h') {
            return Ok(());
        }
        Err(Problem::new(Code::HostNotFound, format!("`{host}`")).with_hint("`polder hosts` lists the hosts there are"))
    }

    fn quota_view(account: &AccountId, request: &QuotaRequest) -> QuotaView {
        let used = Amounts { cpu: Cpu::from_centi_cores(60), memory: Bytes::from_mib(384), tasks: 6 };
        let part = |(region, allotment): (&RegionId, &Amounts)| QuotaPart {
            region: region.clone(),
            allotment: *allotment,
            wanted: None,
            used,
            as_of: NOW,
        };
        QuotaView {
            account: account.clone(),
            limit: request.limit,
            used,
            regions: request.regions.iter().map(part).collect(),
        }
    }

    fn event(kind: &str, level: Level) -> EventView {
        EventView {
            at: NOW,
            region: Some(region()),
            level,
            kind: kind.to_owned(),
            subject: "shop/web/0".to_owned(),
            message: format!("what {kind} means"),
        }
    }
}

#[async_trait(?Send)]
impl Front for Fake {
    async fn jobs(&self, page: Page) -> Result<JobList, Problem> {
        let mut jobs = self.jobs.lock().unwrap();
        let after = page.after.as_deref().unwrap_or_default();
        let limit = page.limit as usize;
        let mut list = Vec::new();
        for (id, job) in jobs.iter_mut().filter(|(id, _)| id.to_string().as_str() > after).take(limit) {
            job.asked += 1;
            let part = job.part();
            list.push(JobSummary {
                job: id.clone(),
                kind: job.spec.kind,
                state: part.state,
                generation: job.generation,
                wanted: part.wanted,
                running: part.running,
                ready: part.ready,
                updated: part.updated,
                regions: vec![part],
            });
        }
        let full = list.len() == limit;
        let next = list.last().filter(|_| full).map(|job| job.job.to_string());
        Ok(JobList { jobs: list, next })
    }

    async fn job(&self, id: JobId) -> Result<JobStatus, Problem> {
        let mut jobs = self.jobs.lock().unwrap();
        let job = jobs.get_mut(&id).ok_or_else(|| not_found(&id))?;
        job.asked += 1;
        Ok(JobStatus {
            state: job.state(),
            generation: job.generation,
            spec: JobFile::from(&job.spec),
            regions: vec![job.part()],
            tasks: (0..job.part().wanted).map(|index| job.task(index)).collect(),
            job: id,
        })
    }

    async fn apply_job(&self, spec: JobSpec) -> Result<ApplyResponse, Problem> {
        if spec.id.account.as_str() == "poor" {
            let detail = "`poor` lacks 0.5 CPU and 2 tasks in `eu`";
            return Err(
                Problem::new(Code::QuotaExceeded, detail).with_hint("`polder quota get poor` shows what it has")
            );
        }
        let mut jobs = self.jobs.lock().unwrap();
        let id = spec.id.clone();
        let old = jobs.get(&id).map(|job| (job.generation, job.spec == spec && !job.stopped));
        let (generation, same) = old.unwrap_or_default();
        let generation = if same { generation } else { generation.next() };
        jobs.insert(id.clone(), Job { spec, generation, stopped: false, asked: 0, logs: 0 });
        Ok(ApplyResponse { job: id, generation, changed: !same })
    }

    async fn stop_job(&self, id: JobId) -> Result<StopResponse, Problem> {
        let mut jobs = self.jobs.lock().unwrap();
        let job = jobs.get_mut(&id).ok_or_else(|| not_found(&id))?;
        let changed = !job.stopped;
        job.stopped = true;
        job.asked = 0;
        Ok(StopResponse { job: id, changed })
    }

    async fn delete_job(&self, id: JobId) -> Result<DeleteResponse, Problem> {
        let mut jobs = self.jobs.lock().unwrap();
        let job = jobs.get(&id).ok_or_else(|| not_found(&id))?;
        if !job.stopped {
            let problem = Problem::new(Code::JobNotStopped, format!("`{id}`"));
            return Err(problem.with_hint(format!("`polder delete {id} --stop` stops it first")));
        }
        if job.state() != PartState::Stopped {
            return Err(Problem::new(Code::JobNotGone, format!("`{id}`: 2 containers")));
        }
        jobs.remove(&id);
        Ok(DeleteResponse { job: id, gone: true })
    }

    async fn why(&self, task: TaskId) -> Result<WhyView, Problem> {
        let rejection = |reason: &str, message: &str, hosts| Rejection {
            reason: reason.to_owned(),
            message: message.to_owned(),
            hosts,
        };
        Ok(WhyView {
            task,
            region: region(),
            host: None,
            phase: TaskPhase::Waiting,
            summary: "no host has room".to_owned(),
            considered: 5,
            rejected: vec![rejection("memory", "not enough memory", 3), rejection("cordoned", "cordoned", 2)],
            waiting: Some(Wait {
                reason: "room".to_owned(),
                message: "waits until a host has 64MiB more".to_owned(),
                until: None,
            }),
        })
    }

    async fn logs(&self, task: TaskId, query: LogQuery) -> Result<Stream<Result<bytes::Bytes, Problem>>, Problem> {
        let mut jobs = self.jobs.lock().unwrap();
        let job = jobs.get_mut(&task.job).ok_or_else(|| Problem::new(Code::TaskNotFound, format!("`{task}`")))?;
        job.logs += 1;
        let lines = 3 - query.tail.unwrap_or(3).min(3)..3;
        let text = move |n| Ok(bytes::Bytes::from(format!("{task} line {n}\n")));
        Ok(stream::iter(lines).map(text).boxed_local())
    }

    async fn hosts(&self, _: Page) -> Result<HostList, Problem> {
        let hosts = ["h1", "h2"].map(|name| Self::host_view(&HostId::new(name).unwrap(), name == "h2"));
        Ok(HostList {
            hosts: hosts.into(),
            parts: vec![PartAge { region: region(), as_of: NOW, reached: true }],
            next: None,
        })
    }

    async fn set_cordon(&self, host: HostId, cordoned: bool) -> Result<HostView, Problem> {
        Self::known(&host)?;
        Ok(Self::host_view(&host, cordoned))
    }

    async fn begin_drain(&self, host: HostId, _: DrainRequest) -> Result<DrainView, Problem> {
        Self::known(&host)?;
        self.drains.lock().unwrap().insert(host.clone(), 0);
        Ok(Self::drain_view(&host, 0))
    }

    async fn drain(&self, host: HostId) -> Result<DrainView, Problem> {
        let mut drains = self.drains.lock().unwrap();
        let asked =
            drains.get_mut(&host).ok_or_else(|| Problem::new(Code::DrainNotFound, format!("of the host `{host}`")))?;
        *asked += 1;
        Ok(Self::drain_view(&host, *asked))
    }

    async fn abort_drain(&self, host: HostId) -> Result<DrainView, Problem> {
        let view = Self::drain_view(&host, 0);
        match self.drains.lock().unwrap().remove(&host) {
            Some(_) => Ok(DrainView { state: DrainState::Aborted, ..view }),
            None => Err(Problem::new(Code::DrainNotFound, format!("of the host `{host}`"))),
        }
    }

    async fn readmit(&self, host: HostId, _: Note) -> Result<HostView, Problem> {
        self.set_cordon(host, false).await
    }

    async fn quotas(&self) -> Result<QuotaList, Problem> {
        let quotas = self.quotas.lock().unwrap();
        Ok(QuotaList { quotas: quotas.iter().map(|(account, request)| Self::quota_view(account, request)).collect() })
    }

    async fn quota(&self, account: AccountId) -> Result<QuotaView, Problem> {
        let quotas = self.quotas.lock().unwrap();
        let missing = || Problem::new(Code::QuotaNotFound, format!("of the account `{account}`"));
        quotas.get(&account).map(|request| Self::quota_view(&account, request)).ok_or_else(missing)
    }

    async fn set_quota(&self, account: AccountId, request: QuotaRequest) -> Result<QuotaView, Problem> {
        let view = Self::quota_view(&account, &request);
        self.quotas.lock().unwrap().insert(account, request);
        Ok(view)
    }

    async fn remove_quota(&self, account: AccountId) -> Result<QuotaRemoved, Problem> {
        let missing = || Problem::new(Code::QuotaNotFound, format!("of the account `{account}`"));
        self.quotas.lock().unwrap().remove(&account).ok_or_else(missing)?;
        Ok(QuotaRemoved { account })
    }

    async fn events(&self) -> Result<EventList, Problem> {
        Ok(EventList {
            events: vec![Self::event("task_started", Level::Info), Self::event("host_silent", Level::Warning)],
        })
    }

    async fn follow_events(&self) -> Result<Stream<EventView>, Problem> {
        Ok(stream::iter(self.events().await?.events).boxed_local())
    }

    async fn actors(&self) -> Result<ActorList, Problem> {
        Ok(ActorList::default())
    }

    async fn metrics(&self) -> String {
        "polder_build_info{role=\"region\"} 1\n".to_owned()
    }

    async fn ready(&self) -> Ready {
        Ready {
            ready: false,
            role: "region".to_owned(),
            region: Some(region()),
            version: "0.1.0".to_owned(),
            checks: Vec::new(),
        }
    }
}

#[async_trait(?Send)]
impl RegionFront for Fake {
    async fn put_slice(&self, slice: Slice) -> Result<SliceStatus, Problem> {
        if slice.version < SliceVersion(2) {
            return Err(Problem::new(Code::VersionConflict, "version 2 is here already"));
        }
        let wanted = slice.slots.count();
        Ok(SliceStatus {
            job: slice.spec.id,
            version: slice.version,
            stopped: slice.stopped,
            as_of: NOW,
            wanted,
            running: 0,
            ready: 0,
            updated: 0,
            completed: 0,
            failed: 0,
            leaving: 0,
            stuck: 0,
            waiting: vec![WaitCount { reason: "not enough memory".to_owned(), tasks: wanted }],
        })
    }

    async fn delete_slice(&self, job: JobId, version: SliceVersion) -> Result<DeleteResponse, Problem> {
        if version < SliceVersion(2) {
            return Err(Problem::new(Code::VersionConflict, "version 2 is here"));
        }
        Ok(DeleteResponse { job, gone: true })
    }

    async fn slices(&self) -> Result<SliceList, Problem> {
        Ok(SliceList { region: region(), slices: Vec::new() })
    }

    async fn put_allotment(&self, allotment: Allotment) -> Result<Allotment, Problem> {
        Ok(allotment)
    }

    async fn watch_status(&self) -> Result<Stream<SliceStatus>, Problem> {
        Err(Problem::new(Code::NotReady, "shards are being restored"))
    }
}
