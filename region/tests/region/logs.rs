//! Logs, from the host that has them to whoever reads.

use crate::support::{FakeHost, eventually, free_port, job, ready, start_region, state};
use futures::StreamExt as _;
use polder_api::{
    Code,
    client::{Client, ClientError},
    dto::{LogQuery, PartState},
};
use polder_core::message::HostReport;
use polder_types::{ContainerPhase, ContainerStatus, ExitStatus, Timestamp};
use polder_wire::{LogChunk, ToRegion};

fn code(error: &ClientError) -> Option<Code> {
    error.problem().map(|problem| problem.code.clone())
}

async fn read(client: &Client, task: &str, follow: bool) -> Result<(String, Option<ClientError>), ClientError> {
    let query = LogQuery { follow, tail: None };
    let mut chunks = client.logs(&task.parse().unwrap(), &query).await?;
    let mut text = String::new();
    while let Some(chunk) = chunks.next().await {
        match chunk {
            Ok(bytes) => text.push_str(std::str::from_utf8(&bytes).unwrap()),
            Err(error) => return Ok((text, Some(error))),
        }
    }
    Ok((text, None))
}

#[actix_web::test]
async fn a_log_is_read_over_its_hosts_link_and_ends_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let region = start_region(dir.path(), free_port());
    let host = FakeHost::start(&region.url, "h1", "a");
    let client = ready(&region, 1).await;
    client.apply(&job(1, "")).await.unwrap();
    eventually("the job is healthy", || async { state(&client).await == Some(PartState::Healthy) }).await;

    let (text, error) = read(&client, "demo/web/0", false).await.unwrap();
    assert_eq!(text, "demo/web/0 says hello\nand goodbye\n");
    assert!(error.is_none(), "{error:?}");
    let unknown = read(&client, "demo/web/9", false).await.unwrap_err();
    assert_eq!(code(&unknown), Some(Code::TaskNotFound));

    // One that follows hears what comes, until it goes; then the host is told to stop.
    let query = LogQuery { follow: true, tail: None };
    let mut follow = client.logs(&"demo/web/0".parse().unwrap(), &query).await.unwrap();
    assert_eq!(follow.next().await.unwrap().unwrap(), "demo/web/0 says hello\n");
    let id = *host.seen.lock().unwrap().logs.keys().next().unwrap();
    let more = LogChunk { id, bytes: "more\n".into(), eof: false, error: None };
    host.seen.lock().unwrap().say.push(ToRegion::Log(more));
    assert_eq!(follow.next().await.unwrap().unwrap(), "more\n");
    drop(follow);
    eventually("the host is told to stop", || async {
        // A server notices that a reader is gone when it has something for it.
        let tick = LogChunk { id, bytes: ".".into(), eof: false, error: None };
        let mut seen = host.seen.lock().unwrap();
        seen.say.push(ToRegion::Log(tick));
        seen.logs.is_empty()
    })
    .await;

    // One that follows goes on with the task's next container, and is told where that begins.
    let mut follow = client.logs(&"demo/web/0".parse().unwrap(), &query).await.unwrap();
    assert_eq!(follow.next().await.unwrap().unwrap(), "demo/web/0 says hello\n");
    {
        let mut seen = host.seen.lock().unwrap();
        let id = *seen.logs.keys().next_back().unwrap();
        let (container, _) = seen.running.pop_first().unwrap();
        seen.ended.insert(container.clone(), ExitStatus::Code { code: 1 });
        let phase = ContainerPhase::Ended { status: ExitStatus::Code { code: 1 }, at: Timestamp(1) };
        let containers = vec![ContainerStatus { id: container, phase }];
        seen.say.push(ToRegion::Log(LogChunk { id, bytes: "bye\n".into(), eof: true, error: None }));
        seen.say.push(ToRegion::Report(HostReport::Changed { containers }));
    }
    let mut text = String::new();
    while !text.ends_with("says hello\n") {
        text.push_str(std::str::from_utf8(&follow.next().await.unwrap().unwrap()).unwrap());
    }
    assert_eq!(text, "bye\n--- demo/web/0@2 on host h1 begins ---\ndemo/web/0 says hello\n");
    drop(follow);

    // One that follows is told when the host is gone, rather than left to wait.
    let mut follow = client.logs(&"demo/web/0".parse().unwrap(), &query).await.unwrap();
    assert_eq!(follow.next().await.unwrap().unwrap(), "demo/web/0 says hello\n");
    host.cut();
    let told = follow.next().await.unwrap().unwrap();
    assert!(std::str::from_utf8(&told).unwrap().contains("breaks off"), "{told:?}");
    drop(follow);
    eventually("the host has no link", || async {
        let error = read(&client, "demo/web/0", false).await.unwrap_err();
        code(&error) == Some(Code::HostUnreachable)
    })
    .await;
    region.stop().await;
}
