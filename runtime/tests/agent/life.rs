//! Containers from their start to their end, and drains.

use polder_core::message::{DrainOrder, HostOrder, Preparation, Refusal};
use polder_types::{
    ContainerId, ContainerPhase, ContainerSpec, DrainVersion, ExitStatus, HealthCheck, Millis, StopSignal, StopSpec,
    Timestamp,
};
use polder_wire::{LogRequest, ToHost};

use crate::{
    harness::{SERVE, STUBBORN, TestHost, alive, forget, id, owner, start, stop},
    region::Region,
};

#[tokio::test]
async fn a_container_runs_is_stopped_and_forgotten() {
    let mut region = Region::new().await;
    let Some(host) = TestHost::new(&region) else { return };
    let agent = host.run();
    region.inventory().await;
    let web = id("shop/web/3@7");
    region.order(host.start(&web, &format!("/bin/busybox env; {SERVE}"))).await;
    let (pid, _) = region.running(&web).await;
    assert!(alive(pid));

    // Its log can be read while it runs, and what it sees is there.
    let request = LogRequest { id: 1, task: web.task.clone(), epoch: None, follow: true, tail: None };
    region.say(ToHost::Log(request)).await;
    region
        .until("it says that it is ready", |region| {
            let text: Vec<u8> = region.log.iter().flat_map(|chunk| chunk.bytes.to_vec()).collect();
            String::from_utf8_lossy(&text).contains("ready\n")
        })
        .await;
    region.order(stop(&web)).await;
    assert_eq!(region.ended(&web).await, ExitStatus::Code { code: 7 });
    assert!(!alive(pid));

    // Following ends with the container, and nothing of it is missing.
    let (log, error) = region.whole_log(1).await;
    assert_eq!(error, None);
    assert!(log.ends_with("ready\nbye\n"), "{log}");
    let host_name = format!("POLDER_HOST={}", host.config.id);
    let expected = [
        "FROM_IMAGE=yes",
        "FROM_JOB=yes",
        "PORT=20001",
        "PORT_HTTP=20001",
        "POLDER_TASK=shop/web/3",
        "POLDER_JOB=shop/web",
        "POLDER_EPOCH=7",
        "POLDER_REGION=west",
        "POLDER_ADDRESS=127.0.0.1",
        host_name.as_str(),
    ];
    for line in expected {
        assert!(log.lines().any(|said| said == line), "{line} is missing in {log}");
    }

    // It is still there when the container is not; the last line alone, too.
    let request = LogRequest { id: 2, task: web.task.clone(), epoch: Some(web.epoch), follow: false, tail: Some(1) };
    region.say(ToHost::Log(request)).await;
    assert_eq!(region.whole_log(2).await, ("bye\n".to_owned(), None));
    let request = LogRequest { id: 3, task: "shop/other/0".parse().unwrap(), epoch: None, follow: false, tail: None };
    region.say(ToHost::Log(request)).await;
    assert!(region.whole_log(3).await.1.unwrap().contains("no log of shop/other/0"));

    region.order(forget(&web)).await;
    region.order(host.start(&web, SERVE)).await;
    region.until("the forgotten container is refused", |region| !region.refusals.is_empty()).await;
    assert!(matches!(region.refusals[0], Refusal::StaleContainer { .. }));
    agent.stop().await;
    host.clean().await;
}

#[tokio::test]
async fn what_can_t_be_started_says_why() {
    let mut region = Region::new().await;
    let Some(host) = TestHost::new(&region) else { return };
    let agent = host.run();
    region.inventory().await;
    let (nowhere, broken, quick) = (id("shop/a/0@1"), id("shop/b/0@1"), id("shop/c/0@1"));
    let spec = |image: &str, command: &str| ContainerSpec {
        image: image.to_owned(),
        command: vec![command.to_owned()],
        ..host.spec("")
    };
    region.order(start(&nowhere, spec("oci:/no/such/image:v1", "/bin/sh"))).await;
    region.order(start(&broken, spec(&host.spec("").image, "/no/such/program"))).await;
    region.order(host.start(&quick, "exit 3")).await;
    let ExitStatus::NotStarted { reason } = region.ended(&nowhere).await else { panic!("{:?}", region.phases) };
    assert!(reason.contains("/no/such/image"), "{reason}");
    let status = region.ended(&broken).await;
    assert!(status.to_string().contains("/no/such/program"), "{status}");
    assert_eq!(region.ended(&quick).await, ExitStatus::Code { code: 3 });
    agent.stop().await;
    host.clean().await;
}

