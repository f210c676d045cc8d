//! Processes: those of the cluster, and calls of the command line.

use std::{
    fs::OpenOptions,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
};

/// What a call of `polder` said.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The exit code; -1 if a signal ended it.
    pub code: i32,
    /// Data.
    pub stdout: String,
    /// The rest.
    pub stderr: String,
}

/// Calls a program and waits for it.
///
/// # Panics
/// When it can't be started.
#[must_use]
pub fn call(program: &Path, args: &[&str], addr: &str) -> Answer {
    let output = Command::new(program)
        .args(args)
        .env("POLDER_ADDR", addr)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{} can't be started: {error}", program.display()));
    Answer {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A process of the cluster.
#[derive(Debug)]
pub(crate) struct Role {
    pub(crate) args: Vec<String>,
    child: Option<Child>,
}

impl Role {
    pub(crate) const fn new(args: Vec<String>) -> Self {
        Self { args, child: None }
    }

    pub(crate) fn args(&self) -> &[String] {
        &self.args
    }

    pub(crate) fn start(&mut self, program: &Path, log: &Path) {
        let open = || OpenOptions::new().create(true).append(true).open(log).expect("the log can be opened");
        let child = Command::new(program)
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(open())
            .stderr(open())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{} can't be started: {error}", program.display()));
        self.child = Some(child);
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = self.pid().and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended by itself.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// SIGKILL, at once.
    pub(crate) fn kill(&mut self) {
        self.signal(rustix::process::Signal::KILL);
        self.reap();
    }

    /// SIGTERM, and waits.
    pub(crate) fn stop(&mut self) {
        self.signal(rustix::process::Signal::CONT);
        self.signal(rustix::process::Signal::TERM);
        self.reap();
    }

    pub(crate) fn pause(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    pub(crate) fn resume(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    fn reap(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Nothing but a lost child could fail here.
            let _ = child.wait();
        }
    }

    /// Whether it ended without being asked to.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)))
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}
