//! A region that is only its API, and a federation node to run over it.

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use polder_api::{
    Code, Problem,
    client::Client,
    dto::*,
    job_file::JobFile,
    server::{Front, RegionFront, Stream, configure_region},
};
use polder_federation::{FederationConfig, RegionAddress, RunError};
use polder_store::{EmbeddedStore, Store};
use polder_types::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{SocketAddr, TcpListener},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::{broadcast, oneshot};

/// Waits for something to become true; fails loudly if it never does.
pub(crate) async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..3000 {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap()
}

pub(crate) fn id<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    text.parse().unwrap()
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) slices: BTreeMap<JobId, Slice>,
    /// Tasks with a container, also of slots that were taken away.
    pub(crate) running: BTreeSet<TaskId>,
    pub(crate) allotments: BTreeMap<AccountId, Allotment>,
    pub(crate) cordoned: bool,
}

/// A region that starts what it is told at once, and ends what was taken away when the test says so.
pub(crate) struct FakeRegion {
    pub(crate) id: RegionId,
    pub(crate) state: Mutex<State>,
    pub(crate) puts: AtomicU64,
    pub(crate) keeps: AtomicBool,
    /// Names of jobs that were submitted to this region itself.
    pub(crate) taken: Mutex<BTreeSet<JobId>>,
    clock: AtomicU64,
    changes: broadcast::Sender<JobId>,
}

impl FakeRegion {
    fn new(id: &str) -> Self {
        Self {
            id: self::id(id),
            state: Mutex::default(),
            puts: AtomicU64::new(0),
            keeps: AtomicBool::new(false),
            taken: Mutex::default(),
            clock: AtomicU64::new(1),
            changes: broadcast::Sender::new(64),
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.clock.fetch_add(1, Ordering::SeqCst))
    }

    /// Does what its slices say; what is to end ends only if the region does not keep it.
    pub(crate) fn settle(&self) {
        let mut state = self.state.lock().unwrap();
        let state = &mut *state;
        let keeps = self.keeps.load(Ordering::SeqCst);
        let slices = &state.slices;
        state.running.retain(|task| {
            keeps || slices.get(&task.job).is_some_and(|slice| !slice.stopped && slice.slots.contains(task.index))
        });
        for slice in slices.values().filter(|slice| !slice.stopped) {
            state.running.extend(slice.tasks());
        }
        for job in state.slices.keys() {
            let _ = self.changes.send(job.clone());
        }
    }

    fn status(&self, job: &JobId) -> Option<SliceStatus> {
        let state = self.state.lock().unwrap();
        let slice = state.slices.get(job)?;
        let all: Vec<&TaskId> = state.running.iter().filter(|task| task.job == *job).collect();
        let running = all.iter().filter(|task| slice.slots.contains(task.index)).count() as u32;
        Some(SliceStatus {
            job: job.clone(),
            version: slice.version,
            stopped: slice.stopped,
            as_of: self.now(),
            wanted: if slice.stopped { 0 } else { slice.slots.count() },
            running,
            ready: running,
            updated: running,
            completed: 0,
            failed: 0,
            leaving: all.len() as u32 - running,
            stuck: 0,
            waiting: Vec::new(),
        })
    }

    fn host(&self) -> HostView {
        HostView {
            id: id("h1"),
            region: self.id.clone(),
            datacenter: id("dc"),
            power_domain: id("p"),
            rack: id("r"),
            address: "127.0.0.1".into(),
            health: HostHealth::Ready,
            last_heard: Timestamp(1),
            cordoned: self.state.lock().unwrap().cordoned,
            drain: None,
            capacity: HostRoom::default(),
            used: HostRoom::default(),
            ports: PortRange { first: 1, last: 2 },
            tasks: 0,
            labels: BTreeMap::new(),
            agent: "test".into(),
        }
    }

    pub(crate) fn slots(&self, job: &str) -> Vec<u32> {
        let state = self.state.lock().unwrap();
        state.slices.get(&id(job)).map(|slice| slice.slots.iter().collect()).unwrap_or_default()
    }
}

fn nothing() -> Problem {
    Problem::new(Code::PathNotFound, "the fake has none")
}

struct Api(Arc<FakeRegion>);

