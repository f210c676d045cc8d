//! A region in this process, and hosts that speak its protocol without running anything.

mod raw;

pub(crate) use raw::{RawLink, inventory};

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use polder_api::{
    client::Client,
    dto::{HostHealth, PartState},
    job_file::{Format, JobFile},
};
use polder_core::message::{DrainAttestation, HostOrder, HostReport, Preparation};
use polder_region::{RegionConfig, RunError, StoreConfig};
use polder_types::{
    BootId, Bytes as Memory, Capacity, ContainerId, ContainerPhase, ContainerStatus, Cpu, ExitStatus, HomeId, HostId,
    HostInfo, Incarnation, Millis, PortRange, Timestamp,
};
use polder_wire::{Hello, LINK_PATH, LogChunk, LogRequest, PROTOCOL_VERSION, ToHost, ToRegion, pack, unpack};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::TcpListener,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};
use tokio::{sync::oneshot, task::JoinHandle};
use tokio_tungstenite::tungstenite::Message;

/// A region node that can be stopped and started again on the same state.
pub(crate) struct TestRegion {
    pub(crate) url: String,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), RunError>>,
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub(crate) fn start_region(dir: &Path, port: u16) -> TestRegion {
    start_node("node-1", StoreConfig::Embedded { dir: dir.to_owned() }, port)
}

/// One of several nodes of a region.
pub(crate) fn start_node(name: &str, store: StoreConfig, port: u16) -> TestRegion {
    let config = RegionConfig {
        region: "eu".parse().unwrap(),
        node: name.parse().unwrap(),
        listen: ([127, 0, 0, 1], port).into(),
        advertise: format!("http://127.0.0.1:{port}"),
        store,
        shards: 4,
        silent_after: Millis(1500),
        lease_ttl: Duration::from_secs(10),
        federation: None,
    };
    let (stop, stopped) = oneshot::channel();
    let task = actix_web::rt::spawn(polder_region::run(config, async move {
        let _ = stopped.await;
    }));
    TestRegion { url: format!("http://127.0.0.1:{port}"), stop, task }
}

impl TestRegion {
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap().unwrap();
    }
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// What runs, with its pid.
    pub(crate) running: BTreeMap<ContainerId, u32>,
    /// How often each container was launched.
    pub(crate) launches: BTreeMap<ContainerId, u32>,
    pub(crate) ended: BTreeMap<ContainerId, ExitStatus>,
    /// Whether it ends nothing that is asked to stop; force still works.
    pub(crate) stubborn: bool,
    /// Logs that were asked for and not called off.
    pub(crate) logs: BTreeMap<u64, LogRequest>,
    /// What a link is to send next.
    pub(crate) say: Vec<ToRegion>,
    /// Images that it does not have.
    pub(crate) lacks: BTreeSet<String>,
    drain: Option<DrainAttestation>,
}

/// A host that pretends. What it "runs" outlives its links.
pub(crate) struct FakeHost {
    pub(crate) seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Timestamp(since.as_millis().try_into().unwrap())
}

fn info(name: &str, datacenter: &str) -> HostInfo {
    HostInfo {
        id: name.parse().unwrap(),
        datacenter: datacenter.parse().unwrap(),
        power_domain: format!("{datacenter}-p").parse().unwrap(),
        rack: format!("{datacenter}-r").parse().unwrap(),
        capacity: Capacity {
            cpu: Cpu::from_centi_cores(400),
            memory: Memory::from_mib(4096),
            ports: PortRange { first: 20_000, last: 20_099 },
        },
        labels: BTreeMap::new(),
        address: "127.0.0.1".to_owned(),
        agent: "test".to_owned(),
    }
}

impl FakeHost {
    pub(crate) fn start(url: &str, name: &str, datacenter: &str) -> Self {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let task = tokio::task::spawn_local(live(url.to_owned(), info(name, datacenter), Arc::clone(&seen)));
        Self { seen, task }
    }

    /// Falls silent. What it runs, it runs on.
    pub(crate) fn cut(&self) {
        self.task.abort();
    }

    pub(crate) fn resume(&mut self, url: &str, name: &str, datacenter: &str) {
        self.task = tokio::task::spawn_local(live(url.to_owned(), info(name, datacenter), Arc::clone(&self.seen)));
    }

