//! Stopping and removing everything.

use polder_runtime::agent;
use polder_types::ExitStatus;

use crate::{
    harness::{SERVE, STUBBORN, TestHost, alive, id},
    region::Region,
};

#[tokio::test]
async fn everything_is_stopped_and_the_next_agent_says_so() {
    let mut region = Region::new().await;
    let Some(host) = TestHost::new(&region) else { return };
    let agent = host.run();
    region.inventory().await;
    let (web, stubborn) = (id("shop/web/0@1"), id("shop/stubborn/0@1"));
    region.order(host.start(&web, SERVE)).await;
    region.order(host.start(&stubborn, STUBBORN)).await;
    let pids = [region.running(&web).await.0, region.running(&stubborn).await.0];
    agent.stop().await;
    agent::purge(&host.config.data_dir).await.unwrap();
    assert!(!pids.into_iter().any(alive));
    agent::purge(&host.config.data_dir).await.unwrap();

    let agent = host.run();
    region.inventory().await;
    for id in [&web, &stubborn] {
        let ExitStatus::Unknown { reason } = region.ended(id).await else { panic!("{:?}", region.phases) };
        assert!(reason.contains("stopped and removed"), "{reason}");
    }
    agent.stop().await;
    host.clean().await;
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_purged_already() {
    let dir = tempfile::tempdir().unwrap();
    agent::purge(&dir.path().join("nothing")).await.unwrap();
    agent::purge(dir.path()).await.unwrap();
}
