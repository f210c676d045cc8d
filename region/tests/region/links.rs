//! Which links are taken, and which of two speaks for a host.

use crate::support::{FakeHost, RawLink, eventually, free_port, job, now, ready, start_region, state};
use bytes::Bytes;
use polder_api::dto::{HostHealth, Note, PartState};
use polder_core::message::{HostOrder, HostReport};
use polder_types::{ContainerId, ContainerPhase, ContainerStatus, ExitStatus, HomeId, Incarnation};
use polder_wire::{Hello, PROTOCOL_VERSION, ToHost, ToRegion};
use std::time::Duration;
use tokio_tungstenite::tungstenite::Message;

#[actix_web::test]
async fn a_link_that_can_not_be_right_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let region = start_region(dir.path(), free_port());
    let client = ready(&region, 0).await;
    let good = || Hello {
        protocol: PROTOCOL_VERSION,
        agent: "test".to_owned(),
        region: "eu".parse().unwrap(),
        host: "h1".parse().unwrap(),
        boot: polder_types::BootId("boot-1".to_owned()),
        session: 1,
        incarnation: Incarnation(0),
        home: HomeId(1),
    };
    let wrong = [
        (Hello { region: "us".parse().unwrap(), ..good() }, "the host belongs to us"),
        (Hello { protocol: 0, ..good() }, "upgrade its agent"),
        (Hello { incarnation: Incarnation(9), ..good() }, "it is an old copy"),
    ];
    for (hello, reason) in wrong {
        let mut link = RawLink::connect(&region.url).await;
        link.say(&[ToRegion::Hello(hello)]).await;
        let said = link.refused().await;
        assert!(said.contains(reason), "{said}");
    }

    let mut link = RawLink::connect(&region.url).await;
    link.say(&[ToRegion::Report(HostReport::Alive)]).await;
    assert_eq!(link.refused().await, "the first message of a link must be a hello");

    let mut link = RawLink::hello(&region.url, "h1", 2).await;
    link.say(&[ToRegion::Report(crate::support::inventory("h2", Vec::new()))]).await;
    let said = link.refused().await;
    assert!(said.contains("said hello as h1 and calls itself h2"), "{said}");
    assert!(client.all_hosts().await.unwrap().hosts.is_empty());
    region.stop().await;
}

#[actix_web::test]
async fn what_can_not_be_read_costs_a_host_its_link_and_nobody_else_anything() {
    let dir = tempfile::tempdir().unwrap();
    let region = start_region(dir.path(), free_port());
    let host = FakeHost::start(&region.url, "h1", "a");
    let client = ready(&region, 1).await;
    client.apply(&job(2, "")).await.unwrap();
    eventually("the job is healthy", || async { state(&client).await == Some(PartState::Healthy) }).await;

    let garbage = || [Message::Binary(Bytes::from_static(b"\xff\xff\xff\xff")), Message::Text("hello".into())];
    for message in garbage() {
        let mut link = RawLink::connect(&region.url).await;
        link.send(message).await;
        link.refused().await;
    }
    for (session, message) in (1..).zip(garbage()) {
        let mut link = RawLink::open(&region.url, "h2", session, Vec::new()).await;
        link.send(message).await;
        link.refused().await;
    }
    let mut link = RawLink::open(&region.url, "h2", 9, Vec::new()).await;
    // Longer than a frame may be: closed before it is held in memory, so nobody can say why.
    link.send(Message::Binary(vec![0; polder_wire::FRAME_BYTES_MAX + 1].into())).await;
    link.closed().await;

    assert_eq!(state(&client).await, Some(PartState::Healthy));
    assert_eq!(host.running().len(), 2);
    region.stop().await;
}

