//! The workload that Polder is shown and tested with: a small HTTP service that behaves as badly as it is told to.
//!
//! ```text
//! polder-demo              serve HTTP (see `service.rs` for the paths)
//! polder-demo batch        work for a while, then end with a code
//! polder-demo child SECS   do nothing for a while; ends with its parent
//! ```
//!
//! It is one static file with nothing around it, and is often process 1 of its container. So it waits for its signals
//! instead of handling them: signals that process 1 has blocked are kept for it, those without a handler are dropped.
//! It must also collect the children that the kernel gives to process 1.
#![deny(missing_docs)]

mod http;
mod json;
mod log;
mod service;
mod settings;

use nix::{
    errno::Errno,
    sys::{
        signal::{SigSet, Signal},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
};
use settings::{Role, Settings};
use std::{
    process::ExitCode,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// What a shell reports for a program that SIGTERM ended.
const CODE_TERMINATED: i32 = 128 + 15;
/// How often a child looks whether its parent is still there.
const PARENT_CHECK: Duration = Duration::from_millis(200);

fn main() -> ExitCode {
    let settings = match Settings::read(std::env::args().skip(1), |name| std::env::var(name).ok()) {
        Ok(settings) => settings,
        Err(error) => {
            log::line(&format!("error: {error}"));
            return ExitCode::from(2);
        }
    };
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGCHLD] {
        signals.add(signal);
    }
    // Before the first thread, because threads inherit what is blocked.
    if let Err(error) = signals.thread_block() {
        log::line(&format!("error: could not block signals: {error}"));
        return ExitCode::from(2);
    }
    match settings.role {
        Role::Child { secs } => child(secs),
        Role::Batch => batch(&settings, &signals),
        Role::Service => serve(settings, &signals),
    }
}

fn serve(settings: Settings, signals: &SigSet) -> ExitCode {
    let service = match service::Service::start(settings) {
        Ok(service) => Arc::new(service),
        Err(error) => {
            log::line(&format!("error: {error}"));
            return ExitCode::FAILURE;
        }
    };
    if let Some(after) = service.settings.exit_after {
        end_later(after, service.settings.exit_code);
    }
    let accepting = service.clone();
    if let Err(error) = thread::Builder::new().name("accept".into()).spawn(move || accepting.accept()) {
        log::line(&format!("error: could not start a thread: {error}"));
        return ExitCode::FAILURE;
    }
    wait_for_signals(signals, |signal| {
        if service.settings.ignore_stop {
            log::line(&format!("got {signal}, which it was told to ignore"));
        } else {
            log::line(&format!("got {signal}, stopping in {} s", service.settings.stop_after.as_secs()));
            service.stop();
        }
    })
}

fn batch(settings: &Settings, signals: &SigSet) -> ExitCode {
    let after = settings.exit_after.unwrap_or(Duration::from_secs(1));
    log::line(&format!("batch: working for {} s, then ending with code {}", after.as_secs(), settings.exit_code));
    end_later(after, settings.exit_code);
    let ignore = settings.ignore_stop;
    wait_for_signals(signals, |signal| {
        if ignore {
            log::line(&format!("got {signal}, which it was told to ignore"));
        } else {
            log::line(&format!("batch: got {signal} before the work was done"));
            std::process::exit(CODE_TERMINATED);
        }
    })
}

fn child(secs: u64) -> ExitCode {
    let parent = std::os::unix::process::parent_id();
    let until = Instant::now() + Duration::from_secs(secs);
    while Instant::now() < until && std::os::unix::process::parent_id() == parent {
        thread::sleep(PARENT_CHECK);
    }
    ExitCode::SUCCESS
}

/// Ends the process after a time, from a thread of its own.
fn end_later(after: Duration, code: i32) {
    let end = move || {
        thread::sleep(after);
        log::line(&format!("ending with code {code}"));
        std::process::exit(code);
    };
    if let Err(error) = thread::Builder::new().name("end".into()).spawn(end) {
        log::line(&format!("error: could not start a thread: {error}"));
        std::process::exit(2);
    }
}

/// Never returns in practice: what it calls, or another thread, ends the process.
fn wait_for_signals(signals: &SigSet, mut stop: impl FnMut(Signal)) -> ExitCode {
    loop {
        match signals.wait() {
            Ok(Signal::SIGCHLD) => collect_children(),
            Ok(signal) => stop(signal),
            Err(Errno::EINTR) => {}
            Err(error) => {
                log::line(&format!("error: could not wait for signals: {error}"));
                return ExitCode::FAILURE;
            }
        }
    }
}

fn collect_children() {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return,
            Ok(status) => log::line(&format!("collected a child: {status:?}")),
            Err(Errno::EINTR) => {}
            Err(error) => {
                log::line(&format!("error: could not collect a child: {error}"));
                return;
            }
        }
    }
}
