//! What the kernel says of a task's process.

use polder_api::dto::{JobStatus, TaskPhase};
use std::{fs, path::Path};

/// A running task, by facts that change when it is started again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// Where.
    pub host: String,
    /// Which start.
    pub epoch: u64,
    /// Its process.
    pub pid: u32,
    /// When the kernel says it started, in clock ticks since boot; none if there is no such process.
    pub started: Option<u64>,
    /// Where its first port is reached.
    pub address: String,
}

impl Task {
    /// Whether its process is still there: the same, not another with its number.
    #[must_use]
    pub fn lives(&self) -> bool {
        self.started.is_some() && started(self.pid) == self.started
    }
}

/// Processes whose root is made of files in a folder: those of containers, by what the kernel says.
#[must_use]
pub fn processes_in(folder: &Path) -> Vec<u32> {
    let mut found = Vec::new();
    let needle = format!("={}/", folder.display());
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let mounts = fs::read_to_string(entry.path().join("mountinfo")).unwrap_or_default();
        let root = mounts.lines().find(|line| line.split(' ').nth(4) == Some("/"));
        if root.is_some_and(|root| root.contains(&needle)) {
            found.push(pid);
        }
    }
    found
}

/// The running tasks of a job, by id.
#[must_use]
pub fn tasks_of(status: &JobStatus) -> Vec<Task> {
    let mut tasks: Vec<Task> = status
        .tasks
        .iter()
        .filter(|task| task.phase == TaskPhase::Running)
        .filter_map(|task| {
            let pid = task.pid?;
            Some(Task {
                id: task.task.to_string(),
                host: task.host.as_ref()?.to_string(),
                epoch: task.epoch.0,
                pid,
                started: started(pid),
                address: task.ports.first().map(|port| port.address.clone()).unwrap_or_default(),
            })
        })
        .collect();
    tasks.sort();
    tasks
}

/// Field 22 of `/proc/PID/stat`.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, so count from behind it.
    let rest = stat.rsplit_once(')')?.1;
    rest.split_whitespace().nth(19)?.parse().ok()
}
