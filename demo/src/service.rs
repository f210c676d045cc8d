//! The HTTP service.
//!
//! | path | does |
//! | --- | --- |
//! | `/` | says who it is, as JSON |
//! | `/health` | 200, or 503 during a slow start, after `/health/fail` and while stopping |
//! | `/health/fail`, `/health/ok` | changes that |
//! | `/env` | the environment that Polder and the job gave it, as JSON |
//! | `/drain` | stops as if it had been told to by a signal |
//! | `/crash?code=N` | ends at once (default 1) |
//! | `/abort` | ends by a signal (SIGABRT; as process 1, which that can't end, by SIGSEGV) |
//! | `/memory?mb=N` | takes and touches memory and keeps it; 0 gives all back |
//! | `/spin?secs=N` | keeps one core busy |
//! | `/fork?n=N&secs=S` | starts children |
//! | `/log?lines=N` | writes lines |

use crate::{
    http::{Request, RequestError, Response},
    json, log,
    settings::Settings,
};
use std::{
    io,
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Most connections at a time.
const CONNECTIONS_MAX: usize = 128;
/// Most threads that keep cores busy.
const SPINNERS_MAX: usize = 64;
/// Most children that one request starts.
const CHILDREN_MAX: u64 = 4096;
/// Most memory that one request takes, in MiB.
const MEMORY_MB_MAX: u64 = 1 << 20;
/// Longest that anything is kept up, in seconds.
const SECS_MAX: u64 = 86_400;
const LOG_LINES_MAX: u64 = 1_000_000;
/// How long a stop waits for answers that are under way.
const LAST_ANSWERS_MAX: Duration = Duration::from_secs(1);
const LAST_ANSWERS_PAUSE: Duration = Duration::from_millis(2);
/// How long to wait when no connection can be taken.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The service and all it remembers.
pub(crate) struct Service {
    pub(crate) settings: Settings,
    listener: TcpListener,
    started: Instant,
    failing: AtomicBool,
    stopping: AtomicBool,
    connections: AtomicUsize,
    spinners: AtomicUsize,
    memory: Mutex<Vec<Vec<u8>>>,
}

impl Service {
    pub(crate) fn start(settings: Settings) -> Result<Self, String> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, settings.port))
            .map_err(|error| format!("could not listen on port {}: {error}", settings.port))?;
        let port = listener.local_addr().map(|address| address.port()).unwrap_or(settings.port);
        log::line(&format!("listening on 0.0.0.0:{port}"));
        Ok(Self {
            settings,
            listener,
            started: Instant::now(),
            failing: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            spinners: AtomicUsize::new(0),
            memory: Mutex::default(),
        })
    }

    /// Takes connections for ever.
    pub(crate) fn accept(self: Arc<Self>) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => {
                    log::line(&format!("could not take a connection: {error}"));
                    thread::sleep(ACCEPT_PAUSE);
                    continue;
                }
            };
            if self.connections.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS_MAX {
                self.connections.fetch_sub(1, Ordering::SeqCst);
                let _ = Response::text(503, "too many connections\n").send(&stream, true);
                continue;
            }
            let service = self.clone();
            let answer = move || {
                service.connection(&stream);
                service.connections.fetch_sub(1, Ordering::SeqCst);
            };
            if let Err(error) = thread::Builder::new().stack_size(128 << 10).spawn(answer) {
                self.connections.fetch_sub(1, Ordering::SeqCst);
                log::line(&format!("could not start a thread: {error}"));
            }
        }
    }

    /// Goes on for as long as it was told to, then ends the process.
    pub(crate) fn stop(self: &Arc<Self>) {
        if self.stopping.swap(true, Ordering::SeqCst) {
            return;
        }
        let service = self.clone();
        let end = move || {
            thread::sleep(service.settings.stop_after);
            // Who was promised an answer gets it, unless it takes too long.
            let until = Instant::now() + LAST_ANSWERS_MAX;
            while service.connections.load(Ordering::SeqCst) > 0 && Instant::now() < until {
                thread::sleep(LAST_ANSWERS_PAUSE);
            }
            log::line("stopped");
            std::process::exit(0);
        };
        if thread::Builder::new().name("stop".into()).spawn(end).is_err() {
            std::process::exit(0);
        }
    }

    fn connection(self: &Arc<Self>, stream: &TcpStream) {
        let began = Instant::now();
        let (name, response, with_body) = match Request::read(stream) {
            Ok(request) => {
                let response = self.answer(&request);
                (format!("{} {}", request.method, request.path), response, request.method != "HEAD")
            }
            Err(RequestError::Nothing) => return,
            Err(RequestError::Bad(why)) => ("-".into(), Response::text(400, format!("{why}\n")), true),
            Err(RequestError::TooLong) => ("-".into(), Response::text(413, "the request is too long\n"), true),
            Err(RequestError::Io(error)) => {
                log::line(&format!("a client went silent: {error}"));
                return;
            }
        };
        let sent = response.send(stream, with_body).and_then(|()| close(stream));
        let outcome = if sent.is_err() { " (not received)" } else { "" };
        let name: String = name.escape_debug().collect();
        log::line(&format!("{name} {} {}us{outcome}", response.status, began.elapsed().as_micros()));
    }

    fn answer(self: &Arc<Self>, request: &Request) -> Response {
        if !matches!(request.method.as_str(), "GET" | "HEAD" | "POST") {
            return Response::text(405, "only GET, HEAD and POST\n");
        }
        let result = match request.path.as_str() {
            "/" => Ok(Response::json(200, self.describe())),
            "/health" => Ok(self.health()),
            "/health/fail" => Ok(self.set_failing(true)),
            "/health/ok" => Ok(self.set_failing(false)),
            "/env" => Ok(Response::json(200, environment())),
            "/drain" => {
                self.stop();
                Ok(Response::text(202, "stopping\n"))
            }
            "/crash" => request.number("code", 1, 255).map(|code| {
                log::line(&format!("crashing with code {code}"));
                std::process::exit(i32::try_from(code).unwrap_or(1))
            }),
            "/abort" => {
                log::line("aborting");
                std::process::abort()
            }
            "/memory" => request.number("mb", 0, MEMORY_MB_MAX).map(|mb| self.take_memory(mb)),
            "/spin" => request.number("secs", 1, SECS_MAX).map(|secs| spin(self, secs)),
            "/fork" => request.number("n", 1, CHILDREN_MAX).and_then(|count| {
                let secs = request.number("secs", SECS_MAX, SECS_MAX)?;
                Ok(start_children(count, secs))
            }),
            "/log" => request.number("lines", 1, LOG_LINES_MAX).map(|lines| {
                (0..lines).for_each(|number| log::line(&format!("line {number}")));
                Response::text(200, format!("wrote {lines} lines\n"))
            }),
            _ => Ok(Response::text(404, "no such path\n")),
        };
        result.unwrap_or_else(|response| response)
    }

    fn describe(&self) -> String {
        let settings = &self.settings;
        let number = |text: &Option<String>| match text.as_deref().map(str::parse::<u64>) {
            Some(Ok(number)) => number.to_string(),
            _ => json::text(text.as_deref()),
        };
        let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        json::object(&[
            ("task", json::text(settings.task.as_deref())),
            ("epoch", number(&settings.epoch)),
            ("host", json::text(settings.host.as_deref())),
            ("region", json::text(settings.region.as_deref())),
            ("version", json::text(settings.version.as_deref())),
            ("pid", std::process::id().to_string()),
            ("uid", nix::unistd::getuid().to_string()),
            ("gid", nix::unistd::getgid().to_string()),
            ("hostname", json::text(hostname.as_deref().map(str::trim_end))),
            ("uptime_secs", self.started.elapsed().as_secs().to_string()),
        ])
    }

    fn health(&self) -> Response {
        if self.stopping.load(Ordering::SeqCst) {
            Response::text(503, "stopping\n")
        } else if self.started.elapsed() < self.settings.slow_start {
            Response::text(503, "starting\n")
        } else if self.failing.load(Ordering::SeqCst) {
            Response::text(503, "failing\n")
        } else {
            Response::text(200, "ok\n")
        }
    }

    fn set_failing(&self, failing: bool) -> Response {
        self.failing.store(failing, Ordering::SeqCst);
        Response::text(200, if failing { "failing from now on\n" } else { "healthy again\n" })
    }

    fn take_memory(&self, mb: u64) -> Response {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if mb == 0 {
            memory.clear();
            return Response::text(200, "gave all back\n");
        }
        let bytes = usize::try_from(mb << 20).unwrap_or(usize::MAX);
        let mut block = Vec::new();
        if block.try_reserve_exact(bytes).is_err() {
            return Response::text(507, "there is not that much\n");
        }
        // Not zeros: those the kernel could give without giving memory.
        block.resize(bytes, 0xa5);
        memory.push(block);
        Response::text(200, format!("took {mb} MiB\n"))
    }
}