    pub(crate) fn running(&self) -> Vec<ContainerId> {
        self.seen.lock().unwrap().running.keys().cloned().collect()
    }
}

impl Drop for FakeHost {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn live(url: String, info: HostInfo, seen: Arc<Mutex<Seen>>) {
    loop {
        let _ = link(&url, &info, &seen).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn boot() -> BootId {
    BootId("boot-1".to_owned())
}

async fn connect(url: &str) -> Result<Socket, Box<dyn std::error::Error>> {
    let address = format!("{}{LINK_PATH}", url.replace("http://", "ws://"));
    Ok(tokio_tungstenite::connect_async(address).await?.0)
}

fn hello(host: &HostId, home: HomeId, session: u64) -> ToRegion {
    ToRegion::Hello(Hello {
        protocol: PROTOCOL_VERSION,
        agent: "test".to_owned(),
        region: "eu".parse().unwrap(),
        host: host.clone(),
        boot: boot(),
        session,
        incarnation: Incarnation(0),
        home,
    })
}

async fn link(url: &str, info: &HostInfo, seen: &Mutex<Seen>) -> Result<(), Box<dyn std::error::Error>> {
    let boot = boot();
    let mut socket = connect(url).await?;
    let hello = hello(&info.id, HomeId(1), now().0);
    let (containers, drain) = {
        let seen = seen.lock().unwrap();
        (seen.running.keys().map(|id| status(&seen, id)).collect(), seen.drain.clone())
    };
    let inventory = HostReport::Inventory { info: info.clone(), boot: boot.clone(), containers, drain };
    send(&mut socket, &[hello, ToRegion::Report(inventory)]).await?;
    let mut alive = tokio::time::interval(Duration::from_millis(300));
    loop {
        tokio::select! {
            _ = alive.tick() => {
                let mut messages = vec![ToRegion::Report(HostReport::Alive)];
                messages.append(&mut seen.lock().unwrap().say);
                send(&mut socket, &messages).await?;
            }
            frame = socket.next() => {
                let Some(frame) = frame else { return Ok(()) };
                let Message::Binary(frame) = frame? else { continue };
                let mut reports = Vec::new();
                for message in unpack::<ToHost>(Bytes::from(frame.to_vec()))?.messages {
                    let mut seen = seen.lock().unwrap();
                    match message {
                        ToHost::Order(order) => reports.extend(obey(&mut seen, &boot, order).map(ToRegion::Report)),
                        ToHost::Log(request) => reports.extend(read_log(&mut seen, request)),
                        ToHost::LogCancel(cancel) => drop(seen.logs.remove(&cancel.id)),
                        ToHost::Welcome(_) | ToHost::Reject(_) => {}
                    }
                }
                send(&mut socket, &reports).await?;
            }
        }
    }
}

fn status(seen: &Seen, id: &ContainerId) -> ContainerStatus {
    let phase = match (seen.running.get(id), seen.ended.get(id)) {
        (Some(pid), _) => ContainerPhase::Running { started_at: now(), pid: *pid, ready: true },
        (None, Some(status)) => ContainerPhase::Ended { status: status.clone(), at: now() },
        (None, None) => {
            ContainerPhase::Ended { status: ExitStatus::NotStarted { reason: "not known here".to_owned() }, at: now() }
        }
    };
    ContainerStatus { id: id.clone(), phase }
}

fn attestation(seen: &mut Seen) -> Option<HostReport> {
    let remaining = seen.running.keys().cloned().collect();
    let drain = seen.drain.as_mut()?;
    drain.remaining = remaining;
    Some(HostReport::Drain(drain.clone()))
}

fn obey(seen: &mut Seen, boot: &BootId, order: HostOrder) -> impl Iterator<Item = HostReport> + use<> {
    let mut reports = Vec::new();
    match order {
        HostOrder::Start { container, .. } => {
            if !seen.running.contains_key(&container) && !seen.ended.contains_key(&container) {
                let pid = 1000 + u32::try_from(seen.launches.len()).unwrap();
                *seen.launches.entry(container.clone()).or_default() += 1;
                seen.running.insert(container.clone(), pid);
            }
            reports.push(HostReport::Changed { containers: vec![status(seen, &container)] });
        }
        HostOrder::Stop { container, .. } => {
            if !seen.stubborn && seen.running.remove(&container).is_some() {
                seen.ended.insert(container.clone(), ExitStatus::Signal { signal: 15, oom: false });
            }
            reports.push(HostReport::Changed { containers: vec![status(seen, &container)] });
            reports.extend(attestation(seen));
        }
        HostOrder::Forget { container, .. } => {
            seen.ended.remove(&container);
        }
        HostOrder::Prepare { container, image, .. } => {
            let preparation = if seen.lacks.contains(&image) {
                Preparation::Failed { reason: format!("there is no layout at {image}") }
            } else {
                Preparation::Done
            };
            reports.push(HostReport::Prepared { container, preparation });
        }
        HostOrder::Drain(order) => {
            let forced = Vec::new();
            seen.drain =
                Some(DrainAttestation { version: order.version, boot: boot.clone(), remaining: Vec::new(), forced });
            reports.extend(attestation(seen));
        }
        HostOrder::ForceDrain { .. } => {
            let killed: Vec<ContainerId> = std::mem::take(&mut seen.running).into_keys().collect();
            for container in &killed {
                seen.ended.insert(container.clone(), ExitStatus::Signal { signal: 9, oom: false });
                reports.push(HostReport::Changed { containers: vec![status(seen, container)] });
            }
            if let Some(drain) = &mut seen.drain {
                drain.forced.extend(killed);
            }
            reports.extend(attestation(seen));
        }
        HostOrder::EndDrain { .. } => seen.drain = None,
    }
    reports.into_iter()
}

/// A log of two lines, the second of which comes only to those who do not follow.
fn read_log(seen: &mut Seen, request: LogRequest) -> Vec<ToRegion> {
    let piece = |text: String, eof| LogChunk { id: request.id, bytes: text.into(), eof, error: None };
    if !seen.running.keys().any(|container| container.task == request.task) {
        let error = Some(format!("this host has no log of {}", request.task));
        return vec![ToRegion::Log(LogChunk { id: request.id, bytes: Bytes::new(), eof: true, error })];
    }
    let mut pieces = vec![ToRegion::Log(piece(format!("{} says hello\n", request.task), false))];
    if request.follow {
        seen.logs.insert(request.id, request);
    } else {
        pieces.push(ToRegion::Log(piece("and goodbye\n".to_owned(), true)));
    }
    pieces
}

type Socket = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

async fn send(socket: &mut Socket, messages: &[ToRegion]) -> Result<(), Box<dyn std::error::Error>> {
    for frame in pack(messages)? {
        socket.send(Message::Binary(frame.to_vec().into())).await?;
    }
    Ok(())
}

/// A service of account `demo` that is called `web`.
pub(crate) fn job(tasks: u32, extra: &str) -> JobFile {
    let text = format!(
        "account = \"demo\"\nname = \"web\"\nkind = \"service\"\ntasks = {tasks}\nimage = \"oci:/images/demo\"\n{extra}\n[resources]\ncpu = 0.5\nmemory = \"64MiB\"\n"
    );
    polder_api::job_file::parse(text.as_bytes(), Format::Toml).unwrap().file
}

/// How [`job`] is.
pub(crate) async fn state(client: &Client) -> Option<PartState> {
    client.job(&"demo/web".parse().unwrap()).await.ok().map(|status| status.state)
}

/// A client of a region, when that is ready and hears so many hosts.
pub(crate) async fn ready(region: &TestRegion, hosts: usize) -> Client {
    let client = Client::new(&region.url).unwrap();
    eventually("the region is ready", || async { client.ready().await.is_ok_and(|ready| ready.ready) }).await;
    eventually("its hosts are heard", || async {
        let list = client.all_hosts().await.unwrap_or_default();
        list.hosts.iter().filter(|host| host.health == HostHealth::Ready).count() == hosts
    })
    .await;
    client
}

/// Waits until `done` says so; fails after a generous time with what was waited for.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut done: impl FnMut() -> F) {
    for _ in 0..1800 {
        if done().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never happened: {what}");
}
