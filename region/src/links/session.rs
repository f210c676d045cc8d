//! One link from its hello to its end.

use super::{Admitted, CONTAINERS_MAX, Link, Links};
use crate::region::{Region, Speaker};
use actix_web::{HttpRequest, HttpResponse, web};
use actix_ws::{AggregatedMessage, AggregatedMessageStream, CloseCode, CloseReason, Session};
use futures::StreamExt as _;
use polder_core::{
    broker, job_shard,
    message::{HostReport, Refusal},
};
use polder_types::{ContainerStatus, HostId, ShardId};
use polder_wire::{
    FRAME_BYTES_MAX, FRAME_MESSAGES_MAX, Hello, PROTOCOL_OLDEST, PROTOCOL_VERSION, Reject, ToHost, ToRegion, Welcome,
    pack, unpack,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};

/// How long a host may take to say hello, and then its inventory.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// A link over which nothing comes for so long is closed: the host opens a new one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long saying goodbye may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest text of a closing frame (RFC 6455: 125 bytes with the code).
const CLOSE_TEXT_BYTES_MAX: usize = 123;
/// How often a shard that had no room is tried again.
const OWED_TICK: Duration = Duration::from_millis(200);

/// Takes a host's link.
pub(crate) async fn open(
    request: HttpRequest,
    body: web::Payload,
    region: web::Data<Region>,
) -> Result<HttpResponse, actix_web::Error> {
    let (response, session, stream) = actix_ws::handle(&request, body)?;
    let stream =
        stream.max_frame_size(FRAME_BYTES_MAX).aggregate_continuations().max_continuation_size(FRAME_BYTES_MAX);
    actix_web::rt::spawn(run(session, stream, region.into_inner()));
    Ok(response)
}

/// Why a link ends.
enum End {
    /// The host is gone, or a newer link of it is there.
    Over(String),
    /// The host did what no host should; it is told.
    Fault(String),
}

async fn run(mut session: Session, mut stream: AggregatedMessageStream, region: Arc<Region>) {
    let (hello, rest) = match tokio::time::timeout(HELLO_TIMEOUT, next_frame(&mut session, &mut stream)).await {
        Ok(Ok(mut first)) if !first.is_empty() => match first.remove(0) {
            ToRegion::Hello(hello) => (hello, first),
            _ => return refuse(session, "the first message of a link must be a hello").await,
        },
        Ok(Err(End::Fault(problem) | End::Over(problem))) => return refuse(session, &problem).await,
        Ok(Ok(_)) | Err(_) => return refuse(session, "no hello came").await,
    };
    if region.actors().is_none() {
        return refuse(session, "this node does not own the region now; hosts link to the one that does").await;
    }
    if let Err(problem) = check(&hello, &region) {
        tracing::warn!(host = %hello.host, "link refused: {problem}");
        return refuse(session, &problem).await;
    }
    let host = hello.host.clone();
    let Admitted { link, queue, older } = match region.links.admit(&host, hello.home, hello.session) {
        Ok(admitted) => admitted,
        Err(problem) => {
            tracing::warn!(%host, "link refused: {problem}");
            return refuse(session, &problem).await;
        }
    };
    let open = Open { links: &region.links, host: &host, link: &link };
    if let Some(older) = older {
        older.ended().await;
    }
    let welcome = ToHost::Welcome(Welcome {
        protocol: PROTOCOL_VERSION.min(hello.protocol),
        region: region.config.region.clone(),
        incarnation: region.incarnation,
        node: region.config.node.to_string(),
        nodes: region.nodes(),
    });
    tracing::info!(%host, session = hello.session, "link opened");
    let end = match write(&mut session, &[welcome]).await {
        Ok(()) => {
            let peer = Peer { region: &region, host: &host, link: &link };
            let mut answers = session.clone();
            tokio::select! {
                () = link.replaced.notified() => End::Over("a newer link of this host took its place".to_owned()),
                end = read_all(&mut answers, &mut stream, peer, rest) => end,
                end = write_all(&mut session, queue) => end,
            }
        }
        Err(end) => end,
    };
    // From here on a newer session may speak.
    drop(open);
    let (End::Over(why) | End::Fault(why)) = &end;
    tracing::info!(%host, session = hello.session, "link closed: {why}");
    let closing = async {
        match &end {
            End::Fault(why) => refuse(session, why).await,
            End::Over(why) => {
                let reason = CloseReason { code: CloseCode::Normal, description: Some(fitting(why)) };
                // The other side may be gone already.
                let _ = session.close(Some(reason)).await;
            }
        }
    };
    // One that reads nothing any more does not read that either.
    let closing = tokio::time::timeout(CLOSE_TIMEOUT, closing);
    let _ = tokio::join!(closing, region.host_unlinked(&host, link.speaker().session));
}

