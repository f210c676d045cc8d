//! The processes of the last run on the same folder: they end by themselves when their parent is gone, which takes a
//! moment. Until then they hold ports and folders.

use super::layout::Layout;
use serde::Deserialize;
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// How long they may take.
const END_TIMEOUT: Duration = Duration::from_secs(30);
/// How often it is looked whether they have ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The roles that are children.
const ROLES: [&str; 3] = ["federation", "region", "host"];

/// What `dev.json` says of a process, as far as it matters here.
#[derive(Deserialize)]
struct Past {
    name: String,
    pid: u32,
}

/// Waits until no process of the last run is left.
pub(super) async fn wait_until_gone(layout: &Layout) -> Result<(), String> {
    let text = std::fs::read(layout.processes_path()).unwrap_or_default();
    let past: Vec<Past> = serde_json::from_slice(&text).unwrap_or_default();
    let deadline = Instant::now() + END_TIMEOUT;
    let mut told = 0;
    loop {
        let left: Vec<&Past> = past.iter().filter(|past| lives(past.pid, &layout.data)).collect();
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let list: Vec<String> = left.iter().map(|past| format!("{} (pid {})", past.name, past.pid)).collect();
            return Err(format!(
                "processes of the last run on {} still live after {END_TIMEOUT:?}: {}; end them, then start again",
                layout.data.display(),
                list.join(", ")
            ));
        }
        if left.len() != told {
            told = left.len();
            let noun = if told == 1 { "process" } else { "processes" };
            eprintln!("waiting for {told} {noun} of the last run to end");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Whether this is a process of that run. Numbers are given out again, so its command line must say so too.
fn lives(pid: u32, data: &Path) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line);
    let mut words = line.split('\0').skip(1);
    let role = words.next().is_some_and(|word| ROLES.contains(&word));
    // With an etcd only hosts have a folder of their own; the others are known by whose they are.
    role && words.any(|word| Path::new(word).starts_with(data) || word == "--etcd")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_is_known_by_its_folder() {
        let own = std::process::id();
        assert!(!lives(own, Path::new("/tmp/dev")) && !lives(u32::MAX, Path::new("/tmp/dev")));
        // A script called `host`, so that the role stands where it does for a real one.
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("host");
        std::fs::write(&script, "read line\n").unwrap();
        let mut command = Command::new("/bin/sh");
        command.current_dir(folder.path()).args(["host", "--data"]).arg(folder.path().join("r1-h1"));
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        while !lives(child.id(), folder.path()) {
            assert!(child.try_wait().unwrap().is_none(), "it ended");
        }
        assert!(!lives(child.id(), Path::new("/somewhere/else")));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!lives(child.id(), folder.path()));
    }
}