#[actix_web::test]
async fn the_newest_link_speaks_for_a_host_however_long_an_older_one_stays_open() {
    let dir = tempfile::tempdir().unwrap();
    let region = start_region(dir.path(), free_port());
    let client = ready(&region, 0).await;
    // Half open: it says nothing more, reads nothing, and is not closed.
    let mut old = RawLink::open(&region.url, "h1", 5, Vec::new()).await;
    let mut new = RawLink::open(&region.url, "h1", 6, Vec::new()).await;
    for session in [4, 5, 6] {
        let mut late = RawLink::hello(&region.url, "h1", session).await;
        assert_eq!(late.refused().await, "a newer link of this host is open");
    }

    client.apply(&job(1, "")).await.unwrap();
    let container = loop {
        match tokio::time::timeout(Duration::from_millis(300), new.next()).await {
            Ok(Ok(ToHost::Order(HostOrder::Start { container, .. }))) => break container,
            Ok(Ok(_)) => {}
            Ok(Err(closed)) => panic!("the newest link was closed: {closed}"),
            Err(_) => new.say(&[ToRegion::Report(HostReport::Alive)]).await,
        }
    };
    new.say(&[reported(&container, running())]).await;
    eventually("the task runs", || async { state(&client).await == Some(PartState::Healthy) }).await;

    // What the old one says now is not heard.
    let ended = ContainerPhase::Ended { status: ExitStatus::Code { code: 1 }, at: now() };
    old.say(&[reported(&container, ended)]).await;
    assert!(old.closed().await.contains("a newer link"));
    new.heard(&client).await;
    assert_eq!(client.all_hosts().await.unwrap().hosts[0].tasks, 1);
    let task = client.job(&container.task.job).await.unwrap().tasks.remove(0);
    assert_eq!((task.epoch, task.restarts), (container.epoch, 0));

    // With the newest gone, the next one may have any number that is higher.
    drop(new);
    let mut next = RawLink::open(&region.url, "h1", 7, vec![status(&container, running())]).await;
    next.heard(&client).await;
    region.stop().await;
}

#[actix_web::test]
async fn another_agent_can_not_speak_for_a_host_until_a_person_lets_it() {
    let dir = tempfile::tempdir().unwrap();
    let region = start_region(dir.path(), free_port());
    let client = ready(&region, 0).await;
    let name = "h1".parse().unwrap();
    let mut first = RawLink::open(&region.url, "h1", 5, Vec::new()).await;
    first.heard(&client).await;

    // While the first is linked, the other does not even take its place.
    let mut other = RawLink::hello_from(&region.url, "h1", HomeId(2), 9).await;
    assert!(other.refused().await.contains("another agent"));
    first.heard(&client).await;
    let refused = client.readmit(&name, &Note::default()).await.unwrap_err().to_string();
    assert!(refused.contains("h1 is heard"), "{refused}");

    // Nor when it is gone: not at once, and not when it has been silent.
    drop(first);
    let silent = || async { client.all_hosts().await.unwrap().hosts[0].health == HostHealth::Unknown };
    for when in ["gone", "silent"] {
        let mut other = RawLink::hello_from(&region.url, "h1", HomeId(2), 9).await;
        other.say(&[ToRegion::Report(crate::support::inventory("h1", Vec::new()))]).await;
        let said = other.refused().await;
        assert!(said.contains("belongs to the agent with data folder 0000000000000001"), "{when}: {said}");
        eventually("the host is silent", silent).await;
    }
    let events = client.events().await.unwrap().events;
    assert!(events.iter().any(|event| event.kind == "host_name_taken"), "{events:?}");

    client.readmit(&name, &Note { reason: "new disk".to_owned(), owner: "ann".to_owned() }).await.unwrap();
    let mut other = RawLink::hello_from(&region.url, "h1", HomeId(2), 9).await;
    other.say(&[ToRegion::Report(crate::support::inventory("h1", Vec::new()))]).await;
    other.heard(&client).await;
    drop(other);
    let mut first = RawLink::hello(&region.url, "h1", 10).await;
    first.say(&[ToRegion::Report(crate::support::inventory("h1", Vec::new()))]).await;
    let said = first.refused().await;
    assert!(said.contains("data folder 0000000000000002"), "{said}");
    region.stop().await;
}

fn running() -> ContainerPhase {
    ContainerPhase::Running { started_at: now(), pid: 7, ready: true }
}

fn status(container: &ContainerId, phase: ContainerPhase) -> ContainerStatus {
    ContainerStatus { id: container.clone(), phase }
}

fn reported(container: &ContainerId, phase: ContainerPhase) -> ToRegion {
    ToRegion::Report(HostReport::Changed { containers: vec![status(container, phase)] })
}
