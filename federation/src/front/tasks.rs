//! Tasks: the region that has one answers for it.

use super::{FederationApi, regions::unreached};
use bytes::Bytes;
use futures::StreamExt as _;
use polder_api::{
    Problem,
    dto::{LogQuery, WhyView},
    server::Stream,
};
use polder_types::TaskId;

impl FederationApi {
    pub(super) async fn why_task(&self, task: TaskId) -> Result<WhyView, Problem> {
        let link = self.region_of(&task).await?;
        link.client().why(&task).await.map_err(|error| unreached(&link.region, error))
    }

    pub(super) async fn read_logs(
        &self,
        task: TaskId,
        query: LogQuery,
    ) -> Result<Stream<Result<Bytes, Problem>>, Problem> {
        let link = self.region_of(&task).await?;
        let chunks = link.client().logs(&task, &query).await.map_err(|error| unreached(&link.region, error))?;
        let region = link.region.clone();
        Ok(chunks.map(move |chunk| chunk.map_err(|error| unreached(&region, error))).boxed_local())
    }
}