#[tokio::test]
async fn an_image_is_prepared_ahead_or_it_is_said_why_not() {
    let mut region = Region::new().await;
    let Some(host) = TestHost::new(&region) else { return };
    let agent = host.run();
    region.inventory().await;
    let (here, nowhere) = (id("shop/a/0@1"), id("shop/b/0@1"));
    let prepare = |container: &ContainerId, image: &str| HostOrder::Prepare {
        owner: owner(),
        container: container.clone(),
        image: image.to_owned(),
    };
    region.order(prepare(&nowhere, "oci:/no/such/image:v1")).await;
    region.order(prepare(&here, &host.spec("").image)).await;
    let answered = |region: &Region, of: &ContainerId| {
        let of_it = region.preparations.iter().rev().find(|(id, said)| id == of && *said != Preparation::UnderWay);
        of_it.map(|(_, said)| said.clone())
    };
    let both = |region: &mut Region| answered(region, &here).is_some() && answered(region, &nowhere).is_some();
    region.until("it has answered both", both).await;
    assert_eq!(answered(&region, &here), Some(Preparation::Done));
    let Some(Preparation::Failed { reason }) = answered(&region, &nowhere) else { panic!("{region:?}") };
    assert!(reason.contains("/no/such/image"), "{reason}");
    assert!(region.phases.is_empty(), "nothing was started");
    agent.stop().await;
    host.clean().await;
}

#[tokio::test]
async fn a_container_that_does_not_stop_is_killed() {
    let mut region = Region::new().await;
    let Some(host) = TestHost::new(&region) else { return };
    let agent = host.run();
    region.inventory().await;
    let web = id("shop/web/0@1");
    let stop_spec = StopSpec { signal: StopSignal::Sigterm, grace: Millis(300) };
    region.order(start(&web, ContainerSpec { stop: stop_spec, ..host.spec(STUBBORN) })).await;
    region.running(&web).await;
    host.says(&web, "ready").await;
    region.order(stop(&web)).await;
    assert_eq!(region.ended(&web).await, ExitStatus::Signal { signal: 9, oom: false });
    agent.stop().await;
    host.clean().await;
}

#[tokio::test]
async fn a_container_is_ready_when_it_answers() {
    let mut region = Region::new().await;
    let Some(host) = TestHost::new(&region) else { return };
    let agent = host.run();
    region.inventory().await;
    let web = id("shop/web/0@1");
    // A port that nobody else has now.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut spec = host.spec(
        "/bin/busybox sleep 0.3; \
         exec /bin/busybox nc -ll -p $PORT -e /bin/sh -c 'read line; printf \"HTTP/1.0 200 OK\\r\\n\\r\\n\"'",
    );
    spec.ports[0].port = port;
    spec.health = Some(HealthCheck {
        port: "http".parse().unwrap(),
        path: "/".to_owned(),
        interval: Millis(100),
        timeout: Millis(2000),
        failures: 3,
    });
    region.order(start(&web, spec)).await;
    let mut unready = false;
    region
        .until("it is ready", |region| match region.phases.get(&web) {
            Some(ContainerPhase::Running { ready, .. }) => {
                unready |= !ready;
                *ready
            }
            _ => false,
        })
        .await;
    assert!(unready, "it was not ready from the beginning");
    agent.stop().await;
    host.clean().await;
}

#[tokio::test]
async fn a_drained_host_swears_that_nothing_is_left() {
    let mut region = Region::new().await;
    let Some(host) = TestHost::new(&region) else { return };
    let agent = host.run();
    region.inventory().await;
    let (web, stubborn) = (id("shop/web/0@1"), id("shop/stubborn/0@1"));
    region.order(host.start(&web, SERVE)).await;
    region.order(host.start(&stubborn, STUBBORN)).await;
    for id in [&web, &stubborn] {
        region.running(id).await;
        host.says(id, "ready").await;
    }
    let version = DrainVersion(4);
    region.order(HostOrder::Drain(DrainOrder { version, deadline: Timestamp(u64::MAX) })).await;
    region.until("the drain is sworn", |region| region.oath.is_some()).await;
    let oath = region.oath.clone().unwrap();
    assert_eq!((oath.version, oath.remaining.len()), (version, 2));
    assert_eq!(oath.boot, region.hellos[0].boot);
    region.order(host.start(&id("shop/late/0@1"), SERVE)).await;
    region.until("a start is refused", |region| !region.refusals.is_empty()).await;
    assert_eq!(region.refusals, [Refusal::Draining { version }]);

    region.order(stop(&web)).await;
    region.order(stop(&stubborn)).await;
    region.ended(&web).await;

    // The drain outlives the agent.
    agent.stop().await;
    let agent = host.run();
    region.inventory().await;
    assert_eq!(region.oath.as_ref().map(|oath| oath.remaining.clone()), Some(vec![stubborn.clone()]));
    region.order(HostOrder::ForceDrain { version }).await;
    region.until("nothing is left", |region| region.oath.as_ref().is_some_and(|oath| oath.remaining.is_empty())).await;
    assert_eq!(region.oath.as_ref().unwrap().forced, [stubborn]);
    agent.stop().await;
    host.clean().await;
}