/// Ends the connection so that the client gets all of the answer, also if it sent more than was read.
fn close(stream: &TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)
}

fn spin(service: &Service, secs: u64) -> Response {
    if service.spinners.fetch_add(1, Ordering::SeqCst) >= SPINNERS_MAX {
        service.spinners.fetch_sub(1, Ordering::SeqCst);
        return Response::text(503, "busy enough\n");
    }
    let until = Instant::now() + Duration::from_secs(secs);
    let work = move || {
        let mut number = 0_u64;
        while Instant::now() < until {
            for _ in 0..100_000 {
                number = std::hint::black_box(number.wrapping_mul(31).wrapping_add(7));
            }
        }
    };
    match thread::Builder::new().name("spin".into()).stack_size(64 << 10).spawn(work) {
        Ok(_) => Response::text(202, format!("busy for {secs} s\n")),
        Err(error) => Response::text(503, format!("could not start a thread: {error}\n")),
    }
}

fn start_children(count: u64, secs: u64) -> Response {
    let start = || {
        let program = std::env::current_exe()?;
        // Nobody waits for it here: the main thread collects all children, as process 1 must.
        Command::new(program).args(["child", &secs.to_string()]).stdin(Stdio::null()).spawn().map(drop)
    };
    for number in 0..count {
        if let Err(error) = start() {
            return Response::text(503, format!("started {number} of {count} children: {error}\n"));
        }
    }
    Response::text(200, format!("started {count} children\n"))
}

fn environment() -> String {
    let shown = |name: &str| ["POLDER_", "DEMO_", "PORT"].iter().any(|prefix| name.starts_with(prefix));
    let mut variables: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    variables.sort();
    let fields: Vec<(&str, String)> = variables
        .iter()
        .filter(|(name, _)| shown(name))
        .map(|(name, value)| (name.as_str(), json::text(Some(value))))
        .collect();
    json::object(&fields)
}
