//! What a region counts while the main job runs.

use crate::support::{FakeHost, eventually, free_port, job, ready, start_region, state};
use polder_api::{
    client::Client,
    dto::{DrainRequest, DrainState, PartState, QuotaRequest},
};
use polder_observability::unseen;
use polder_types::{Amounts, Bytes, Cpu, Millis};
use std::collections::BTreeMap;

/// The value of a line of metrics that begins so.
fn value(text: &str, line: &str) -> Option<f64> {
    text.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' ')?.parse().ok())
}

async fn shows(client: &Client, line: &str, wanted: impl Fn(f64) -> bool) {
    eventually(line, || async { value(&client.metrics().await.unwrap(), line).is_some_and(&wanted) }).await;
}

#[actix_web::test]
async fn everything_that_is_declared_is_seen_and_moves() {
    let dir = tempfile::tempdir().unwrap();
    let region = start_region(dir.path(), free_port());
    let hosts = [("h1", "a"), ("h2", "b")].map(|(name, place)| FakeHost::start(&region.url, name, place));
    let client = ready(&region, 2).await;
    let limit = Amounts { cpu: Cpu::from_centi_cores(200), memory: Bytes::from_mib(1024), tasks: 4 };
    let request = QuotaRequest { limit, regions: BTreeMap::new() };
    client.set_quota(&"demo".parse().unwrap(), &request).await.unwrap();
    let before = client.metrics().await.unwrap();
    client.apply(&job(4, "")).await.unwrap();
    eventually("the job is healthy", || async { state(&client).await == Some(PartState::Healthy) }).await;

    // Other regions of this process count into the same registry, so counters are compared with what they were.
    shows(&client, "polder_tasks{state=\"running\"}", |tasks| tasks == 4.0).await;
    shows(&client, "polder_used{resource=\"cpu_cores\"}", |cores| cores == 2.0).await;
    shows(&client, "polder_capacity{resource=\"cpu_cores\"}", |cores| cores == 8.0).await;
    shows(&client, "polder_quota_used{account=\"demo\",resource=\"tasks\"}", |tasks| tasks == 4.0).await;
    for counter in [
        "polder_placements_total{outcome=\"granted\"}",
        "polder_task_starts_total{outcome=\"running\"}",
        "polder_task_start_seconds_count",
        "polder_placement_seconds_count{outcome=\"granted\"}",
    ] {
        let earlier = value(&before, counter).unwrap_or(0.0);
        shows(&client, counter, |now| now >= earlier + 4.0).await;
    }

    let request = DrainRequest { deadline: Millis::from_secs(60), reason: "test".to_owned(), owner: String::new() };
    client.begin_drain(&"h1".parse().unwrap(), &request).await.unwrap();
    eventually("the host is drained", || async {
        client.drain(&"h1".parse().unwrap()).await.unwrap().state == DrainState::Drained
    })
    .await;
    shows(&client, "polder_hosts{condition=\"closed\"}", |hosts| hosts == 1.0).await;
    shows(&client, "polder_drains{state=\"drained\"}", |drains| drains == 1.0).await;
    shows(&client, "polder_drains_ended_total{outcome=\"drained\"}", |drains| drains >= 1.0).await;
    // What finds no room is counted as refused once, and has its reason.
    let refused = "polder_placements_total{outcome=\"refused\"}";
    let earlier = value(&before, refused).unwrap();
    let mut heavy = job(20, "");
    heavy.account = "other".parse().unwrap();
    heavy.name = "heavy".parse().unwrap();
    client.apply(&heavy).await.unwrap();
    shows(&client, "polder_pending_tasks{reason=\"no_room\"}", |tasks| tasks == 16.0).await;
    shows(&client, "polder_tasks{state=\"waiting\"}", |tasks| tasks == 16.0).await;
    shows(&client, refused, |now| now >= earlier + 16.0).await;

    hosts[1].cut();
    shows(&client, "polder_hosts{condition=\"silent\"}", |hosts| hosts >= 1.0).await;
    shows(&client, "polder_host_silence_seconds_max", |seconds| seconds > 0.0).await;

    let text = client.metrics().await.unwrap();
    assert_eq!(unseen("region", &text), Vec::<&str>::new(), "declared, and never touched");
    for route in ["/v1/jobs/{job}", "/metrics", "/v1/hosts/{host}/drain"] {
        assert!(text.contains(&format!("route=\"{route}\"")), "{route}");
    }
    for unbounded in ["web", "heavy", "\"h1\"", "\"h2\""] {
        let found = text.lines().find(|line| line.contains(unbounded) && !line.starts_with('#'));
        assert_eq!(found, None, "a label is unbounded");
    }
    region.stop().await;
}
