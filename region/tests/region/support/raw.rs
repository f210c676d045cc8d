//! A link of which a test decides every message.

use super::{Socket, boot, connect, hello, info, send};
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use polder_api::{client::Client, dto::HostHealth};
use polder_core::message::HostReport;
use polder_types::{ContainerStatus, HomeId};
use polder_wire::{ToHost, ToRegion, unpack};
use std::{collections::VecDeque, time::Duration};
use tokio_tungstenite::tungstenite::Message;

/// The host's end of a link.
pub(crate) struct RawLink {
    socket: Socket,
    came: VecDeque<ToHost>,
}

impl RawLink {
    /// A link over which nothing was said yet.
    pub(crate) async fn connect(url: &str) -> Self {
        Self { socket: connect(url).await.unwrap(), came: VecDeque::new() }
    }

    /// A link of a host that said hello.
    pub(crate) async fn hello(url: &str, host: &str, session: u64) -> Self {
        Self::hello_from(url, host, HomeId(1), session).await
    }

    /// The same of an agent with this data folder.
    pub(crate) async fn hello_from(url: &str, host: &str, home: HomeId, session: u64) -> Self {
        let mut link = Self::connect(url).await;
        link.say(&[hello(&host.parse().unwrap(), home, session)]).await;
        link
    }

    /// A link of a host in datacenter `a` that was welcomed and has said what it runs.
    pub(crate) async fn open(url: &str, host: &str, session: u64, runs: Vec<ContainerStatus>) -> Self {
        let mut link = Self::hello(url, host, session).await;
        link.say(&[ToRegion::Report(inventory(host, runs))]).await;
        assert!(matches!(link.next().await, Ok(ToHost::Welcome(_))));
        link
    }

    pub(crate) async fn say(&mut self, messages: &[ToRegion]) {
        // The region may have closed the link: then its last words are read.
        let _ = send(&mut self.socket, messages).await;
    }

    pub(crate) async fn send(&mut self, message: Message) {
        self.socket.send(message).await.unwrap();
    }

    /// Says that its host is there until the region hears it. The host must be the region's only one.
    pub(crate) async fn heard(&mut self, client: &Client) {
        loop {
            self.say(&[ToRegion::Report(HostReport::Alive)]).await;
            if client.all_hosts().await.unwrap().hosts.first().is_some_and(|host| host.health == HostHealth::Ready) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The next message of the region; at the end of the link, what the region said when it closed it.
    pub(crate) async fn next(&mut self) -> Result<ToHost, String> {
        loop {
            if let Some(message) = self.came.pop_front() {
                return Ok(message);
            }
            match self.socket.next().await {
                Some(Ok(Message::Binary(frame))) => {
                    self.came.extend(unpack::<ToHost>(Bytes::from(frame.to_vec())).unwrap().messages);
                }
                Some(Ok(Message::Close(frame))) => {
                    return Err(frame.map_or_else(String::new, |frame| frame.reason.to_string()));
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.to_string()),
                None => return Err(String::new()),
            }
        }
    }

    /// Why the region ends the link: what it says before it closes it.
    pub(crate) async fn refused(&mut self) -> String {
        loop {
            match self.next().await {
                Ok(ToHost::Reject(reject)) => {
                    assert!(self.next().await.is_err(), "a link that is refused is closed");
                    return reject.reason;
                }
                Ok(_) => {}
                Err(reason) => panic!("closed without a word: {reason}"),
            }
        }
    }

    /// Why the region closes the link without refusing it.
    pub(crate) async fn closed(&mut self) -> String {
        loop {
            if let Err(reason) = self.next().await {
                return reason;
            }
        }
    }
}

/// What a host in datacenter `a` says it has.
pub(crate) fn inventory(host: &str, containers: Vec<ContainerStatus>) -> HostReport {
    HostReport::Inventory { info: info(host, "a"), boot: boot(), containers, drain: None }
}