/// A session that is admitted. Whichever way its task ends, it makes room for the next.
struct Open<'a> {
    links: &'a Links,
    host: &'a HostId,
    link: &'a Link,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.links.dismiss(self.host, self.link);
    }
}

fn check(hello: &Hello, region: &Region) -> Result<(), String> {
    if hello.protocol < PROTOCOL_OLDEST {
        return Err(format!(
            "this region speaks link protocols {PROTOCOL_OLDEST} to {PROTOCOL_VERSION}, and the host speaks {}: upgrade its agent",
            hello.protocol
        ));
    }
    if hello.region != region.config.region {
        return Err(format!(
            "this is region {}, and the host belongs to {}: give it the address of its own region",
            region.config.region, hello.region
        ));
    }
    if hello.incarnation > region.incarnation {
        return Err(format!(
            "the host has seen incarnation {} of this region, and this store is incarnation {}: it is an old copy; raise its incarnation if it was restored on purpose",
            hello.incarnation, region.incarnation
        ));
    }
    Ok(())
}

async fn refuse(mut session: Session, reason: &str) {
    // The other side may be gone already.
    let _ = write(&mut session, &[ToHost::Reject(Reject { reason: reason.to_owned() })]).await;
    let close = CloseReason { code: CloseCode::Policy, description: Some(fitting(reason)) };
    let _ = session.close(Some(close)).await;
}

/// As much of a text as fits into a closing frame.
fn fitting(text: &str) -> String {
    let mut end = CLOSE_TEXT_BYTES_MAX.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// The host at the other end of a link, and what concerns it here.
#[derive(Clone, Copy)]
struct Peer<'a> {
    region: &'a Arc<Region>,
    host: &'a HostId,
    link: &'a Link,
}

/// Sends what is queued. Apart from reading: a host that reads nothing must not keep its region from noticing that it
/// says nothing either.
async fn write_all(session: &mut Session, mut queue: mpsc::Receiver<ToHost>) -> End {
    let mut batch = Vec::new();
    while queue.recv_many(&mut batch, FRAME_MESSAGES_MAX).await > 0 {
        if let Err(end) = write(session, &batch).await {
            return end;
        }
        batch.clear();
    }
    End::Over("nobody sends anything any more".to_owned())
}

/// Takes what comes to whom it concerns.
async fn read_all(
    session: &mut Session,
    stream: &mut AggregatedMessageStream,
    peer: Peer<'_>,
    first: Vec<ToRegion>,
) -> End {
    let inventory_by = Instant::now() + HELLO_TIMEOUT;
    let mut owed = BTreeSet::new();
    if let Err(end) = take_all(peer, first).await {
        return end;
    }
    loop {
        let listed = peer.link.is_listed();
        let silent_at = if listed { Instant::now() + IDLE_TIMEOUT } else { inventory_by };
        let mut next = pin!(next_frame(session, stream));
        // Until the next frame comes.
        let frame = loop {
            tokio::select! {
                frame = &mut next => break frame,
                () = sleep_until(silent_at) => {
                    return End::Over(if listed {
                        format!("nothing came for {} s", IDLE_TIMEOUT.as_secs())
                    } else {
                        format!("no inventory came within {} s", HELLO_TIMEOUT.as_secs())
                    });
                }
                () = peer.link.owing.notified() => {}
                () = sleep(OWED_TICK), if !owed.is_empty() => {}
            }
            owed.append(&mut peer.link.take_owed());
            owed.retain(|shard| !pay(peer, *shard));
        };
        let messages = match frame {
            Ok(messages) => messages,
            Err(end) => return end,
        };
        if let Err(end) = take_all(peer, messages).await {
            return end;
        }
    }
}

/// Tells a shard all that the host has of it. False when it has no room for that.
fn pay(peer: Peer<'_>, shard: ShardId) -> bool {
    let Peer { region, host, link } = peer;
    // Before the inventory has come nothing can be said, and with it every shard is told.
    let Some((boot, statuses)) = link.inventory(|id| region.shard_of(&id.task.job) == shard) else { return true };
    region.try_tell_shard(shard, job_shard::Event::HostListed { host: host.clone(), boot, statuses })
}

