//! Asking regions.

use super::FederationApi;
use crate::link::RegionLink;
use futures::future::join_all;
use polder_api::{
    Code, Problem,
    client::{Client, ClientError},
};
use polder_types::RegionId;
use std::{sync::Arc, time::Duration};

/// How long a region may take for its part of an answer that is put together.
pub(super) const PART_TIMEOUT: Duration = Duration::from_secs(3);

/// What to say when a region's answer is not to be had.
pub(super) fn unreached(region: &RegionId, error: ClientError) -> Problem {
    match error {
        ClientError::Problem { problem, .. } => *problem,
        ClientError::Connect { .. } | ClientError::Timeout { .. } | ClientError::Broken { .. } => {
            Problem::new(Code::RegionUnreachable, format!("region {region}: {error}"))
                .with_hint("what runs there goes on running; try again when the region is back")
        }
        ClientError::Address { .. } | ClientError::Answer { .. } => {
            Problem::new(Code::Internal, format!("region {region}: {error}"))
        }
    }
}

impl FederationApi {
    pub(super) fn link(&self, region: &RegionId) -> Option<&Arc<RegionLink>> {
        self.federation.links.get(region)
    }

    /// Asks regions at the same time, and waits for each only so long.
    pub(super) async fn ask_regions<'a, T, F>(
        &'a self,
        links: impl IntoIterator<Item = &'a Arc<RegionLink>>,
        ask: impl Fn(Client) -> F,
    ) -> Vec<(&'a Arc<RegionLink>, Result<T, ClientError>)>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        let asked = links.into_iter().map(|link| {
            let client = link.client().with_timeout(PART_TIMEOUT);
            let address = client.address().to_owned();
            let answer = ask(client);
            async move {
                let answer = tokio::time::timeout(PART_TIMEOUT, answer).await;
                (link, answer.unwrap_or(Err(ClientError::Timeout { address })))
            }
        });
        join_all(asked).await
    }
}
