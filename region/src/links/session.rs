//! One link from its hello to its end.

use super::Link;
use crate::region::Region;
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
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// How long a host may take to say hello, and then its inventory.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// A link over which nothing comes for so long is closed: the host opens a new one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

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

async fn run(mut session: Session, mut stream: AggregatedMessageStream, region: Arc<Region>) {
    let (hello, rest) = match tokio::time::timeout(HELLO_TIMEOUT, next_frame(&mut session, &mut stream)).await {
        Ok(Ok(Some(mut first))) if !first.is_empty() => match first.remove(0) {
            ToRegion::Hello(hello) => (hello, first),
            _ => return refuse(session, "the first message of a link must be a hello").await,
        },
        Ok(Err(problem)) => return refuse(session, &problem).await,
        Ok(Ok(_)) | Err(_) => return refuse(session, "no hello came").await,
    };
    if let Err(problem) = check(&hello, &region) {
        tracing::warn!(host = %hello.host, "link refused: {problem}");
        return refuse(session, &problem).await;
    }
    let host = hello.host.clone();
    let Some((link, queue)) = region.links.admit(&host, hello.session) else {
        return refuse(session, "a newer link of this host is open").await;
    };
    let welcome = ToHost::Welcome(Welcome {
        protocol: PROTOCOL_VERSION.min(hello.protocol),
        region: region.config.region.clone(),
        incarnation: region.incarnation,
        node: region.config.node.to_string(),
        nodes: region.nodes(),
    });
    tracing::info!(%host, session = hello.session, "link opened");
    let why = match write(&mut session, &[welcome]).await {
        Ok(()) => {
            serve(&mut session, &mut stream, Peer { region: &region, host: &host, link: &link }, queue, rest).await
        }
        Err(closed) => closed,
    };
    tracing::info!(%host, session = hello.session, "link closed: {why}");
    region.links.dismiss(&host, link.session);
    region.host_unlinked(&host, broker::Session(link.session)).await;
    // The other side may be gone already.
    let _ = session.close(Some(CloseReason { code: CloseCode::Normal, description: Some(why) })).await;
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
    let close = CloseReason { code: CloseCode::Policy, description: Some(reason.chars().take(100).collect()) };
    let _ = session.close(Some(close)).await;
}

/// The host at the other end of a link, and what concerns it here.
#[derive(Clone, Copy)]
struct Peer<'a> {
    region: &'a Region,
    host: &'a HostId,
    link: &'a Link,
}

/// Carries messages both ways until something ends the link; says what did.
async fn serve(
    session: &mut Session,
    stream: &mut AggregatedMessageStream,
    peer: Peer<'_>,
    mut queue: mpsc::Receiver<ToHost>,
    first: Vec<ToRegion>,
) -> String {
    if let Err(problem) = take_all(peer, first).await {
        return problem;
    }
    let mut batch = Vec::new();
    loop {
        tokio::select! {
            () = peer.link.replaced.notified() => return "a newer link of this host took its place".to_owned(),
            _ = queue.recv_many(&mut batch, FRAME_MESSAGES_MAX) => {
                if let Err(closed) = write(session, &batch).await {
                    return closed;
                }
                batch.clear();
            }
            frame = tokio::time::timeout(IDLE_TIMEOUT, next_frame(session, stream)) => match frame {
                Ok(Ok(Some(messages))) => {
                    if let Err(problem) = take_all(peer, messages).await {
                        return problem;
                    }
                }
                Ok(Ok(None)) => return "the host closed it".to_owned(),
                Ok(Err(problem)) => return problem,
                Err(_) => return format!("nothing came for {} s", IDLE_TIMEOUT.as_secs()),
            },
        }
    }
}

/// Takes the messages of a frame to whom they concern.
async fn take_all(peer: Peer<'_>, messages: Vec<ToRegion>) -> Result<(), String> {
    for message in messages {
        take(peer.region, peer.host, peer.link, message).await?;
    }
    peer.region.host_heard(peer.host, broker::Session(peer.link.session));
    Ok(())
}

/// The messages of the next frame; none when the link is closed.
async fn next_frame(
    session: &mut Session,
    stream: &mut AggregatedMessageStream,
) -> Result<Option<Vec<ToRegion>>, String> {
    loop {
        match stream.next().await {
            Some(Ok(AggregatedMessage::Binary(frame))) => {
                return unpack(frame).map(|unpacked| Some(unpacked.messages)).map_err(|error| error.to_string());
            }
            Some(Ok(AggregatedMessage::Ping(payload))) => {
                session.pong(&payload).await.map_err(|closed| closed.to_string())?;
            }
            Some(Ok(AggregatedMessage::Pong(_))) => {}
            Some(Ok(AggregatedMessage::Text(_))) => return Err("text came where frames are binary".to_owned()),
            Some(Ok(AggregatedMessage::Close(_))) | None => return Ok(None),
            Some(Err(error)) => return Err(error.to_string()),
        }
    }
}

async fn write(session: &mut Session, messages: &[ToHost]) -> Result<(), String> {
    for frame in pack(messages).map_err(|error| error.to_string())? {
        session.binary(frame).await.map_err(|_| "the host is gone".to_owned())?;
    }
    Ok(())
}

/// Takes one message of a host to whom it concerns.
async fn take(region: &Region, host: &HostId, link: &Link, message: ToRegion) -> Result<(), String> {
    let session = broker::Session(link.session);
    match message {
        ToRegion::Hello(_) => return Err("a second hello came".to_owned()),
        ToRegion::Log(chunk) => link.deliver(chunk),
        ToRegion::Report(HostReport::Alive) => {}
        ToRegion::Report(HostReport::Inventory { info, boot, containers, drain }) => {
            if info.id != *host {
                return Err(format!("the host said hello as {host} and calls itself {}", info.id));
            }
            link.learn_all(boot.clone(), &containers);
            region.host_linked(info, boot.clone(), session, drain).await?;
            // Every shard is told, also of nothing: that something is missing is news too.
            let mut by_shard = split(region, containers);
            for shard in region.shard_ids() {
                let statuses = by_shard.remove(&shard).unwrap_or_default();
                let listed = job_shard::Event::HostListed { host: host.clone(), boot: boot.clone(), statuses };
                region.tell_shard(shard, listed).await;
            }
        }
        ToRegion::Report(HostReport::Changed { containers }) => {
            link.learn(&containers);
            for (shard, statuses) in split(region, containers) {
                region.tell_shard(shard, job_shard::Event::HostReported { host: host.clone(), statuses }).await;
            }
        }
        ToRegion::Report(HostReport::Refused { container, why }) => {
            if let Refusal::Draining { version } = why {
                let refused = broker::Event::StartRefused { host: host.clone(), version };
                region.tell_broker_of(host, refused).await;
            }
            let shard = region.shard_of(&container.task.job);
            region.tell_shard(shard, job_shard::Event::HostRefused { host: host.clone(), container, why }).await;
        }
        ToRegion::Report(HostReport::Drain(attestation)) => {
            let attested = broker::Event::DrainAttested { host: host.clone(), session, attestation };
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
