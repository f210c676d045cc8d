//! Keeping tasks away from a host, and how drains end when they do not end well.

use crate::support::{FakeHost, eventually, free_port, job, ready, start_region, state};
use polder_api::{
    Code,
    client::Client,
    dto::{DrainRequest, DrainState, HostView, PartState},
};
use polder_types::Millis;

async fn host_view(client: &Client, name: &str) -> HostView {
    let hosts = client.all_hosts().await.unwrap().hosts;
    hosts.into_iter().find(|host| host.id.as_str() == name).unwrap()
}

fn within(deadline: Millis) -> DrainRequest {
    DrainRequest { deadline, reason: "test".to_owned(), owner: "me".to_owned() }
}

#[actix_web::test]
async fn a_cordon_keeps_tasks_away_and_a_drain_can_be_called_off() {
    let dir = tempfile::tempdir().unwrap();
    let region = start_region(dir.path(), free_port());
    let hosts = [("h1", "a"), ("h2", "b")].map(|(name, place)| FakeHost::start(&region.url, name, place));
    let client = ready(&region, 2).await;
    let (h1, h2) = ("h1".parse().unwrap(), "h2".parse().unwrap());
    assert!(client.cordon(&h1).await.unwrap().cordoned);
    client.apply(&job(2, "")).await.unwrap();
    eventually("the job is healthy", || async { state(&client).await == Some(PartState::Healthy) }).await;
    assert_eq!((hosts[0].running().len(), hosts[1].running().len()), (0, 2));

    // Nowhere to go: the drain waits until it is called off.
    hosts[1].seen.lock().unwrap().stubborn = true;
    let drain = client.begin_drain(&h2, &within(Millis::from_secs(3600))).await.unwrap();
    assert_eq!((drain.state, drain.remaining.len(), drain.owner.as_str()), (DrainState::Draining, 2, "me"));
    assert!(host_view(&client, "h2").await.drain.is_some());
    assert_eq!(client.abort_drain(&h2).await.unwrap().state, DrainState::Aborted);
    let again = client.abort_drain(&h2).await.unwrap_err();
    assert_eq!(again.problem().map(|problem| problem.code.clone()), Some(Code::DrainNotFound));
    assert!(host_view(&client, "h2").await.drain.is_none());
    assert_eq!(hosts[1].running().len(), 2, "nothing that could not go elsewhere was stopped");

    assert!(!client.uncordon(&h1).await.unwrap().cordoned);
    let nobody = client.cordon(&"h9".parse().unwrap()).await.unwrap_err();
    assert_eq!(nobody.problem().map(|problem| problem.code.clone()), Some(Code::HostNotFound));
    region.stop().await;
}

#[actix_web::test]
async fn a_drain_ends_by_force_at_its_deadline_and_lists_what_was_forced() {
    let dir = tempfile::tempdir().unwrap();
    let region = start_region(dir.path(), free_port());
    let h1 = FakeHost::start(&region.url, "h1", "a");
    let client = ready(&region, 1).await;
    client.apply(&job(2, "")).await.unwrap();
    eventually("the job is healthy", || async { state(&client).await == Some(PartState::Healthy) }).await;
    let before = h1.running();
    h1.seen.lock().unwrap().stubborn = true;
    let h2 = FakeHost::start(&region.url, "h2", "b");
    ready(&region, 2).await;

    let host = "h1".parse().unwrap();
    client.begin_drain(&host, &within(Millis(1500))).await.unwrap();
    eventually("the drain ends", || async { client.drain(&host).await.unwrap().state != DrainState::Draining }).await;
    let drain = client.drain(&host).await.unwrap();
    assert_eq!(drain.state, DrainState::Forced, "only `drained` is success");
    assert_eq!(drain.forced, before);
    assert!(h1.running().is_empty());
    eventually("the tasks run elsewhere", || async { h2.running().len() == 2 }).await;
    eventually("it is shown where they went", || async {
        let drain = client.drain(&host).await.unwrap();
        drain.moved.len() == 2 && drain.remaining.is_empty()
    })
    .await;
    assert!(host_view(&client, "h1").await.drain.is_some(), "the host stays closed");
    assert!(!client.uncordon(&host).await.unwrap().cordoned);
    assert!(host_view(&client, "h1").await.drain.is_none());
    region.stop().await;
}

#[actix_web::test]
async fn a_drain_of_a_host_that_is_not_heard_ends_unattested() {
    let dir = tempfile::tempdir().unwrap();
    let region = start_region(dir.path(), free_port());
    let h1 = FakeHost::start(&region.url, "h1", "a");
    let client = ready(&region, 1).await;
    client.apply(&job(2, "")).await.unwrap();
    eventually("the job is healthy", || async { state(&client).await == Some(PartState::Healthy) }).await;
    h1.cut();
    eventually("it is silent", || async {
        host_view(&client, "h1").await.health == polder_api::dto::HostHealth::Unknown
    })
    .await;

    let host = "h1".parse().unwrap();
    client.begin_drain(&host, &within(Millis(1000))).await.unwrap();
    eventually("the drain ends", || async { client.drain(&host).await.unwrap().state != DrainState::Draining }).await;
    let drain = client.drain(&host).await.unwrap();
    assert_eq!((drain.state, drain.forced.len()), (DrainState::Unattested, 0));
    assert_eq!(drain.remaining.len(), 2, "what may still run there is listed");
    assert_eq!(h1.running().len(), 2);
    region.stop().await;
}