/// Takes the messages of a frame to whom they concern.
async fn take_all(peer: Peer<'_>, messages: Vec<ToRegion>) -> Result<(), End> {
    // First of all: whatever becomes of what it says, the host is there.
    peer.region.host_heard(peer.host, peer.link.speaker());
    for message in messages {
        take(peer, message).await?;
    }
    Ok(())
}

/// The messages of the next frame.
async fn next_frame(session: &mut Session, stream: &mut AggregatedMessageStream) -> Result<Vec<ToRegion>, End> {
    loop {
        match stream.next().await {
            Some(Ok(AggregatedMessage::Binary(frame))) => {
                return unpack(frame).map(|unpacked| unpacked.messages).map_err(|error| End::Fault(error.to_string()));
            }
            Some(Ok(AggregatedMessage::Ping(payload))) => {
                session.pong(&payload).await.map_err(|_| gone())?;
            }
            Some(Ok(AggregatedMessage::Pong(_))) => {}
            Some(Ok(AggregatedMessage::Text(_))) => {
                return Err(End::Fault("text came where frames are binary".to_owned()));
            }
            Some(Ok(AggregatedMessage::Close(_))) | None => {
                return Err(End::Over("the host closed it".to_owned()));
            }
            Some(Err(error)) => return Err(End::Fault(error.to_string())),
        }
    }
}

fn gone() -> End {
    End::Over("the host is gone".to_owned())
}

async fn write(session: &mut Session, messages: &[ToHost]) -> Result<(), End> {
    for frame in pack(messages).map_err(|error| End::Over(error.to_string()))? {
        session.binary(frame).await.map_err(|_| gone())?;
    }
    Ok(())
}

/// Takes one message of a host to whom it concerns.
async fn take(peer: Peer<'_>, message: ToRegion) -> Result<(), End> {
    let Peer { region, host, link } = peer;
    let speaker = link.speaker();
    match message {
        ToRegion::Hello(_) => return Err(End::Fault("a second hello came".to_owned())),
        ToRegion::Log(chunk) => link.deliver(chunk),
        ToRegion::Report(HostReport::Alive) => {}
        ToRegion::Report(HostReport::Inventory { info, boot, containers, drain }) => {
            if info.id != *host {
                return Err(End::Fault(format!("the host said hello as {host} and calls itself {}", info.id)));
            }
            region.host_linked(info, boot.clone(), speaker, drain).await.map_err(End::Fault)?;
            region.meter.reported(region.now(), &containers);
            link.learn_all(boot, &containers);
            // Every shard is told, also of nothing: that something is missing is news too.
            for shard in region.shard_ids().filter(|shard| !pay(peer, *shard)) {
                link.owe(shard);
            }
        }
        ToRegion::Report(HostReport::Changed { containers }) => {
            if !link.learn(&containers) {
                return Err(End::Fault(format!("the host has more than {CONTAINERS_MAX} containers")));
            }
            region.meter.reported(region.now(), &containers);
            for (shard, statuses) in split(region, containers) {
                let reported = job_shard::Event::HostReported { host: host.clone(), statuses };
                if !region.try_tell_shard(shard, reported) {
                    link.owe(shard);
                }
            }
        }
        ToRegion::Report(HostReport::Refused { container, why }) => {
            if let Refusal::Draining { version } = why {
                let refused = broker::Event::StartRefused { host: host.clone(), version };
                region.tell_broker_of(host, refused).await;
            }
            let shard = region.shard_of(&container.task.job);
            // If it is lost, the order is repeated, and refused again.
            region.try_tell_shard(shard, job_shard::Event::HostRefused { host: host.clone(), container, why });
        }
        ToRegion::Report(HostReport::Prepared { container, preparation }) => {
            let shard = region.shard_of(&container.task.job);
            // If it is lost, the order is repeated, and answered again.
            region.try_tell_shard(shard, job_shard::Event::HostPrepared { host: host.clone(), container, preparation });
        }
        ToRegion::Report(HostReport::Drain(attestation)) => {
            let Speaker { home, session } = speaker;
            let attested = broker::Event::DrainAttested { host: host.clone(), home, session, attestation };
            region.tell_broker_of(host, attested).await;
        }
    }
    Ok(())
}

fn split(region: &Region, statuses: Vec<ContainerStatus>) -> BTreeMap<ShardId, Vec<ContainerStatus>> {
    let mut by_shard: BTreeMap<ShardId, Vec<ContainerStatus>> = BTreeMap::new();
    for status in statuses {
        by_shard.entry(region.shard_of(&status.id.task.job)).or_default().push(status);
    }
    by_shard
}
