//! A region node that takes links and otherwise does what a test says.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{SinkExt as _, StreamExt as _};
use polder_core::message::{DrainAttestation, HostOrder, HostReport, Preparation, Refusal};
use polder_types::{ContainerId, ContainerPhase, ContainerStatus, Incarnation};
use polder_wire::{Hello, LogChunk, Reject, ToHost, ToRegion, Welcome, pack, unpack};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
    time::timeout,
};
use tokio_tungstenite::{accept_async, tungstenite::Message};

use crate::harness::HANG;

/// What a link brought.
#[derive(Debug)]
pub(crate) enum Came {
    Hello(Hello),
    Message(ToRegion),
    Closed,
}

#[derive(Debug)]
enum Do {
    Say(ToHost),
    Close,
}

#[derive(Debug, Default)]
struct Conduct {
    reject: Option<String>,
    incarnation: u64,
    to_host: Option<mpsc::Sender<Do>>,
}

#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) address: SocketAddr,
    conduct: Arc<Mutex<Conduct>>,
    came: mpsc::Receiver<Came>,
    server: JoinHandle<()>,
    /// What the host said last of each container.
    pub(crate) phases: BTreeMap<ContainerId, ContainerPhase>,
    pub(crate) refusals: Vec<Refusal>,
    pub(crate) preparations: Vec<(ContainerId, Preparation)>,
    pub(crate) oath: Option<DrainAttestation>,
    pub(crate) hellos: Vec<Hello>,
    pub(crate) inventories: usize,
    pub(crate) log: Vec<LogChunk>,
}

impl Drop for Region {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Region {
    pub(crate) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let conduct = Arc::new(Mutex::new(Conduct { incarnation: 1, ..Conduct::default() }));
        let (sender, came) = mpsc::channel(4096);
        let server = tokio::spawn(serve(listener, Arc::clone(&conduct), sender));
        Self {
            address,
            conduct,
            came,
            server,
            phases: BTreeMap::new(),
            refusals: vec![],
            preparations: vec![],
            oath: None,
            hellos: vec![],
            inventories: 0,
            log: vec![],
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn reject_with(&self, reason: Option<&str>) {
        self.conduct.lock().unwrap().reject = reason.map(str::to_owned);
    }

    pub(crate) fn incarnation(&self, incarnation: u64) {
        self.conduct.lock().unwrap().incarnation = incarnation;
    }

    fn to_host(&self) -> mpsc::Sender<Do> {
        self.conduct.lock().unwrap().to_host.clone().expect("no link")
    }

    pub(crate) async fn say(&self, message: ToHost) {
        self.to_host().send(Do::Say(message)).await.unwrap();
    }

    pub(crate) async fn order(&self, order: HostOrder) {
        self.say(ToHost::Order(order)).await;
    }

    pub(crate) async fn close(&self) {
        self.to_host().send(Do::Close).await.unwrap();
    }

    fn learn(&mut self, statuses: Vec<ContainerStatus>) {
        self.phases.extend(statuses.into_iter().map(|status| (status.id, status.phase)));
    }

    /// Takes the next thing that comes.
    async fn take(&mut self) {
        match self.came.recv().await.expect("the played region ended") {
            Came::Hello(hello) => self.hellos.push(hello),
            Came::Closed => {}
            Came::Message(ToRegion::Report(report)) => match report {
                HostReport::Inventory { containers, drain, .. } => {
                    self.inventories += 1;
                    self.phases.clear();
                    self.learn(containers);
                    self.oath = drain;
                }
                HostReport::Changed { containers } => self.learn(containers),
                HostReport::Refused { why, .. } => self.refusals.push(why),
                HostReport::Prepared { container, preparation } => self.preparations.push((container, preparation)),
                HostReport::Drain(oath) => self.oath = Some(oath),
                HostReport::Alive => {}
            },
            Came::Message(ToRegion::Log(chunk)) => self.log.push(chunk),
            Came::Message(ToRegion::Hello(_)) => panic!("a second hello"),
        }
    }

    /// Takes what comes until something holds.
    pub(crate) async fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let waiting = async {
            while !holds(self) {
                self.take().await;
            }
        };
        if timeout(HANG, waiting).await.is_err() {
            panic!("it never came about that {what}: {:?} {:?} {:?}", self.phases, self.refusals, self.oath);
        }
    }

