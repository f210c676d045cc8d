//! The link to the region: one WebSocket to any of its nodes, opened again whenever it is lost.

use std::{sync::Arc, time::Duration};

use futures::{SinkExt as _, StreamExt as _};
use polder_core::{host::Event, message::HostReport};
use polder_shell::{Clock, Port};
use polder_types::{BootId, HostId, Incarnation, RegionId};
use polder_wire::{
    FRAME_BYTES_MAX, FRAME_MESSAGES_MAX, Hello, LINK_PATH, LinkMessage, LogChunk, PROTOCOL_VERSION, ToHost, ToRegion,
    Welcome, pack, unpack,
};
use rand::Rng as _;
use tokio::{
    net::TcpStream,
    sync::mpsc,
    time::{Instant, interval, sleep, timeout},
};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async_with_config,
    tungstenite::{Message, protocol::WebSocketConfig},
};

use super::{
    AgentError,
    containers::Containers,
    disk::Disk,
    error::chain,
    limits::{
        CONNECT_TIMEOUT, LINK_SILENT_MAX, LOG_CHUNKS_QUEUED_MAX, PING_EVERY, RECONNECT_WAIT, RECONNECT_WAIT_MAX,
        SEND_TIMEOUT,
    },
    log_reader::LogReaders,
    logs::Logs,
    meter::HostMeter,
    outbox::Outbox,
};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Most addresses of region nodes that are tried.
const ADDRESSES_MAX: usize = polder_wire::NODES_MAX;

/// Where to open a link, from a node's base address.
pub(super) fn websocket_url(address: &str) -> Result<String, AgentError> {
    let wrong =
        |why: &str| AgentError::Config { what: format!("`{address}` is not the address of a region node: {why}") };
    let Some(rest) = address.strip_prefix("http://") else {
        return Err(wrong("it should look like http://10.0.0.5:7001 (links over TLS are not built yet)"));
    };
    let host = rest.trim_end_matches('/');
    if host.is_empty() || host.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control()) {
        return Err(wrong("it should be `http://`, a host and a port"));
    }
    Ok(format!("ws://{host}{LINK_PATH}"))
}

/// Keeps a link open.
#[derive(Debug)]
pub(super) struct Linker {
    pub(super) host: HostId,
    pub(super) region: RegionId,
    pub(super) boot: BootId,
    /// Addresses that were configured: always tried.
    pub(super) configured: Vec<String>,
    pub(super) disk: Disk,
    pub(super) containers: Containers,
    pub(super) logs: Logs,
    pub(super) outbox: Outbox,
    pub(super) events: Port<Event>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) meter: HostMeter,
}

/// An open link, welcomed.
struct Open {
    socket: Socket,
    session: u64,
    welcome: Welcome,
}

impl Linker {
    /// Opens links until it is dropped.
    pub(super) async fn run(self, mut reports: mpsc::Receiver<HostReport>) {
        let mut learnt: Vec<String> = Vec::new();
        let mut wait = RECONNECT_WAIT;
        let mut turn = rand::rng().random_range(0..self.configured.len().max(1));
        loop {
            let addresses = self.addresses(&learnt);
            let address = &addresses[turn % addresses.len()];
            turn += 1;
            match self.open(address).await {
                Ok(open) => {
                    wait = RECONNECT_WAIT;
                    let Open { session, welcome, .. } = &open;
                    tracing::info!(address, session, node = welcome.node, "linked to region {}", welcome.region);
                    learnt.clone_from(&welcome.nodes);
                    learnt.truncate(ADDRESSES_MAX);
                    let why = self.serve(open, &mut reports).await;
                    tracing::warn!(address, "the link is lost: {why}; containers go on");
                }
                Err(why) => tracing::warn!(address, "no link: {why}; tried again"),
            }
            sleep(some_of(wait)).await;
            wait = (wait * 2).min(RECONNECT_WAIT_MAX);
        }
    }

