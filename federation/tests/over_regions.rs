//! A federation node over regions that are only their API, all over sockets.

mod support;

use futures::{StreamExt as _, TryStreamExt as _};
use polder_api::{
    Code,
    client::{Client, ClientError},
    dto::*,
};
use polder_types::*;
use std::sync::atomic::Ordering;
use support::*;

async fn until_state(client: &Client, state: PartState) -> JobStatus {
    eventually(state.as_str(), async || client.job(&id("shop/web")).await.ok().filter(|job| job.state == state)).await
}

fn code(error: ClientError) -> Code {
    error.problem().map(|problem| problem.code.clone()).unwrap_or_else(|| panic!("{error}"))
}

const COUNTS: &str = "[regions]\ncounts = { east = 2, west = 4 }";

#[actix_web::test]
async fn a_job_over_two_regions_from_apply_to_stop() {
    let (mut east, mut west) = (RegionServer::start("east"), RegionServer::start("west"));
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir).await;
    let node = Node::start("n1", &store, vec![east.address(), west.address()]);
    node.ready().await;
    let client = &node.client;

    let error = client.apply(&job(2, "i", "[regions]\nnames = [\"moon\"]")).await.unwrap_err();
    assert!(error.to_string().contains("known are: east, west"), "{error}");
    assert_eq!(code(error), Code::RegionNotFound);

    let applied = client.apply(&job(6, "i", COUNTS)).await.unwrap();
    assert!(applied.changed && applied.generation == Generation(1));
    let status = until_state(client, PartState::Healthy).await;
    assert_eq!(east.region.slots("shop/web").len() + west.region.slots("shop/web").len(), 6);
    assert_eq!(status.regions.iter().map(|part| part.ready).collect::<Vec<_>>(), [2, 4]);
    let tasks: Vec<u32> = status.tasks.iter().map(|task| task.task.index).collect();
    assert_eq!(tasks, [0, 1, 2, 3, 4, 5]);
    assert!(!client.apply(&job(6, "i", COUNTS)).await.unwrap().changed);
    let list = client.all_jobs().await.unwrap();
    assert_eq!((list.len(), list[0].ready, list[0].state), (1, 6, PartState::Healthy));

    // A task is asked for where it is.
    let place: RegionId = if east.region.slots("shop/web").contains(&5) { id("east") } else { id("west") };
    assert_eq!(client.why(&id("shop/web/5")).await.unwrap().region, place);
    let logs = client.logs(&id("shop/web/5"), &LogQuery::default()).await.unwrap();
    let text: Vec<u8> = logs.map_ok(|chunk| chunk.to_vec()).try_concat().await.unwrap();
    assert_eq!(String::from_utf8(text).unwrap(), format!("shop/web/5 in {place}\n"));
    assert_eq!(code(client.why(&id("shop/web/6")).await.unwrap_err()), Code::TaskNotFound);

    // Both have a host of the same name.
    let hosts = client.all_hosts().await.unwrap();
    assert_eq!((hosts.hosts.len(), hosts.parts.iter().filter(|part| part.reached).count()), (2, 2));
    let error = client.cordon(&id("h1")).await.unwrap_err();
    assert!(error.hint().unwrap().contains("`west.h1`"));
    assert!(client.cordon(&id("west.h1")).await.unwrap().cordoned);
    assert!(west.region.state.lock().unwrap().cordoned && !east.region.state.lock().unwrap().cordoned);
    assert_eq!(code(client.cordon(&id("h9")).await.unwrap_err()), Code::HostNotFound);

    let events = client.events().await.unwrap().events;
    assert!(events.iter().any(|event| event.kind == "region_heard" && event.region.is_none()));
    let mut stream = client.follow_events().await.unwrap();
    // What has been comes in order of time, whoever tells it, and once: what regions have is older than the federation.
    let mut past = Vec::new();
    while !past.iter().any(|event: &EventView| event.kind == "region_heard") {
        past.push(stream.next().await.unwrap().unwrap());
    }
    assert!(past.is_sorted_by_key(|event| event.at), "{past:?}");
    assert_eq!(past.iter().filter(|event| event.region.is_some()).count(), 2, "{past:?}");
    drop(stream);

    assert!(client.stop_job(&id("shop/web")).await.unwrap().changed);
    until_state(client, PartState::Stopped).await;
    assert!(east.region.state.lock().unwrap().running.is_empty());
    assert_eq!(code(client.stop_job(&id("shop/none")).await.unwrap_err()), Code::JobNotFound);
    node.stop().await;
    east.down().await;
    west.down().await;
}