#[async_trait(?Send)]
impl Front for Api {
    async fn jobs(&self, _: Page) -> Result<JobList, Problem> {
        Err(nothing())
    }
    async fn job(&self, job: JobId) -> Result<JobStatus, Problem> {
        let state = self.0.state.lock().unwrap();
        let missing = || Problem::new(Code::JobNotFound, "no such job");
        let slice = state.slices.get(&job).ok_or_else(missing)?;
        let view = |task: TaskId| TaskView {
            region: self.0.id.clone(),
            host: Some(id("h1")),
            epoch: Epoch(1),
            generation: Generation(1),
            phase: if state.running.contains(&task) { TaskPhase::Running } else { TaskPhase::Starting },
            ready: true,
            since: Timestamp(1),
            restarts: 0,
            pid: None,
            ports: Vec::new(),
            waiting: None,
            last_exit: None,
            task,
        };
        Ok(JobStatus {
            state: PartState::Healthy,
            generation: Generation(1),
            spec: JobFile::from(&slice.spec),
            regions: Vec::new(),
            tasks: slice.tasks().map(view).collect(),
            job,
        })
    }
    async fn apply_job(&self, _: JobSpec) -> Result<ApplyResponse, Problem> {
        Err(nothing())
    }
    async fn stop_job(&self, _: JobId) -> Result<StopResponse, Problem> {
        Err(nothing())
    }
    async fn delete_job(&self, _: JobId) -> Result<DeleteResponse, Problem> {
        Err(nothing())
    }
    async fn why(&self, task: TaskId) -> Result<WhyView, Problem> {
        Ok(WhyView {
            task,
            region: self.0.id.clone(),
            host: None,
            phase: TaskPhase::Running,
            summary: "because".into(),
            considered: 1,
            rejected: Vec::new(),
            waiting: None,
        })
    }
    async fn logs(&self, task: TaskId, _: LogQuery) -> Result<Stream<Result<Bytes, Problem>>, Problem> {
        let text = format!("{task} in {}\n", self.0.id);
        Ok(stream::once(async { Ok(Bytes::from(text)) }).boxed_local())
    }
    async fn hosts(&self, _: Page) -> Result<HostList, Problem> {
        Ok(HostList { hosts: vec![self.0.host()], parts: Vec::new(), next: None })
    }
    async fn readmit(&self, _: HostId, _: Note) -> Result<HostView, Problem> {
        Err(Problem::new(Code::Internal, "not asked for here"))
    }
    async fn set_cordon(&self, _: HostId, cordoned: bool) -> Result<HostView, Problem> {
        self.0.state.lock().unwrap().cordoned = cordoned;
        Ok(self.0.host())
    }
    async fn begin_drain(&self, _: HostId, _: DrainRequest) -> Result<DrainView, Problem> {
        Err(nothing())
    }
    async fn drain(&self, _: HostId) -> Result<DrainView, Problem> {
        Err(nothing())
    }
    async fn abort_drain(&self, _: HostId) -> Result<DrainView, Problem> {
        Err(nothing())
    }
    async fn quotas(&self) -> Result<QuotaList, Problem> {
        let state = self.0.state.lock().unwrap();
        let used = Amounts { tasks: state.running.len() as u32, ..Amounts::default() };
        let view = |allotment: &Allotment| QuotaView {
            account: allotment.account.clone(),
            limit: allotment.limit,
            used,
            regions: Vec::new(),
        };
        Ok(QuotaList { quotas: state.allotments.values().map(view).collect() })
    }
    async fn quota(&self, _: AccountId) -> Result<QuotaView, Problem> {
        Err(nothing())
    }
    async fn set_quota(&self, _: AccountId, _: QuotaRequest) -> Result<QuotaView, Problem> {
        Err(nothing())
    }
    async fn remove_quota(&self, _: AccountId) -> Result<QuotaRemoved, Problem> {
        Err(nothing())
    }
    async fn events(&self) -> Result<EventList, Problem> {
        let event = EventView {
            at: Timestamp(5),
            region: Some(self.0.id.clone()),
            level: Level::Info,
            kind: "task_started".into(),
            subject: "a/b/0".into(),
            message: "it runs".into(),
        };
        Ok(EventList { events: vec![event] })
    }
    async fn follow_events(&self) -> Result<Stream<EventView>, Problem> {
        Ok(stream::iter(self.events().await?.events).chain(stream::pending()).boxed_local())
    }
    async fn actors(&self) -> Result<ActorList, Problem> {
        Ok(ActorList::default())
    }

    async fn metrics(&self) -> String {
        "polder_build_info{role=\"region\"} 1\n".to_owned()
    }

    async fn ready(&self) -> Ready {
        Ready {
            ready: true,
            role: "region".into(),
            region: Some(self.0.id.clone()),
            version: "test".into(),
            checks: Vec::new(),
        }
    }
}

