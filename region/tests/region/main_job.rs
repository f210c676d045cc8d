//! The main job of a region over its real protocols: jobs in by HTTP, orders out to hosts by WebSocket.

use crate::support::{FakeHost, eventually, free_port, job, start_region, state};
use polder_api::{
    client::Client,
    dto::{DrainRequest, DrainState, HostHealth, PartState, TaskPhase},
};
use polder_types::{Epoch, Millis};

#[actix_web::test]
async fn a_job_runs_survives_a_restart_of_its_region_and_leaves_a_drained_host() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let region = start_region(dir.path(), port);
    let client = Client::new(&region.url).unwrap();
    eventually("the region is ready", || async { client.ready().await.is_ok_and(|ready| ready.ready) }).await;
    let hosts = [("h1", "a"), ("h2", "b")].map(|(name, place)| FakeHost::start(&region.url, name, place));
    eventually("two hosts are heard", || async {
        let list = client.all_hosts().await.unwrap_or_default();
        list.hosts.iter().filter(|host| host.health == HostHealth::Ready).count() == 2
    })
    .await;

    client.apply(&job(4, "")).await.unwrap();
    eventually("the job is healthy", || async { state(&client).await == Some(PartState::Healthy) }).await;
    let spread: Vec<usize> = hosts.iter().map(|host| host.running().len()).collect();
    assert_eq!(spread, [2, 2], "tasks are spread over datacenters");
    let before: Vec<_> = hosts.iter().flat_map(FakeHost::running).collect();

    // A restart of the region is a no-op for containers.
    region.stop().await;
    let region = start_region(dir.path(), port);
    eventually("the job is healthy again", || async { state(&client).await == Some(PartState::Healthy) }).await;
    let after: Vec<_> = hosts.iter().flat_map(FakeHost::running).collect();
    assert_eq!(before, after);
    for host in &hosts {
        assert!(host.seen.lock().unwrap().launches.values().all(|launches| *launches == 1));
    }

    // A drained host is empty, and says so itself.
    let request = DrainRequest { deadline: Millis::from_secs(60), reason: "test".to_owned(), owner: String::new() };
    client.begin_drain(&"h1".parse().unwrap(), &request).await.unwrap();
    eventually("the host is drained", || async {
        let drain = client.drain(&"h1".parse().unwrap()).await.unwrap();
        assert!(matches!(drain.state, DrainState::Draining | DrainState::Drained), "{drain:?}");
        drain.state == DrainState::Drained && drain.moved.len() == 2
    })
    .await;
    assert_eq!((hosts[0].running().len(), hosts[1].running().len()), (0, 4));
    eventually("the job is healthy elsewhere", || async { state(&client).await == Some(PartState::Healthy) }).await;

    client.stop_job(&"demo/web".parse().unwrap()).await.unwrap();
    eventually("the job is stopped", || async { state(&client).await == Some(PartState::Stopped) }).await;
    assert_eq!(hosts[1].running().len(), 0);
    let tasks = client.job(&"demo/web".parse().unwrap()).await.unwrap().tasks;
    assert!(tasks.iter().all(|task| task.phase == TaskPhase::Stopped && task.epoch > Epoch(0)), "{tasks:?}");
    eventually("it is deleted", || async { client.delete_job(&"demo/web".parse().unwrap()).await.is_ok() }).await;
    assert_eq!(state(&client).await, None);
    region.stop().await;
}

#[actix_web::test]
async fn a_silent_host_is_no_verdict_until_its_time_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let region = start_region(dir.path(), free_port());
    let client = Client::new(&region.url).unwrap();
    eventually("the region is ready", || async { client.ready().await.is_ok_and(|ready| ready.ready) }).await;
    let mut first = FakeHost::start(&region.url, "h1", "a");
    eventually("the host is heard", || async { client.all_hosts().await.unwrap_or_default().hosts.len() == 1 }).await;
    client.apply(&job(2, "replace_after = \"3s\"")).await.unwrap();
    eventually("the job is healthy", || async { state(&client).await == Some(PartState::Healthy) }).await;
    let old = first.running();

    first.cut();
    let second = FakeHost::start(&region.url, "h2", "b");
    eventually("the silent host is noticed", || async {
        let hosts = client.all_hosts().await.unwrap().hosts;
        hosts.iter().any(|host| host.health == HostHealth::Unknown)
    })
    .await;
    eventually("its tasks are replaced", || async { second.running().len() == 2 }).await;
    assert_eq!(first.running(), old, "nobody touched what the silent host runs");
    // Both hosts are charged, the quota only once.
    let used: u32 = client.all_hosts().await.unwrap().hosts.iter().map(|host| host.tasks).sum();
    assert_eq!(used, 4);

    first.resume(&region.url, "h1", "a");
    eventually("the old containers are stopped", || async { first.running().is_empty() }).await;
    eventually("their room is given back", || async {
        client.all_hosts().await.unwrap().hosts.iter().map(|host| host.tasks).sum::<u32>() == 2
    })
    .await;
    assert_eq!(second.running().len(), 2);
    region.stop().await;
}