    fn addresses(&self, learnt: &[String]) -> Vec<String> {
        let mut all = self.configured.clone();
        all.extend(learnt.iter().filter(|address| websocket_url(address).is_ok()).cloned());
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|address| seen.insert(address.trim_end_matches('/').to_owned()));
        all
    }

    async fn open(&self, address: &str) -> Result<Open, String> {
        let url = websocket_url(address).map_err(|error| error.to_string())?;
        let config =
            WebSocketConfig::default().max_message_size(Some(FRAME_BYTES_MAX)).max_frame_size(Some(FRAME_BYTES_MAX));
        let in_time = |_| format!("no answer within {} s", CONNECT_TIMEOUT.as_secs());
        let connecting = connect_async_with_config(url, Some(config), true);
        let (mut socket, _) =
            timeout(CONNECT_TIMEOUT, connecting).await.map_err(in_time)?.map_err(|error| chain(&error))?;
        let stored = |error: AgentError| format!("the host's own store can't be used: {}", chain(&error));
        let session = self.disk.next_session(self.clock.now()).await.map_err(stored)?;
        let incarnation = self.disk.incarnation().await.map_err(stored)?;
        let hello = Hello {
            protocol: PROTOCOL_VERSION,
            agent: env!("CARGO_PKG_VERSION").to_owned(),
            region: self.region.clone(),
            host: self.host.clone(),
            boot: self.boot.clone(),
            session,
            incarnation,
            home: self.disk.home().await.map_err(stored)?,
        };
        send(&mut socket, &[ToRegion::Hello(hello)]).await?;
        let welcome = timeout(CONNECT_TIMEOUT, first_message(&mut socket)).await.map_err(in_time)??;
        let welcome = match welcome {
            ToHost::Welcome(welcome) => welcome,
            ToHost::Reject(reject) => return Err(format!("the region refuses this host: {}", reject.reason)),
            _ => return Err("the region began with something else than a welcome".to_owned()),
        };
        self.check(&welcome, incarnation)?;
        if welcome.incarnation > incarnation {
            self.disk.put_incarnation(welcome.incarnation).await.map_err(stored)?;
        }
        Ok(Open { socket, session, welcome })
    }

    fn check(&self, welcome: &Welcome, seen: Incarnation) -> Result<(), String> {
        if welcome.region != self.region {
            return Err(format!("this is region {}, and the host belongs to {}", welcome.region, self.region));
        }
        if welcome.incarnation < seen {
            return Err(format!(
                "the region's store is incarnation {}, and this host has seen {seen}: it is an old copy",
                welcome.incarnation
            ));
        }
        Ok(())
    }

    /// Carries messages both ways until something ends the link; says what did.
    async fn serve(&self, open: Open, reports: &mut mpsc::Receiver<HostReport>) -> String {
        let Open { mut socket, session, .. } = open;
        // What waits is of an earlier link. The inventory says it all.
        while reports.try_recv().is_ok() {}
        self.outbox.opened(session);
        self.meter.linked();
        let why = match self.events.send(Event::LinkOpened { session }).await {
            Ok(()) => self.carry(&mut socket, reports).await,
            Err(_) => "the agent is ending".to_owned(),
        };
        self.outbox.closed();
        self.meter.unlinked();
        if self.events.send(Event::LinkClosed { session }).await.is_err() {
            tracing::debug!("the agent is ending");
        }
        // The other side may be gone already.
        let _ = timeout(Duration::from_secs(1), socket.close(None)).await;
        why
    }

    async fn carry(&self, socket: &mut Socket, reports: &mut mpsc::Receiver<HostReport>) -> String {
        let (chunks, mut log) = mpsc::channel::<LogChunk>(LOG_CHUNKS_QUEUED_MAX);
        let readers = LogReaders::new(self.logs.clone(), self.containers.clone(), chunks);
        let mut ping = interval(PING_EVERY);
        let mut heard = Instant::now();
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                biased;
                frame = socket.next() => {
                    heard = Instant::now();
                    if let Err(why) = self.take(frame, &readers).await {
                        return why;
                    }
                }
                _ = reports.recv_many(&mut batch, FRAME_MESSAGES_MAX) => {
                    let messages: Vec<ToRegion> = batch.drain(..).map(ToRegion::Report).collect();
                    if let Err(why) = send(socket, &messages).await {
                        return why;
                    }
                }
                Some(chunk) = log.recv() => {
                    if let Err(why) = send(socket, &[ToRegion::Log(chunk)]).await {
                        return why;
                    }
                }
                _ = ping.tick() => {
                    if heard.elapsed() > LINK_SILENT_MAX {
                        return format!("nothing came for {} s", LINK_SILENT_MAX.as_secs());
                    }
                    if let Err(why) = write(socket, Message::Ping(bytes::Bytes::new())).await {
                        return why;
                    }
                }
            }
        }
    }

    async fn take(
        &self,
        frame: Option<Result<Message, tokio_tungstenite::tungstenite::Error>>,
        readers: &LogReaders,
    ) -> Result<(), String> {
        for message in messages(frame)? {
            match message {
                ToHost::Order(order) => {
                    self.events.send(Event::Order(order)).await.map_err(|_| "the agent is ending".to_owned())?;
                }
                ToHost::Log(request) => readers.begin(request),
                ToHost::LogCancel(cancel) => readers.cancel(cancel.id),
                ToHost::Reject(reject) => return Err(format!("the region refuses this host: {}", reject.reason)),
                ToHost::Welcome(_) => return Err("a second welcome came".to_owned()),
            }
        }
        Ok(())
    }
}