#[actix_web::test]
async fn a_slot_moves_only_when_its_old_region_has_let_it_go() {
    let (mut east, mut west) = (RegionServer::start("east"), RegionServer::start("west"));
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir).await;
    let node = Node::start("n1", &store, vec![east.address(), west.address()]);
    node.ready().await;
    let client = &node.client;
    client.apply(&job(3, "i", "[regions]\nnames = [\"east\"]")).await.unwrap();
    until_state(client, PartState::Healthy).await;

    east.region.keeps.store(true, Ordering::SeqCst);
    client.apply(&job(3, "i", "[regions]\ncounts = { east = 1, west = 2 }")).await.unwrap();
    eventually("east has the smaller slice", async || (east.region.slots("shop/web").len() == 1).then_some(())).await;
    let status = client.job(&id("shop/web")).await.unwrap();
    assert!(west.region.slots("shop/web").is_empty());
    assert!(status.regions[1].detail.as_ref().unwrap().contains("2 waiting until the region that had them"));

    east.region.keeps.store(false, Ordering::SeqCst);
    east.region.settle();
    until_state(client, PartState::Healthy).await;
    assert_eq!(west.region.slots("shop/web").len(), 2);
    node.stop().await;
    east.down().await;
    west.down().await;
}

#[actix_web::test]
async fn a_silent_region_keeps_its_share_and_catches_up() {
    let (mut east, mut west) = (RegionServer::start("east"), RegionServer::start("west"));
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir).await;
    let node = Node::start("n1", &store, vec![east.address(), west.address()]);
    node.ready().await;
    let client = &node.client;
    client.apply(&job(6, "one", COUNTS)).await.unwrap();
    until_state(client, PartState::Healthy).await;

    west.down().await;
    let status = until_state(client, PartState::Unknown).await;
    assert_eq!(status.regions[0].state, PartState::Healthy);
    assert_eq!((status.regions[1].state, status.regions[1].wanted), (PartState::Unknown, 4));
    assert!(status.tasks.iter().any(|task| task.phase == TaskPhase::Unknown));
    let hosts = client.hosts(&Page::default()).await.unwrap();
    assert_eq!(hosts.parts.iter().map(|part| part.reached).collect::<Vec<_>>(), [true, false]);

    // Accepted and durable without it; the other region has it.
    client.apply(&job(6, "two", COUNTS)).await.unwrap();
    eventually("east has it", async || {
        let state = east.region.state.lock().unwrap();
        state.slices.values().next().filter(|slice| slice.spec.image == "oci:/two").map(drop)
    })
    .await;
    west.up();
    let status = until_state(client, PartState::Healthy).await;
    assert_eq!(status.generation, Generation(2));
    assert_eq!(west.region.state.lock().unwrap().slices[&id("shop/web")].spec.image, "oci:/two");
    node.stop().await;
    east.down().await;
    west.down().await;
}

#[actix_web::test]
async fn a_standby_takes_over_with_all_that_was_accepted_and_sends_nothing_again() {
    let mut east = RegionServer::start("east");
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir).await;
    let first = Node::start("n1", &store, vec![east.address()]);
    first.ready().await;
    let second = Node::start("n2", &store, vec![east.address()]);
    let waits = eventually("the standby answers", async || second.client.ready().await.ok()).await;
    assert!(!waits.ready);
    assert_eq!(code(second.client.apply(&job(2, "i", "")).await.unwrap_err()), Code::NotReady);
    first.client.apply(&job(2, "i", "")).await.unwrap();
    until_state(&first.client, PartState::Healthy).await;
    let puts = east.region.puts.load(Ordering::SeqCst);
    first.stop().await;

    second.ready().await;
    until_state(&second.client, PartState::Healthy).await;
    assert_eq!(east.region.puts.load(Ordering::SeqCst), puts);
    assert!(second.client.apply(&job(3, "i", "")).await.unwrap().changed);
    eventually("three tasks", async || (east.region.slots("shop/web").len() == 3).then_some(())).await;
    second.stop().await;
    east.down().await;
}

#[actix_web::test]
async fn quotas_are_shared_out_and_parts_grow_only_when_others_have_shrunk() {
    let (mut east, mut west) = (RegionServer::start("east"), RegionServer::start("west"));
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir).await;
    let node = Node::start("n1", &store, vec![east.address(), west.address()]);
    node.ready().await;
    let client = &node.client;
    let amounts = |tasks| Amounts { cpu: Cpu::from_centi_cores(1000), memory: Bytes::from_mib(1024), tasks };
    assert_eq!(code(client.quota(&id("shop")).await.unwrap_err()), Code::QuotaNotFound);
    let request = QuotaRequest { limit: amounts(7), regions: Default::default() };
    client.set_quota(&id("shop"), &request).await.unwrap();
    let agreed = async |parts: [u32; 2]| {
        eventually("the parts are agreed", async || {
            let view = client.quota(&id("shop")).await.unwrap();
            let tasks: Vec<u32> = view.regions.iter().map(|part| part.allotment.tasks).collect();
            (tasks == parts).then_some(view)
        })
        .await
    };
    agreed([4, 3]).await;
    assert_eq!(west.region.state.lock().unwrap().allotments[&id("shop")].limit.tasks, 3);

    let part = |tasks| Amounts { tasks, ..Amounts::default() };
    let over = [(id("east"), part(5)), (id("west"), part(3))].into();
    let error = client.set_quota(&id("shop"), &QuotaRequest { limit: amounts(7), regions: over }).await.unwrap_err();
    assert_eq!(code(error), Code::QuotaInconsistent);

    east.down().await;
    let parts = [(id("east"), part(1)), (id("west"), part(6))].into();
    client.set_quota(&id("shop"), &QuotaRequest { limit: amounts(7), regions: parts }).await.unwrap();
    // What east may still believe is not west's.
    agreed([4, 3]).await;
    east.up();
    agreed([1, 6]).await;
    client.apply(&job(2, "i", "[regions]\nnames = [\"east\"]")).await.unwrap();
    eventually("use is seen", async || client.quota(&id("shop")).await.ok().filter(|view| view.used.tasks == 2)).await;
    node.stop().await;
    east.down().await;
    west.down().await;
}