    pub(crate) async fn inventory(&mut self) {
        let seen = self.inventories;
        self.until("a link is opened", |region| region.inventories > seen).await;
    }

    /// Waits until a container runs; gives its process and when it started.
    pub(crate) async fn running(&mut self, id: &ContainerId) -> (u32, u64) {
        let mut found = None;
        self.until(&format!("{id} runs"), |region| {
            if let Some(ContainerPhase::Running { pid, started_at, .. }) = region.phases.get(id) {
                found = Some((*pid, started_at.0));
            }
            assert!(!matches!(region.phases.get(id), Some(ContainerPhase::Ended { .. })), "{:?}", region.phases);
            found.is_some()
        })
        .await;
        found.unwrap()
    }

    pub(crate) async fn ended(&mut self, id: &ContainerId) -> polder_types::ExitStatus {
        let mut found = None;
        self.until(&format!("{id} ends"), |region| {
            if let Some(ContainerPhase::Ended { status, .. }) = region.phases.get(id) {
                found = Some(status.clone());
            }
            found.is_some()
        })
        .await;
        found.unwrap()
    }

    /// The text of a log that was asked for, once it has ended; and why it has, if that is an error.
    pub(crate) async fn whole_log(&mut self, id: u64) -> (String, Option<String>) {
        self.until("a log ends", |region| region.log.iter().any(|chunk| chunk.id == id && chunk.eof)).await;
        let mine = self.log.iter().filter(|chunk| chunk.id == id);
        let text: Vec<u8> = mine.clone().flat_map(|chunk| chunk.bytes.to_vec()).collect();
        (String::from_utf8(text).unwrap(), mine.clone().find_map(|chunk| chunk.error.clone()))
    }
}

async fn serve(listener: TcpListener, conduct: Arc<Mutex<Conduct>>, came: mpsc::Sender<Came>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        // One link at a time; a lost one must not keep the next from being served.
        tokio::spawn(link(stream, Arc::clone(&conduct), came.clone()));
    }
}

async fn link(stream: TcpStream, conduct: Arc<Mutex<Conduct>>, came: mpsc::Sender<Came>) -> Option<()> {
    let mut socket = accept_async(stream).await.ok()?;
    let Some(Ok(Message::Binary(frame))) = socket.next().await else { return None };
    let Ok(unpacked) = unpack::<ToRegion>(frame) else { return None };
    let Some(ToRegion::Hello(hello)) = unpacked.messages.into_iter().next() else { panic!("no hello") };
    let (sender, mut to_do) = mpsc::channel(64);
    let answer = {
        let mut conduct = conduct.lock().unwrap();
        match &conduct.reject {
            Some(reason) => ToHost::Reject(Reject { reason: reason.clone() }),
            None => {
                conduct.to_host = Some(sender);
                ToHost::Welcome(Welcome {
                    protocol: 1,
                    region: hello.region.clone(),
                    incarnation: Incarnation(conduct.incarnation),
                    node: "played".to_owned(),
                    nodes: vec![],
                })
            }
        }
    };
    came.send(Came::Hello(hello)).await.ok()?;
    for frame in pack(&[answer]).unwrap() {
        socket.send(Message::Binary(frame)).await.ok()?;
    }
    loop {
        tokio::select! {
            frame = socket.next() => match frame {
                Some(Ok(Message::Binary(frame))) => {
                    for message in unpack::<ToRegion>(frame).unwrap().messages {
                        came.send(Came::Message(message)).await.ok()?;
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => break,
            },
            what = to_do.recv() => match what {
                Some(Do::Say(message)) => {
                    for frame in pack(&[message]).unwrap() {
                        socket.send(Message::Binary(frame)).await.ok()?;
                    }
                }
                Some(Do::Close) | None => break,
            },
        }
    }
    let _ = timeout(Duration::from_secs(1), socket.close(None)).await;
    came.send(Came::Closed).await.ok()
}