#[async_trait(?Send)]
impl RegionFront for Api {
    async fn put_slice(&self, slice: Slice) -> Result<SliceStatus, Problem> {
        self.0.puts.fetch_add(1, Ordering::SeqCst);
        let job = slice.spec.id.clone();
        {
            let mut state = self.0.state.lock().unwrap();
            if self.0.taken.lock().unwrap().contains(&job) {
                return Err(Problem::new(Code::JobNameTaken, "submitted here"));
            }
            if state.slices.get(&job).is_some_and(|has| has.version > slice.version) {
                return Err(Problem::new(Code::VersionConflict, "older"));
            }
            state.slices.insert(job.clone(), slice);
        }
        self.0.settle();
        self.0.status(&job).ok_or_else(nothing)
    }
    async fn delete_slice(&self, job: JobId, version: SliceVersion) -> Result<DeleteResponse, Problem> {
        let mut state = self.0.state.lock().unwrap();
        let slice = state.slices.get(&job).ok_or_else(|| Problem::new(Code::JobNotFound, "no such job"))?;
        if !slice.stopped || slice.version > version || state.running.iter().any(|task| task.job == job) {
            return Err(Problem::new(Code::JobNotGone, "something is left"));
        }
        state.slices.remove(&job);
        Ok(DeleteResponse { job, gone: true })
    }
    async fn slices(&self) -> Result<SliceList, Problem> {
        let jobs: Vec<JobId> = self.0.state.lock().unwrap().slices.keys().cloned().collect();
        let slices = jobs.iter().filter_map(|job| self.0.status(job)).collect();
        Ok(SliceList { region: self.0.id.clone(), slices })
    }
    async fn put_allotment(&self, allotment: Allotment) -> Result<Allotment, Problem> {
        let mut state = self.0.state.lock().unwrap();
        let held = state.allotments.entry(allotment.account.clone()).or_insert_with(|| allotment.clone());
        if held.version < allotment.version {
            *held = allotment;
        }
        Ok(held.clone())
    }
    async fn watch_status(&self) -> Result<Stream<SliceStatus>, Problem> {
        let changes = self.0.changes.subscribe();
        let before = stream::iter(self.slices().await?.slices);
        let region = Arc::clone(&self.0);
        let after = stream::unfold((changes, region), |(mut changes, region)| async move {
            loop {
                let job = changes.recv().await.ok()?;
                if let Some(status) = region.status(&job) {
                    return Some((status, (changes, region)));
                }
            }
        });
        Ok(before.chain(after).boxed_local())
    }
}

/// A region's server, which can be taken down and brought up again at the same address.
pub(crate) struct RegionServer {
    pub(crate) region: Arc<FakeRegion>,
    address: SocketAddr,
    server: Option<actix_web::dev::ServerHandle>,
}

impl RegionServer {
    pub(crate) fn start(id: &str) -> Self {
        let mut server = Self { region: Arc::new(FakeRegion::new(id)), address: free_address(), server: None };
        server.up();
        server
    }

    pub(crate) fn up(&mut self) {
        let region = Arc::clone(&self.region);
        let server = actix_web::HttpServer::new(move || {
            let front: Arc<dyn RegionFront> = Arc::new(Api(Arc::clone(&region)));
            actix_web::App::new().configure(configure_region(front))
        })
        .workers(1)
        .disable_signals()
        .bind(self.address)
        .unwrap()
        .run();
        self.server = Some(server.handle());
        actix_web::rt::spawn(server);
    }

    pub(crate) async fn down(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop(false).await;
        }
    }

    pub(crate) fn address(&self) -> RegionAddress {
        // The first address is dead: the next one must be found.
        let dead = format!("http://{}", free_address());
        RegionAddress { region: self.region.id.clone(), addresses: vec![dead, format!("http://{}", self.address)] }
    }
}

/// A federation node.
pub(crate) struct Node {
    pub(crate) client: Client,
    stop: oneshot::Sender<()>,
    ended: actix_web::rt::task::JoinHandle<Result<(), RunError>>,
}

pub(crate) async fn store(dir: &tempfile::TempDir) -> Arc<dyn Store> {
    let path = dir.path().join("store");
    Arc::new(tokio::task::spawn_blocking(move || EmbeddedStore::open(path)).await.unwrap().unwrap())
}

impl Node {
    pub(crate) fn start(name: &str, store: &Arc<dyn Store>, regions: Vec<RegionAddress>) -> Self {
        let listen = free_address();
        let config = FederationConfig {
            federation: id("world"),
            node: id(name),
            listen,
            advertise: format!("http://{listen}"),
            regions,
            lease_ttl: Duration::from_secs(5),
            silent_after: Millis(300),
        };
        let (stop, stopped) = oneshot::channel();
        let store = Arc::clone(store);
        let ended = actix_web::rt::spawn(polder_federation::run(config, store, async {
            let _ = stopped.await;
        }));
        Self { client: Client::new(&format!("http://{listen}")).unwrap(), stop, ended }
    }

    pub(crate) async fn ready(&self) {
        eventually("the node is ready", async || self.client.ready().await.ok().filter(|ready| ready.ready)).await;
    }

    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.ended.await.unwrap().unwrap();
    }
}

/// A job file over these regions.
pub(crate) fn job(tasks: u32, image: &str, regions: &str) -> JobFile {
    let text = format!("name = \"web\"\naccount = \"shop\"\nimage = \"oci:/{image}\"\ntasks = {tasks}\n{regions}");
    polder_api::job_file::parse(text.as_bytes(), polder_api::job_file::Format::Toml).unwrap().file
}
