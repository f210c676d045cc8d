//! What an account may use here, and what is said of what it may not.

use crate::support::{FakeHost, eventually, free_port, job, ready, start_region, state};
use polder_api::{Code, dto::PartState};
use polder_types::{Allotment, Amounts, Bytes, Cpu, Slice, SliceVersion, Slots};

fn allotment(version: u64, tasks: u32) -> Allotment {
    let limit = Amounts { cpu: Cpu::from_centi_cores(10_000), memory: Bytes::from_mib(1 << 20), tasks };
    Allotment { account: "demo".parse().unwrap(), version, limit }
}

#[actix_web::test]
async fn tasks_beyond_the_allotment_wait_and_say_so_until_there_is_more() {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let region = start_region(dir.path(), port);
    let host = FakeHost::start(&region.url, "h1", "a");
    let client = ready(&region, 1).await;
    assert_eq!(client.put_allotment(&allotment(3, 2)).await.unwrap(), allotment(3, 2));
    assert_eq!(client.put_allotment(&allotment(2, 9)).await.unwrap(), allotment(3, 2), "an older one changes nothing");
    assert_eq!(client.put_allotment(&allotment(3, 2)).await.unwrap(), allotment(3, 2), "the same does no harm");

    let slice =
        Slice { spec: job(3, "").to_spec().unwrap(), slots: Slots::first(3), version: SliceVersion(1), stopped: false };
    client.put_slice(&slice).await.unwrap();
    let web = "demo/web".parse().unwrap();
    eventually("two run and one waits", || async {
        let part = client.job(&web).await.unwrap().regions.remove(0);
        part.running == 2 && part.detail.is_some_and(|detail| detail.contains("quota"))
    })
    .await;
    assert_eq!(host.running().len(), 2);
    let tasks = client.job(&web).await.unwrap().tasks;
    let waiting = tasks.iter().find(|task| task.host.is_none()).unwrap();
    let why = client.why(&waiting.task).await.unwrap();
    assert!(why.summary.contains("demo") && why.summary.contains('2'), "{}", why.summary);
    assert!(why.waiting.is_some());
    let quota = client.quota(&"demo".parse().unwrap()).await.unwrap();
    assert_eq!((quota.limit.tasks, quota.used.tasks), (2, 2));

    // Others have nothing to do with it, and a restart forgets nothing.
    assert!(
        client
            .quota(&"other".parse().unwrap())
            .await
            .is_err_and(|error| { error.problem().is_some_and(|problem| problem.code == Code::QuotaNotFound) })
    );
    region.stop().await;
    let region = start_region(dir.path(), port);
    let client = ready(&region, 1).await;
    let quota = client.quota(&"demo".parse().unwrap()).await.unwrap();
    assert_eq!((quota.limit.tasks, quota.used.tasks), (2, 2));

    client.put_allotment(&allotment(4, 3)).await.unwrap();
    eventually("all run", || async { state(&client).await == Some(PartState::Healthy) }).await;
    assert_eq!(host.running().len(), 3);

    // A smaller one ends nothing; it is in force when the answer is there.
    client.put_allotment(&allotment(5, 1)).await.unwrap();
    let quota = client.quota(&"demo".parse().unwrap()).await.unwrap();
    assert_eq!((quota.limit.tasks, quota.used.tasks), (1, 3));
    assert_eq!(host.running().len(), 3);
    region.stop().await;
}
