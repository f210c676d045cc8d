//! The demo workload as a plain process: what it answers, and how it ends.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    time::Duration,
};

/// More than any test makes it write.
const LINES_MAX: usize = 10_000;
const PATIENCE: Duration = Duration::from_secs(30);

/// A running demo; killed when dropped.
struct Demo {
    child: Child,
    port: u16,
    lines: mpsc::Receiver<String>,
}

impl Demo {
    fn start(env: &[(&str, &str)]) -> Self {
        let (child, lines) = spawn(&[], env);
        let mut demo = Self { child, port: 0, lines };
        let line = demo.line("listening on ");
        demo.port = line.rsplit(':').next().unwrap().parse().unwrap();
        demo
    }

    /// The next line that begins so.
    fn line(&self, start: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no line begins `{start}`"));
            if line.starts_with(start) {
                return line;
            }
        }
    }

    fn send(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        // A crash ends the connection without an answer, and possibly with a reset.
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    fn get(&self, path: &str) -> (u16, String) {
        let answer = self.send(&format!("GET {path} HTTP/1.1\r\nHost: demo\r\n\r\n"));
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        (status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    fn ended(&mut self) -> ExitStatus {
        ended(&mut self.child)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(args: &[&str], env: &[(&str, &str)]) -> (Child, mpsc::Receiver<String>) {
    run(Command::new(env!("CARGO_BIN_EXE_polder-demo")).args(args).env_clear(), env)
}

fn run(command: &mut Command, env: &[(&str, &str)]) -> (Child, mpsc::Receiver<String>) {
    let mut child = command.env("PORT_HTTP", "0").envs(env.iter().copied()).stdout(Stdio::piped()).spawn().unwrap();
    let out = child.stdout.take().unwrap();
    let (send, lines) = mpsc::sync_channel(LINES_MAX);
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    (child, lines)
}

fn ended(child: &mut Child) -> ExitStatus {
    for _ in 0..PATIENCE.as_millis() / 10 {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the demo did not end");
}

/// Whether process `pid` is there and no zombie.
fn children_of(pid: u32) -> Vec<String> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let of_threads = std::fs::read_dir(format!("/proc/{pid}/task"))
        .unwrap()
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("children")).ok());
    let all: Vec<String> = of_threads.chain([children]).collect();
    let mut pids: Vec<String> = all.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect();
    pids.sort();
    pids.dedup();
    pids
}

#[test]
fn it_says_who_it_is() {
    let demo = Demo::start(&[
        ("POLDER_TASK", "shop/web/3"),
        ("POLDER_EPOCH", "7"),
        ("POLDER_HOST", "h1"),
        ("POLDER_REGION", "north"),
        ("DEMO_VERSION", "v\"2"),
    ]);
    let (status, body) = demo.get("/");
    assert_eq!(status, 200);
    for part in [
        r#""task":"shop/web/3""#,
        r#""epoch":7"#,
        r#""host":"h1""#,
        r#""region":"north""#,
        r#""version":"v\"2""#,
        &format!(r#""pid":{}"#, demo.child.id()),
    ] {
        assert!(body.contains(part), "{part} in {body}");
    }
    assert!(demo.get("/env").1.contains(r#""POLDER_HOST":"h1""#));
    assert_eq!(demo.get("/nowhere").0, 404);
    demo.line("GET /nowhere 404");
    let head = demo.send("HEAD / HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn bad_requests_are_answered_and_do_no_harm() {
    let demo = Demo::start(&[]);
    for bad in ["\r\n\r\n", "GET / HTTP/9\r\n\r\n", "PUT / HTTP/1.1\r\n\r\n", "GET /crash?code=999 HTTP/1.1\r\n\r\n"] {
        let answer = demo.send(bad);
        assert!(answer.starts_with("HTTP/1.1 4"), "{bad:?}: {answer}");
    }
    drop(TcpStream::connect(("127.0.0.1", demo.port)).unwrap());
    assert_eq!(demo.get("/health"), (200, "ok\n".into()));
}

#[test]
fn health_can_be_slow_and_can_fail() {
    let demo = Demo::start(&[]);
    assert_eq!(demo.get("/health").0, 200);
    assert_eq!(demo.get("/health/fail").0, 200);
    assert_eq!(demo.get("/health"), (503, "failing\n".into()));
    assert_eq!(demo.get("/health/ok").0, 200);
    assert_eq!(demo.get("/health").0, 200);
    let slow = Demo::start(&[("DEMO_SLOW_START_SECS", "3600")]);
    assert_eq!(slow.get("/health"), (503, "starting\n".into()));
}

#[test]
fn it_crashes_when_asked() {
    let mut demo = Demo::start(&[]);
    demo.get("/crash?code=42");
    assert_eq!(demo.ended().code(), Some(42));
    let mut demo = Demo::start(&[]);
    demo.get("/abort");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&demo.ended()), Some(6));
    let mut demo = Demo::start(&[("DEMO_EXIT_AFTER_SECS", "0"), ("DEMO_EXIT_CODE", "3")]);
    assert_eq!(demo.ended().code(), Some(3));
}

#[test]
fn it_stops_when_told() {
    let mut demo = Demo::start(&[]);
    demo.signal("TERM");
    assert_eq!(demo.ended().code(), Some(0));
    let mut demo = Demo::start(&[("DEMO_STOP_SECS", "1")]);
    demo.signal("TERM");
    demo.line("got SIGTERM");
    // It goes on for a while, and says that it is no longer to be used.
    let (status, _) = demo.get("/health");
    assert!(status == 503 || demo.ended().success());
    assert_eq!(demo.ended().code(), Some(0));
    let mut demo = Demo::start(&[]);
    assert_eq!(demo.get("/drain").0, 202);
    assert_eq!(demo.ended().code(), Some(0));
}

#[test]
fn it_ignores_being_told_when_told_to() {
    let demo = Demo::start(&[("DEMO_IGNORE_STOP", "1")]);
    demo.signal("TERM");
    demo.line("got SIGTERM, which it was told to ignore");
    assert_eq!(demo.get("/health").0, 200);
}

#[test]
fn it_takes_memory_and_gives_it_back() {
    let demo = Demo::start(&[]);
    let used = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", demo.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(demo.get("/memory?mb=32").0, 200);
    assert!(used() > 32 << 10);
    assert_eq!(demo.get("/memory?mb=0").0, 200);
    assert!(used() < 32 << 10);
    assert_eq!(demo.get("/spin?secs=0").0, 202);
}

#[test]
fn it_starts_and_collects_children() {
    let demo = Demo::start(&[]);
    assert_eq!(demo.get("/fork?n=3").0, 200);
    let children = children_of(demo.child.id());
    assert_eq!(children.len(), 3, "{children:?}");
    for pid in &children {
        assert!(Command::new("kill").args(["-s", "KILL", pid]).status().unwrap().success());
    }
    for _ in 0..3 {
        demo.line("collected a child");
    }
    assert_eq!(children_of(demo.child.id()), [""; 0]);
    demo.get("/fork?n=2&secs=0");
    for _ in 0..2 {
        demo.line("collected a child");
    }
}

/// As process 1 the kernel keeps only those signals for it that it has asked for, and gives it all orphans.
#[test]
fn it_is_a_good_first_process() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: making a pid namespace needs root");
        return;
    }
    let program = env!("CARGO_BIN_EXE_polder-demo");
    let args = ["--pid", "--fork", "--kill-child", program];
    let (mut unshare, lines) = run(Command::new("unshare").args(args), &[]);
    assert!(lines.recv_timeout(PATIENCE).unwrap().starts_with("listening on "));
    let first = children_of(unshare.id()).pop().unwrap();
    assert!(Command::new("kill").args(["-s", "TERM", &first]).status().unwrap().success());
    assert!(lines.recv_timeout(PATIENCE).unwrap().starts_with("got SIGTERM, stopping"));
    assert_eq!(ended(&mut unshare).code(), Some(0));
}

#[test]
fn batch_works_and_ends() {
    let (mut child, _lines) = spawn(&["batch"], &[("DEMO_EXIT_AFTER_SECS", "0"), ("DEMO_EXIT_CODE", "9")]);
    assert_eq!(ended(&mut child).code(), Some(9));
    let (mut child, lines) = spawn(&["batch"], &[("DEMO_EXIT_AFTER_SECS", "3600")]);
    assert!(lines.recv_timeout(PATIENCE).unwrap().starts_with("batch: working"));
    assert!(Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(ended(&mut child).code(), Some(143));
}

#[test]
fn what_it_does_not_understand_is_an_error() {
    let (mut child, lines) = spawn(&["dance"], &[]);
    assert_eq!(ended(&mut child).code(), Some(2));
    assert!(lines.recv_timeout(PATIENCE).unwrap().contains("`dance` is no role"));
    let (mut child, lines) = spawn(&[], &[("PORT_HTTP", "x")]);
    assert_eq!(ended(&mut child).code(), Some(2));
    assert!(lines.recv_timeout(PATIENCE).unwrap().contains("PORT_HTTP=x"));
}
