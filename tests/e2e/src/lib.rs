//! Whole Polder, as its users have it: real processes, real containers, the real command line.
//!
//! A [`Cluster`] is a federation, its regions and their hosts on this machine, each a process of its own that a test can
//! kill, pause and start again. What it leaves behind when it is dropped is a failure.
//!
//! Tests need root. Without it they print a line that begins with `SKIP`.

mod cluster;
mod facts;
mod leftovers;
pub mod observed;
mod process;

pub use cluster::{Cluster, Options, StoreKind};
pub use facts::{Task, processes_in, tasks_of};
pub use process::{Answer, call};

use std::{
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Two clusters at a time would only slow each other down on a small machine.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A test's turn; none (and a line that says so) where it can't run.
pub fn turn(test: &str) -> Option<MutexGuard<'static, ()>> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIP {test}: real containers need root");
        return None;
    }
    for program in PROGRAMS {
        if !program_path(program).exists() {
            eprintln!("SKIP {test}: {} is not built; `make test` builds it", program_path(program).display());
            return None;
        }
    }
    Some(ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner))
}

/// What a cluster is made of. `polder` takes the shim that lies beside it.
const PROGRAMS: [&str; 3] = ["polder", "polder-shim", "polder-demo"];

/// A program of this build: of the folder that this test runs from or the release folder next to it, whichever has all.
#[must_use]
pub fn program_path(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap_or_default();
    let own = test.parent().and_then(|deps| deps.parent()).map(PathBuf::from).unwrap_or_default();
    let release = own.with_file_name("release");
    let has = |folder: &PathBuf, programs: &[&str]| programs.iter().all(|program| folder.join(program).exists());
    let folders = [own, release.clone()];
    let complete = folders.iter().find(|folder| has(folder, &PROGRAMS));
    complete.or_else(|| folders.iter().find(|folder| has(folder, &[name]))).unwrap_or(&release).join(name)
}

/// Waits until `done` gives something; gives up after a time that is generous for a busy machine.
///
/// # Panics
/// When it never does, with what was waited for.
pub fn eventually<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    const PATIENCE: Duration = Duration::from_secs(120);
    let begun = Instant::now();
    loop {
        if let Some(found) = done() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