#[actix_web::test]
async fn a_deleted_job_is_forgotten_by_every_region_and_its_name_is_free() {
    let (mut east, mut west) = (RegionServer::start("east"), RegionServer::start("west"));
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir).await;
    let node = Node::start("n1", &store, vec![east.address(), west.address()]);
    node.ready().await;
    let client = &node.client;
    let web: JobId = id("shop/web");
    client.apply(&job(6, "one", COUNTS)).await.unwrap();
    until_state(client, PartState::Healthy).await;
    let error = client.delete_job(&web).await.unwrap_err();
    assert!(error.hint().unwrap().contains("--stop"), "{error}");
    assert_eq!(code(error), Code::JobNotStopped);

    west.region.keeps.store(true, Ordering::SeqCst);
    client.stop_job(&web).await.unwrap();
    eventually("west is told", async || west.region.state.lock().unwrap().slices[&web].stopped.then_some(())).await;
    assert_eq!(code(client.delete_job(&web).await.unwrap_err()), Code::JobNotGone);
    west.region.keeps.store(false, Ordering::SeqCst);
    west.region.settle();
    until_state(client, PartState::Stopped).await;

    // With a region that is not heard nobody knows.
    west.down().await;
    until_state(client, PartState::Unknown).await;
    let error = client.delete_job(&web).await.unwrap_err();
    assert!(error.to_string().contains("region west has not said"), "{error}");
    west.up();
    eventually("it is gone", async || client.delete_job(&web).await.ok().filter(|answer| answer.gone)).await;
    assert_eq!(code(client.job(&web).await.unwrap_err()), Code::JobNotFound);
    assert!(client.all_jobs().await.unwrap().is_empty());
    assert!(east.region.state.lock().unwrap().slices.is_empty() && west.region.state.lock().unwrap().slices.is_empty());

    let applied =
        client.apply(&job(2, "two", COUNTS.replace("east = 2, west = 4", "east = 2").as_str())).await.unwrap();
    assert_eq!(applied.generation, Generation(1));
    until_state(client, PartState::Healthy).await;
    node.stop().await;
    east.down().await;
    west.down().await;
}

#[actix_web::test]
async fn a_region_that_refuses_its_part_is_told_of_and_does_not_keep_the_job_from_being_deleted() {
    let mut east = RegionServer::start("east");
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir).await;
    let node = Node::start("n1", &store, vec![east.address()]);
    node.ready().await;
    let client = &node.client;
    east.region.taken.lock().unwrap().insert(id("shop/web"));
    client.apply(&job(2, "one", "")).await.unwrap();
    let status = until_state(client, PartState::Refused).await;
    assert!(status.regions[0].detail.as_ref().unwrap().contains("the name is taken"), "{status:?}");
    client.stop_job(&id("shop/web")).await.unwrap();
    eventually("it is gone", async || client.delete_job(&id("shop/web")).await.ok().filter(|answer| answer.gone)).await;
    node.stop().await;
    east.down().await;
}

#[actix_web::test]
async fn a_removed_quota_limits_nothing_and_can_be_set_again() {
    let mut east = RegionServer::start("east");
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir).await;
    let node = Node::start("n1", &store, vec![east.address()]);
    node.ready().await;
    let client = &node.client;
    let amounts = Amounts { cpu: Cpu::from_centi_cores(1000), memory: Bytes::from_mib(1024), tasks: 3 };
    let request = QuotaRequest { limit: amounts, regions: Default::default() };
    let held = async |limit: Amounts| {
        eventually("the region holds it", async || {
            let state = east.region.state.lock().unwrap();
            state.allotments.get(&id("shop")).filter(|held| held.limit == limit).map(drop)
        })
        .await;
    };
    let set = client.set_quota(&id("shop"), &request).await.unwrap();
    assert_eq!(set.regions[0].wanted, Some(amounts));
    held(amounts).await;
    client.remove_quota(&id("shop")).await.unwrap();
    held(Amounts::UNLIMITED).await;
    assert_eq!(code(client.quota(&id("shop")).await.unwrap_err()), Code::QuotaNotFound);
    assert_eq!(code(client.remove_quota(&id("shop")).await.unwrap_err()), Code::QuotaNotFound);
    assert!(client.quotas().await.unwrap().quotas.is_empty());
    client.apply(&job(9, "i", "")).await.unwrap();
    client.set_quota(&id("shop"), &request).await.unwrap();
    held(amounts).await;
    node.stop().await;
    east.down().await;
}
