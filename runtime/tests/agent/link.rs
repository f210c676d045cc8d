//! Losing the link, and regions that must not be served.

use polder_runtime::agent;

use crate::{
    harness::{SERVE, TestHost, alive, id},
    region::Region,
};

#[tokio::test]
async fn a_lost_link_is_opened_again_and_begins_with_everything() {
    let mut region = Region::new().await;
    let Some(host) = TestHost::new(&region) else { return };
    let agent = host.run();
    region.inventory().await;
    let web = id("shop/web/0@1");
    region.order(host.start(&web, SERVE)).await;
    let before = region.running(&web).await;
    for _ in 0..3 {
        region.phases.clear();
        region.close().await;
        region.inventory().await;
        assert_eq!(region.running(&web).await, before);
    }
    let sessions: Vec<u64> = region.hellos.iter().map(|hello| hello.session).collect();
    assert!(sessions.is_sorted_by(|one, next| one < next), "{sessions:?}");
    let home = region.hellos[0].home;
    assert!(home.0 != 0 && region.hellos.iter().all(|hello| hello.home == home), "the folder keeps its number");
    agent.stop().await;
    host.clean().await;
}

#[tokio::test]
async fn an_old_copy_of_the_region_and_a_refusal_change_nothing() {
    let mut region = Region::new().await;
    let Some(host) = TestHost::new(&region) else { return };
    region.incarnation(5);
    let agent = host.run();
    region.inventory().await;
    let web = id("shop/web/0@1");
    region.order(host.start(&web, SERVE)).await;
    let (pid, _) = region.running(&web).await;

    region.incarnation(4);
    region.close().await;
    let seen = region.hellos.len();
    region.until("the host tries again", |region| region.hellos.len() >= seen + 2).await;
    assert_eq!(region.inventories, 1, "it does not speak with an old copy");
    assert_eq!(region.hellos.last().unwrap().incarnation.0, 5);

    region.incarnation(6);
    region.reject_with(Some("not now"));
    let seen = region.hellos.len();
    region.until("the host tries again", |region| region.hellos.len() >= seen + 2).await;
    assert!(alive(pid));
    region.reject_with(None);
    region.inventory().await;
    assert!(region.phases.contains_key(&web));
    agent.stop().await;
    host.clean().await;
}

#[tokio::test]
async fn two_agents_on_one_directory_refuse() {
    let mut region = Region::new().await;
    let Some(host) = TestHost::new(&region) else { return };
    let agent = host.run();
    region.inventory().await;
    let error = agent::run(host.config.clone(), std::future::pending()).await.unwrap_err();
    assert!(error.to_string().starts_with("another agent uses the data directory"), "{error}");
    let error = agent::purge(&host.config.data_dir).await.unwrap_err();
    assert!(error.to_string().starts_with("another agent uses the data directory"), "{error}");
    agent.stop().await;
    let mut other = host.config.clone();
    other.id = "another".parse().unwrap();
    let error = agent::run(other, std::future::pending()).await.unwrap_err();
    assert!(error.to_string().contains("belongs to host"), "{error}");
    host.clean().await;
}
