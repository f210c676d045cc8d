//! Sends slices and allotments, several at a time.

use super::{Put, RegionLink, Sinks};
use futures::{StreamExt as _, stream::FuturesUnordered};
use polder_api::{Code, client::ClientError};
use polder_core::{intent_router, quota_ledger};
use polder_types::{Allotment, JobId, Slice, SliceVersion};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Requests under way to one region. Their order does not matter, versions say which is newer, but for what is about
/// a job that is being deleted: a region that has forgotten a job has forgotten its versions as well.
const UNDER_WAY_MAX: usize = 16;

/// Sends what is queued until nobody queues any more.
pub(super) async fn send_all(link: Arc<RegionLink>, mut waiting: mpsc::Receiver<Put>, sinks: Sinks) {
    let mut under_way = FuturesUnordered::new();
    // Jobs that something under way is about, and what waits until that is answered.
    let mut busy: Vec<JobId> = Vec::new();
    let mut held: Option<Put> = None;
    loop {
        if let Some(put) = held.take_if(|put| put.job().is_none_or(|job| !busy.contains(job))) {
            busy.extend(put.job().cloned());
            under_way.push(send(&link, &sinks, put));
        }
        tokio::select! {
            put = waiting.recv(), if held.is_none() && under_way.len() < UNDER_WAY_MAX => match put {
                Some(put) => held = Some(put),
                None => break,
            },
            done = under_way.next(), if !under_way.is_empty() => match done {
                Some((job, true)) => busy.retain(|busy| Some(busy) != job.as_ref()),
                Some((_, false)) => break,
                None => {}
            },
        }
    }
}

impl Put {
    /// The job that it is about.
    const fn job(&self) -> Option<&JobId> {
        match self {
            Self::Slice(slice) => Some(&slice.spec.id),
            Self::Drop(job, _) => Some(job),
            Self::Allotment(_) => None,
        }
    }
}

/// Sends one thing and tells whoever wants to know; says which job it was about. False when nobody wants to know any
/// more.
async fn send(link: &RegionLink, sinks: &Sinks, put: Put) -> (Option<JobId>, bool) {
    let job = put.job().cloned();
    let open = match put {
        Put::Slice(slice) => match send_slice(link, &slice).await {
            Some(event) => sinks.router.send(event).await.is_ok(),
            None => !sinks.router.is_closed(),
        },
        Put::Drop(job, version) => match drop_slice(link, job, version).await {
            Some(event) => sinks.router.send(event).await.is_ok(),
            None => !sinks.router.is_closed(),
        },
        Put::Allotment(allotment) => match send_allotment(link, allotment).await {
            Some(event) => sinks.ledger.send(event).await.is_ok(),
            None => !sinks.ledger.is_closed(),
        },
    };
    (job, open)
}

async fn drop_slice(link: &RegionLink, job: JobId, version: SliceVersion) -> Option<intent_router::Event> {
    let region = link.region.clone();
    match link.client().delete_slice(&job, version).await {
        Ok(_) => Some(intent_router::Event::SliceDropped { region, job }),
        // It has nothing of the federation's: it has forgotten it already, or never took it.
        Err(error) if error.problem().is_some_and(|problem| has_none(&problem.code)) => {
            Some(intent_router::Event::SliceDropped { region, job })
        }
        Err(error) => {
            let problem = refusal(link, &job, error)?;
            Some(intent_router::Event::SliceRefused { region, job, version, problem })
        }
    }
}

const fn has_none(code: &Code) -> bool {
    matches!(code, Code::JobNotFound | Code::JobNameTaken)
}

async fn send_slice(link: &RegionLink, slice: &Slice) -> Option<intent_router::Event> {
    let (region, job) = (link.region.clone(), slice.spec.id.clone());
    match link.client().put_slice(slice).await {
        Ok(status) => {
            link.settled(&job, status.version);
            Some(intent_router::Event::SliceAcked { region, job, version: status.version })
        }
        Err(error) => {
            let problem = refusal(link, &job, error)?;
            Some(intent_router::Event::SliceRefused { region, job, version: slice.version, problem })
        }
    }
}

async fn send_allotment(link: &RegionLink, allotment: Allotment) -> Option<quota_ledger::Event> {
    let region = link.region.clone();
    match link.client().put_allotment(&allotment).await {
        Ok(allotment) => Some(quota_ledger::Event::AllotmentHeld { region, allotment }),
        Err(error) => {
            let problem = refusal(link, &allotment.account, error)?;
            let Allotment { account, version, .. } = allotment;
            Some(quota_ledger::Event::AllotmentRefused { region, account, version, problem })
        }
    }
}

/// What the region says against it. None when it was not reached, or asks to try again: that is done anyway.
fn refusal(link: &RegionLink, subject: &dyn std::fmt::Display, error: ClientError) -> Option<String> {
    if error.is_retryable() {
        tracing::debug!(region = %link.region, %subject, %error, "not delivered; it will be repeated");
        return None;
    }
    Some(error.to_string())
}