/// A random part of a wait, a quarter at least.
fn some_of(wait: Duration) -> Duration {
    rand::rng().random_range(wait / 4..=wait)
}

/// The messages in what a socket gave.
fn messages(frame: Option<Result<Message, tokio_tungstenite::tungstenite::Error>>) -> Result<Vec<ToHost>, String> {
    match frame {
        Some(Ok(Message::Binary(frame))) => {
            let unpacked = unpack::<ToHost>(frame).map_err(|error| chain(&error))?;
            if unpacked.skipped > 0 {
                tracing::debug!(
                    skipped = unpacked.skipped,
                    "the region is newer and says what this agent does not know"
                );
            }
            Ok(unpacked.messages)
        }
        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(Vec::new()),
        Some(Ok(Message::Text(_))) => Err("text came where frames are binary".to_owned()),
        Some(Ok(Message::Close(close))) => {
            let reason = close.map(|close| close.reason.to_string()).filter(|reason| !reason.is_empty());
            Err(reason
                .map_or_else(|| "the region closed it".to_owned(), |reason| format!("the region closed it: {reason}")))
        }
        Some(Err(error)) => Err(chain(&error)),
        None => Err("the region is gone".to_owned()),
    }
}

async fn first_message(socket: &mut Socket) -> Result<ToHost, String> {
    loop {
        if let Some(message) = messages(socket.next().await)?.into_iter().next() {
            return Ok(message);
        }
    }
}

async fn send<M: LinkMessage>(socket: &mut Socket, messages: &[M]) -> Result<(), String> {
    for frame in pack(messages).map_err(|error| chain(&error))? {
        write(socket, Message::Binary(frame)).await?;
    }
    Ok(())
}

async fn write(socket: &mut Socket, message: Message) -> Result<(), String> {
    match timeout(SEND_TIMEOUT, socket.send(message)).await {
        Ok(sent) => sent.map_err(|error| chain(&error)),
        Err(_) => Err(format!("the region did not read for {} s", SEND_TIMEOUT.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_urls() {
        assert_eq!(websocket_url("http://10.0.0.5:7001").unwrap(), "ws://10.0.0.5:7001/v1/link");
        assert_eq!(websocket_url("http://node/").unwrap(), "ws://node/v1/link");
        for wrong in ["", "10.0.0.5:7001", "https://x", "http://", "http://a/b", "http://a b"] {
            assert!(websocket_url(wrong).unwrap_err().to_string().contains("is not the address"), "{wrong}");
        }
    }
}
