//! Client and server, over a socket.
#![cfg(all(feature = "client", feature = "server"))]

#[path = "support/fake.rs"]
mod fake;

use fake::Running;
use futures::{StreamExt as _, TryStreamExt as _};
use polder_api::{
    Code, Problem,
    client::{Client, ClientError},
    dto::*,
    job_file::{Format, JobFile, Parsed, parse},
};
use polder_types::*;

fn web(account: &str) -> Parsed {
    let text = format!("name = \"web\"\naccount = \"{account}\"\nimage = \"oci:/i\"\ntasks = 2\nports = [\"http\"]");
    parse(text.as_bytes(), Format::Toml).unwrap()
}

fn problem(error: ClientError) -> Problem {
    match error {
        ClientError::Problem { problem, .. } => *problem,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn jobs_with_slashes_in_their_account() {
    let server = Running::start();
    let client = Client::new(&server.address).unwrap();
    let parsed = web("shop/checkout");
    let applied = client.apply(&parsed.file).await.unwrap();
    assert_eq!((applied.job.to_string().as_str(), applied.changed), ("shop/checkout/web", true));
    assert!(!client.apply(&JobFile::from(&parsed.spec)).await.unwrap().changed);
    let status = client.job(&parsed.spec.id).await.unwrap();
    assert_eq!(status.spec.to_spec().unwrap(), parsed.spec);
    assert_eq!(status.tasks.len(), 2);
    assert_eq!(client.all_jobs().await.unwrap().len(), 1);
    let error = client.delete_job(&parsed.spec.id).await.unwrap_err();
    assert_eq!(problem(error).code, Code::JobNotStopped);
    assert!(client.stop_job(&parsed.spec.id).await.unwrap().changed);
    assert_eq!(problem(client.delete_job(&parsed.spec.id).await.unwrap_err()).code, Code::JobNotGone);
    while client.job(&parsed.spec.id).await.unwrap().state != PartState::Stopped {}
    assert!(client.delete_job(&parsed.spec.id).await.unwrap().gone);
    assert_eq!(problem(client.job(&parsed.spec.id).await.unwrap_err()).code, Code::JobNotFound);
    let missing: JobId = "shop/none".parse().unwrap();
    let error = client.stop_job(&missing).await.unwrap_err();
    assert!(error.is_users_fault() && !error.is_retryable());
    assert_eq!(problem(error).code, Code::JobNotFound);
    let error = client.apply(&web("poor").file).await.unwrap_err();
    assert!(error.hint().unwrap().contains("quota get poor"));
}

#[tokio::test]
async fn pages_are_read_to_the_end() {
    let server = Running::start();
    let client = Client::new(&server.address).unwrap();
    for account in ["a", "b", "c"] {
        client.apply(&web(account).file).await.unwrap();
    }
    let page = client.jobs(&Page { limit: 2, after: None }).await.unwrap();
    assert_eq!(page.next.as_deref(), Some("b/web"));
    let rest = client.jobs(&Page { limit: 2, after: page.next }).await.unwrap();
    assert_eq!((rest.jobs.len(), rest.next), (1, None));
    let error = client.jobs(&Page { limit: 0, after: None }).await.unwrap_err();
    assert_eq!(problem(error).code, Code::BadRequest);
}

#[tokio::test]
async fn streams_come_through() {
    let server = Running::start();
    let client = Client::new(&server.address).unwrap();
    client.apply(&web("shop").file).await.unwrap();
    let task: TaskId = "shop/web/1".parse().unwrap();
    let logs = client.logs(&task, &LogQuery { follow: true, tail: Some(2) }).await.unwrap();
    let text: Vec<u8> = logs.map_ok(|chunk| chunk.to_vec()).try_concat().await.unwrap();
    assert_eq!(String::from_utf8(text).unwrap(), "shop/web/1 line 1\nshop/web/1 line 2\n");
    let events: Vec<EventView> = client.follow_events().await.unwrap().map(Result::unwrap).collect().await;
    assert_eq!(events, client.events().await.unwrap().events);
    let missing = client.logs(&"shop/none/1".parse().unwrap(), &LogQuery::default()).await;
    assert_eq!(missing.err().map(problem).map(|problem| problem.code), Some(Code::TaskNotFound));
}

#[tokio::test]
async fn hosts_quotas_and_slices() {
    let server = Running::start();
    let client = Client::new(&server.address).unwrap();
    let host = HostId::new("h1").unwrap();
    assert_eq!(client.all_hosts().await.unwrap().hosts.len(), 2);
    assert!(client.cordon(&host).await.unwrap().cordoned && !client.uncordon(&host).await.unwrap().cordoned);
    let request = DrainRequest { deadline: Millis::from_secs(60), ..DrainRequest::default() };
    assert_eq!(client.begin_drain(&host, &request).await.unwrap().state, DrainState::Draining);
    assert_eq!(client.drain(&host).await.unwrap().state, DrainState::Drained);
    assert_eq!(client.abort_drain(&host).await.unwrap().state, DrainState::Aborted);
    let error = client.begin_drain(&host, &DrainRequest::default()).await.unwrap_err();
    assert_eq!(problem(error).code, Code::BadRequest);

    let account = AccountId::new("shop/checkout").unwrap();
    let amounts = Amounts { cpu: Cpu::from_centi_cores(100), memory: Bytes::from_mib(100), tasks: 3 };
    let eu = RegionId::new("eu").unwrap();
    let mut quota = QuotaRequest { limit: amounts, regions: [(eu, amounts)].into() };
    assert_eq!(client.set_quota(&account, &quota).await.unwrap().limit, amounts);
    assert_eq!(client.quota(&account).await.unwrap().regions.len(), 1);
    assert_eq!(client.remove_quota(&account).await.unwrap().account, account);
    assert_eq!(problem(client.remove_quota(&account).await.unwrap_err()).code, Code::QuotaNotFound);
    quota.regions.insert(RegionId::new("us").unwrap(), amounts);
    let error = problem(client.set_quota(&account, &quota).await.unwrap_err());
    assert_eq!(error.code, Code::QuotaInconsistent);
    assert!(error.detail.ends_with("by 1 CPU, 100MiB memory, 3 tasks"), "{error}");

    let slice = |version| Slice {
        spec: web("shop/checkout").spec,
        slots: Slots::first(2),
        version: SliceVersion(version),
        stopped: false,
    };
    assert_eq!(client.put_slice(&slice(2)).await.unwrap().wanted, 2);
    let error = client.put_slice(&slice(1)).await.unwrap_err();
    assert_eq!(problem(error).code, Code::VersionConflict);
    let web: JobId = "shop/web".parse().unwrap();
    assert!(client.delete_slice(&web, SliceVersion(2)).await.unwrap().gone);
    assert_eq!(problem(client.delete_slice(&web, SliceVersion(1)).await.unwrap_err()).code, Code::VersionConflict);
    let allotment = Allotment { account, version: 1, limit: amounts };
    assert_eq!(client.put_allotment(&allotment).await.unwrap(), allotment);
    assert!(client.slices().await.unwrap().slices.is_empty());
    let error = client.watch_status().await.err().unwrap();
    assert!(error.is_retryable() && !error.is_users_fault());
    assert!(!client.ready().await.unwrap().ready);
}

#[tokio::test]
async fn whatever_is_sent_the_answer_is_a_problem() {
    let server = Running::start();
    let http = reqwest::Client::new();
    let url = |path: &str| format!("{}{path}", server.address);
    let toml = "name = \"web\"\naccount = \"shop\"\nimage = \"oci:/i\"\n";
    let put = |path: &str, body: String| http.put(url(path)).body(body);
    let cases = [
        (put("/v1/jobs/shop%2Fweb", format!("{toml}taks = 1")), Code::JobFileInvalid),
        (put("/v1/jobs/shop%2Fweb", "[".repeat(200_000)), Code::JobFileLimit),
        (put("/v1/jobs/shop%2Fweb", "a".repeat(3 << 20)), Code::BodyTooLarge),
        (put("/v1/jobs/shop%2Fother", toml.to_owned()), Code::JobMismatch),
        (put("/v1/jobs/shop%2Fweb", toml.replace("oci:/i", "oci:i")), Code::JobFileInvalid),
        (put("/v1/jobs/nojob", toml.to_owned()), Code::BadRequest),
        (put("/v1/slices/shop%2Fweb", "{".to_owned()).header("content-type", "application/json"), Code::BadRequest),
        (put("/v1/jobs", String::new()), Code::MethodNotAllowed),
        (http.get(url("/v1/jobs?limit=x")), Code::BadRequest),
        (http.get(url("/v1/jobs?color=red")), Code::BadRequest),
        (http.get(url("/v1/tasks/shop%2Fweb%2Fx/why")), Code::BadRequest),
        (http.get(url("/v1/jobs/%ff%fe")), Code::BadRequest),
        (http.get(url("/nowhere")), Code::PathNotFound),
    ];
    for (request, code) in cases {
        let response = request.send().await.unwrap();
        let (status, path) = (response.status(), response.url().clone());
        assert_eq!(response.headers()["content-type"], polder_api::problem::CONTENT_TYPE, "{path}");
        let problem: Problem = response.json().await.unwrap();
        assert_eq!((&problem.code, status.as_u16()), (&code, code.status()), "{path} {problem}");
    }
    let problem: Problem =
        put("/v1/jobs/shop%2Fweb", format!("{toml}taks = 1")).send().await.unwrap().json().await.unwrap();
    assert_eq!((problem.fields[0].line, problem.fields[0].column), (Some(4), Some(1)));
    let accepted = put("/v1/jobs/shop%2Fweb", toml.to_owned()).send().await.unwrap();
    assert!(accepted.status().is_success());
}

#[tokio::test]
async fn nobody_there() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let error = Client::new(&address).unwrap().slices().await.unwrap_err();
    assert_eq!(error.to_string(), format!("can't reach Polder at http://{address}: Connection refused (os error 111)"));
    assert!(error.hint().unwrap().contains("polder dev") && error.is_retryable());
    for bad in ["", "http://", "https://a:1", "ftp://a", "http://a/b", "http://a?b", "a b", "http://a:99999"] {
        assert!(matches!(Client::new(bad), Err(ClientError::Address { .. })), "{bad}");
    }
}

#[tokio::test]
async fn the_document_has_every_path() {
    let server = Running::start();
    let text = reqwest::get(format!("{}/v1/openapi.json", server.address)).await.unwrap().text().await.unwrap();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let paths = document["paths"].as_object().unwrap();
    use polder_api::paths::*;
    let all = [
        JOBS,
        JOB,
        JOB_DELETE,
        TASK_WHY,
        TASK_LOGS,
        HOSTS,
        HOST_CORDON,
        HOST_UNCORDON,
        HOST_READMIT,
        HOST_DRAIN,
        QUOTAS,
        QUOTA,
        EVENTS,
        SLICES,
        SLICE,
        ALLOTMENT,
        STATUS_WATCH,
        ACTORS,
        METRICS,
        HEALTHZ,
        READYZ,
    ];
    for path in all {
        assert!(paths.contains_key(path), "{path}");
    }
    assert_eq!(paths.len(), all.len());
    // Every reference leads somewhere.
    for reference in text.split("#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(!document["components"]["schemas"][reference].is_null(), "{reference}");
    }
}
