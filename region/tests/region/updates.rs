//! Updates of a job over its region's real protocols.

use crate::support::{FakeHost, eventually, free_port, job, ready, start_region, state};
use polder_api::{client::Client, dto::PartState, job_file::JobFile};
use polder_types::TaskId;

fn with_image(tasks: u32, image: &str) -> JobFile {
    let mut file = job(tasks, "");
    file.image = image.to_owned();
    file
}

async fn detail(client: &Client) -> String {
    let status = client.job(&"demo/web".parse().unwrap()).await.unwrap();
    status.regions[0].detail.clone().unwrap_or_default()
}

#[actix_web::test]
async fn an_update_to_an_image_that_hosts_lack_stops_nothing_and_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let region = start_region(dir.path(), free_port());
    let host = FakeHost::start(&region.url, "h1", "a");
    let client = ready(&region, 1).await;
    client.apply(&job(3, "")).await.unwrap();
    eventually("the job is healthy", || async { state(&client).await == Some(PartState::Healthy) }).await;
    let before = host.running();

    host.seen.lock().unwrap().lacks.insert("oci:/images/typo".to_owned());
    client.apply(&with_image(3, "oci:/images/typo")).await.unwrap();
    eventually("the update says what it waits for", || async { detail(&client).await.contains("can't prepare") }).await;
    assert_eq!(host.running(), before, "every task runs as it did");
    let status = client.job(&"demo/web".parse().unwrap()).await.unwrap();
    assert_eq!((status.state, status.regions[0].ready, status.regions[0].updated), (PartState::Degraded, 3, 0));
    let tasks = || async { client.job(&"demo/web".parse().unwrap()).await.unwrap().tasks };
    let stuck: TaskId = tasks().await.into_iter().find(|task| task.waiting.is_some()).unwrap().task;
    let why = client.why(&stuck).await.unwrap();
    assert!(why.summary.contains("can't prepare image oci:/images/typo"), "{why:?}");

    // Applied with an image that is there it goes on, task by task.
    client.apply(&with_image(3, "oci:/images/demo2")).await.unwrap();
    eventually("the job is healthy", || async { state(&client).await == Some(PartState::Healthy) }).await;
    let status = client.job(&"demo/web".parse().unwrap()).await.unwrap();
    assert_eq!((status.regions[0].ready, status.regions[0].updated), (3, 3));
    assert!(host.running().iter().all(|container| !before.contains(container)));
    region.stop().await;
}
