//! Sends slices and allotments, several at a time.

use super::{Put, RegionLink, Sinks};
use futures::{StreamExt as _, stream::FuturesUnordered};
use polder_api::client::ClientError;
use polder_core::{intent_router, quota_ledger};
use polder_types::{Allotment, Slice};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Requests under way to one region. Their order does not matter: versions say which is newer.
const UNDER_WAY_MAX: usize = 16;

/// Sends what is queued until nobody queues any more.
pub(super) async fn send_all(link: Arc<RegionLink>, mut waiting: mpsc::Receiver<Put>, sinks: Sinks) {
    let mut under_way = FuturesUnordered::new();
    loop {
        tokio::select! {
            put = waiting.recv(), if under_way.len() < UNDER_WAY_MAX => match put {
                Some(put) => under_way.push(send(&link, &sinks, put)),
                None => break,
            },
            open = under_way.next(), if !under_way.is_empty() => if open == Some(false) {
                break;
            },
        }
    }
}

/// Sends one thing and tells whoever wants to know. False when nobody does any more.
async fn send(link: &RegionLink, sinks: &Sinks, put: Put) -> bool {
    match put {
        Put::Slice(slice) => match send_slice(link, &slice).await {
            Some(event) => sinks.router.send(event).await.is_ok(),
            None => !sinks.router.is_closed(),
        },
        Put::Allotment(allotment) => match send_allotment(link, allotment).await {
            Some(event) => sinks.ledger.send(event).await.is_ok(),
            None => !sinks.ledger.is_closed(),
        },
    }
}

async fn send_slice(link: &RegionLink, slice: &Slice) -> Option<intent_router::Event> {
    let (region, job) = (link.region.clone(), slice.spec.id.clone());
    match link.client().put_slice(slice).await {
        Ok(status) => Some(intent_router::Event::SliceAcked { region, job, version: status.version }),
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
