//! The agent comes and goes; containers don't.

use std::{fs, time::Duration};

use polder_types::{ContainerPhase, ExitStatus};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    harness::{HANG, SERVE, STUBBORN, TestHost, alive, born, id, stop},
    region::Region,
};

fn kill(pid: u32) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_restart_of_the_agent_changes_nothing() {
    let mut region = Region::new().await;
    let Some(host) = TestHost::new(&region) else { return };
    let agent = host.run();
    region.inventory().await;
    let (web, dies, stops) = (id("shop/web/0@1"), id("shop/dies/0@1"), id("shop/stops/0@1"));
    for id in [&web, &dies] {
        region.order(host.start(id, SERVE)).await;
    }
    region.order(host.start(&stops, STUBBORN)).await;
    let before = region.running(&web).await;
    let (dying, _) = region.running(&dies).await;
    region.running(&stops).await;
    host.says(&stops, "ready").await;
    region.order(stop(&stops)).await;
    region.until("it stops", |region| matches!(region.phases[&stops], ContainerPhase::Stopping { .. })).await;
    let birth = born(before.0);
    let stopping = region.phases[&stops].clone();
    agent.stop().await;

    assert!(alive(before.0));
    kill(dying);
    let agent = host.run();
    region.inventory().await;
    assert_eq!(region.running(&web).await, before);
    assert_eq!(born(before.0), birth);
    assert_eq!(region.phases[&stops], stopping, "it has no more time than before");
    assert_eq!(region.ended(&dies).await, ExitStatus::Signal { signal: 9, oom: false });

    // It is looked after as before.
    kill(before.0);
    assert_eq!(region.ended(&web).await, ExitStatus::Signal { signal: 9, oom: false });
    let [first, second] = &region.hellos[..] else { panic!("{:?}", region.hellos) };
    assert!(second.session > first.session);
    agent.stop().await;
    host.clean().await;
}

#[tokio::test]
async fn what_was_never_accepted_is_removed() {
    let mut region = Region::new().await;
    let Some(host) = TestHost::new(&region) else { return };
    let agent = host.run();
    region.inventory().await;
    let web = id("shop/web/0@1");
    region.order(host.start(&web, STUBBORN)).await;
    let (pid, _) = region.running(&web).await;
    agent.stop().await;
    // As if its start had never become durable.
    fs::remove_dir_all(host.config.data_dir.join("store")).unwrap();
    let agent = host.run();
    region.inventory().await;
    assert!(region.phases.is_empty(), "{:?}", region.phases);
    let gone = async {
        while alive(pid) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(HANG, gone).await.expect("the stray lives on");
    // And its place is free again.
    region.order(host.start(&id("shop/web/0@2"), SERVE)).await;
    region.running(&id("shop/web/0@2")).await;
    agent.stop().await;
    host.clean().await;
}
