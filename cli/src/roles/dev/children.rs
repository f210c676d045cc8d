//! The child processes of `polder dev`: started, watched, started again, stopped.

use super::layout::{Layout, Process, Role};
use std::{
    fs::OpenOptions,
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::{
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
};

/// How long a role may take until it answers.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a child may take to stop before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
/// Wait before a child that died is started again; doubles up to the second figure while it dies young.
const RESTART_WAIT: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// Living this long makes the next wait the first again.
const SETTLED_AFTER: Duration = Duration::from_secs(30);
/// How often children are looked after.
const TICK: Duration = Duration::from_millis(100);

/// Why watching ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// A signal asked for it.
    Asked,
    /// Something can't go on.
    Failed(String),
}

struct Running {
    role: Role,
    child: Child,
    started: Instant,
    wait: Duration,
    restart_at: Option<Instant>,
}

/// All children.
pub(super) struct Children(Vec<Running>);

impl Children {
    /// Starts every role in order; each waits until the one before answers.
    pub(super) async fn start(layout: &Layout) -> Result<Self, String> {
        let mut children = Self(Vec::new());
        for role in &layout.roles {
            let child = spawn(layout, role)?;
            children.0.push(Running {
                role: role.clone(),
                child,
                started: Instant::now(),
                wait: RESTART_WAIT.0,
                restart_at: None,
            });
        }
        children.write(layout);
        for at in 0..children.0.len() {
            let Some(url) = children.0[at].role.url.clone() else { continue };
            if let Err(problem) = wait_ready(&url, &mut children.0[at].child).await {
                let role = children.0[at].role.name.clone();
                children.stop().await;
                let log = layout.log_path(&role);
                return Err(format!("{role} did not start: {problem}; its log is {}\n{}", log.display(), tail(&log)));
            }
        }
        Ok(children)
    }

    /// Looks after the children until a signal comes.
    pub(super) async fn watch(&mut self, layout: &Layout) -> Stop {
        let (mut interrupt, mut terminate) = match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
            (Ok(interrupt), Ok(terminate)) => (interrupt, terminate),
            (Err(error), _) | (_, Err(error)) => return Stop::Failed(format!("signals can't be caught: {error}")),
        };
        loop {
            tokio::select! {
                _ = interrupt.recv() => return Stop::Asked,
                _ = terminate.recv() => return Stop::Asked,
                () = tokio::time::sleep(TICK) => self.look_after(layout),
            }
        }
    }

    fn look_after(&mut self, layout: &Layout) {
        let mut changed = false;
        for running in &mut self.0 {
            match running.restart_at {
                Some(at) if Instant::now() >= at => match spawn(layout, &running.role) {
                    Ok(child) => {
                        running.child = child;
                        running.started = Instant::now();
                        running.restart_at = None;
                        changed = true;
                    }
                    Err(problem) => {
                        eprintln!("warning: {} can't be started: {problem}", running.role.name);
                        running.restart_at = Some(Instant::now() + RESTART_WAIT.1);
                    }
                },
                Some(_) => {}
                None => {
                    let Ok(Some(status)) = running.child.try_wait() else { continue };
                    if running.started.elapsed() > SETTLED_AFTER {
                        running.wait = RESTART_WAIT.0;
                    }
                    eprintln!("{} ended ({status}); starting it again", running.role.name);
                    running.restart_at = Some(Instant::now() + running.wait);
                    running.wait = (running.wait * 2).min(RESTART_WAIT.1);
                }
            }
        }
        if changed {
            self.write(layout);
        }
    }

    fn write(&self, layout: &Layout) {
        let processes: Vec<Process<'_>> = self
            .0
            .iter()
            .filter_map(|running| {
                let pid = running.child.id()?;
                let Role { name, url, metrics, .. } = &running.role;
                Some(Process { name, pid, url: url.as_deref(), metrics })
            })
            .collect();
        layout.write_processes(&processes);
    }

    /// Asks each child to stop, and kills those that do not in time.
    pub(super) async fn stop(&mut self) {
        for running in &self.0 {
            let pid =
                running.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
            if let Some(pid) = pid {
                // A child that is gone already needs no signal.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
        }
        let deadline = tokio::time::Instant::now() + STOP_TIMEOUT;
        for running in &mut self.0 {
            if tokio::time::timeout_at(deadline, running.child.wait()).await.is_err() {
                eprintln!("warning: {} did not stop within {STOP_TIMEOUT:?}: killing it", running.role.name);
                if let Err(error) = running.child.kill().await {
                    eprintln!("warning: {} can't be killed: {error}", running.role.name);
                }
            }
        }
    }
}

fn spawn(layout: &Layout, role: &Role) -> Result<Child, String> {
    let binary = std::env::current_exe().map_err(|error| format!("the path of this program is unknown: {error}"))?;
    let log_path = layout.log_path(&role.name);
    let open = || OpenOptions::new().create(true).append(true).open(&log_path);
    let (out, err) = match (open(), open()) {
        (Ok(out), Ok(err)) => (out, err),
        (Err(error), _) | (_, Err(error)) => return Err(format!("{}: {error}", log_path.display())),
    };
    let mut command = Command::new(&binary);
    // Children have a group of their own, so that Ctrl-C reaches the parent alone, and end with the parent.
    command.args(&role.args).stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
    end_with_parent(&mut command);
    command.spawn().map_err(|error| format!("{}: {error}", binary.display()))
}

/// Has the kernel send SIGTERM to the child when the thread that started it ends.
#[expect(unsafe_code, reason = "pre_exec is the only place to ask for a parent-death signal")]
fn end_with_parent(command: &mut Command) {
    // SAFETY: between fork and exec the closure only makes one system call; it takes no lock and allocates nothing.
    unsafe {
        command.pre_exec(|| {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
            Ok(())
        });
    }
}

async fn wait_ready(url: &str, child: &mut Child) -> Result<(), String> {
    let deadline = Instant::now() + READY_TIMEOUT;
    let client = polder_api::client::Client::new(url).map_err(|error| error.to_string())?;
    while Instant::now() < deadline {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("it ended ({status})"));
        }
        if client.ready().await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(TICK).await;
    }
    Err(format!("{url}/readyz did not answer within {READY_TIMEOUT:?}"))
}

/// The last lines of a log, for the message that names it.
fn tail(path: &std::path::Path) -> String {
    const LINES: usize = 5;
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(LINES).collect();
    lines.into_iter().rev().map(|line| format!("  {line}\n")).collect()
}
