//! Several nodes of one region on one etcd: one works, the others stand by.

use crate::support::{FakeHost, RawLink, TestRegion, eventually, free_port, job, ready, start_node, state};
use polder_api::{client::Client, dto::PartState};
use polder_region::StoreConfig;
use polder_store::testing::EtcdServer;
use polder_wire::ToHost;

/// None where etcd is not installed.
async fn etcd() -> Option<EtcdServer> {
    match EtcdServer::start(1).await {
        Ok(server) => Some(server),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Two nodes, the first of which owns the region.
async fn two_nodes(etcd: &EtcdServer) -> [TestRegion; 2] {
    let store = || StoreConfig::Etcd { endpoints: etcd.endpoints(), prefix: "/test/".to_owned() };
    let first = start_node("node-1", store(), free_port());
    ready(&first, 0).await;
    let second = start_node("node-2", store(), free_port());
    let standby = Client::new(&second.url).unwrap();
    eventually("the second stands by", || async { standby.ready().await.is_ok_and(|ready| !ready.ready) }).await;
    [first, second]
}

#[actix_web::test]
async fn a_standby_takes_over_and_containers_run_on() {
    let Some(etcd) = etcd().await else { return };
    let [first, second] = two_nodes(&etcd).await;
    let mut host = FakeHost::start(&first.url, "h1", "a");
    let client = ready(&first, 1).await;
    client.apply(&job(2, "")).await.unwrap();
    eventually("the job is healthy", || async { state(&client).await == Some(PartState::Healthy) }).await;
    let before = host.running();

    // A host learns where else to go, and is sent away by a node that does not own the region.
    let mut session = 0;
    loop {
        session += 1;
        let mut link = RawLink::hello(&first.url, "h2", session).await;
        let Ok(ToHost::Welcome(welcome)) = link.next().await else { panic!("not welcome") };
        if welcome.nodes == [first.url.clone(), second.url.clone()] {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let mut astray = RawLink::hello(&second.url, "h2", session + 1).await;
    assert!(astray.refused().await.contains("does not own the region"));

    first.stop().await;
    host.cut();
    host.resume(&second.url, "h1", "a");
    let client = ready(&second, 1).await;
    eventually("the job is healthy", || async { state(&client).await == Some(PartState::Healthy) }).await;
    assert_eq!(host.running(), before);
    assert!(host.seen.lock().unwrap().launches.values().all(|launches| *launches == 1));
    second.stop().await;
}
