//! The logs of containers: one file each, `account/job/index/epoch.log`, bounded by cutting off their beginnings.
//!
//! A container writes to its file directly and for ever, also with no agent there. So a log is not rotated but its
//! beginning is given back to the disk as a hole: what is left keeps its place, and nothing that is being written can
//! get lost.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::SystemTime,
};

use polder_types::{ContainerId, Epoch, TaskId};
use rustix::{
    fs::{FallocateFlags, SeekFrom, fallocate, seek},
    io::Errno,
};

use super::limits::{LOG_KEPT_BYTES, LOG_KEPT_FOR, LOG_SLACK_BYTES, LOGS_PER_TASK};

const EXTENSION: &str = "log";
/// Holes begin and end at whole blocks.
const BLOCK_BYTES: u64 = 4096;

/// All logs of a host.
#[derive(Clone, Debug)]
pub(super) struct Logs {
    dir: PathBuf,
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.into()))
}

impl Logs {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    // A task's id has only names and a number in it, and none of them has a dot: no two paths can meet.
    fn task_dir(&self, task: &TaskId) -> PathBuf {
        self.dir.join(task.to_string())
    }

    pub(super) fn path(&self, id: &ContainerId) -> PathBuf {
        self.task_dir(&id.task).join(format!("{}.{EXTENSION}", id.epoch))
    }

    /// Makes a container's log.
    pub(super) async fn begin(&self, id: &ContainerId) -> io::Result<PathBuf> {
        let path = self.path(id);
        let made = path.clone();
        blocking(move || {
            if let Some(dir) = made.parent() {
                fs::create_dir_all(dir)?;
            }
            File::options().append(true).create(true).open(&made)?;
            Ok(())
        })
        .await?;
        Ok(path)
    }

    /// The newest container of a task that has a log here.
    pub(super) async fn newest(&self, task: &TaskId) -> Option<ContainerId> {
        let dir = self.task_dir(task);
        let epochs = blocking(move || epochs(&dir)).await.ok()?;
        epochs.last().map(|epoch| ContainerId { task: task.clone(), epoch: *epoch })
    }

    /// Removes all logs of a task but those of its newest containers.
    pub(super) async fn prune(&self, task: &TaskId) {
        let dir = self.task_dir(task);
        let pruned = blocking(move || {
            let epochs = epochs(&dir)?;
            for epoch in epochs.iter().rev().skip(LOGS_PER_TASK) {
                fs::remove_file(dir.join(format!("{epoch}.{EXTENSION}")))?;
            }
            Ok(())
        });
        if let Err(error) = pruned.await {
            tracing::warn!(%task, %error, "old logs could not be removed");
        }
    }

    /// Cuts off the beginnings of logs that have grown too long.
    pub(super) async fn trim(&self, containers: Vec<ContainerId>) {
        let paths: Vec<PathBuf> = containers.iter().map(|id| self.path(id)).collect();
        let trimmed = blocking(move || {
            for path in paths {
                if let Err(error) = trim(&path, LOG_KEPT_BYTES, LOG_SLACK_BYTES)
                    && error.kind() != ErrorKind::NotFound
                {
                    tracing::warn!(path = %path.display(), %error, "a log could not be cut");
                }
            }
            Ok(())
        });
        // Only if it panics, which then is in the log.
        let _ = trimmed.await;
    }

    /// Removes logs that nobody has written to for long, but those of live containers.
    pub(super) async fn sweep(&self, live: Vec<ContainerId>) {
        let keep: Vec<PathBuf> = live.iter().map(|id| self.path(id)).collect();
        let dir = self.dir.clone();
        let swept = blocking(move || sweep(&dir, &keep, SystemTime::now()));
        if let Err(error) = swept.await
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(%error, "old logs could not be removed");
        }
    }
}

/// The epochs of a task that have a log, ascending.
fn epochs(dir: &Path) -> io::Result<Vec<Epoch>> {
    let mut epochs: Vec<Epoch> = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = PathBuf::from(entry?.file_name());
        let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
        if let Some(number) = number.filter(|_| path.extension().is_some_and(|extension| extension == EXTENSION)) {
            epochs.push(Epoch(number));
        }
    }
    epochs.sort_unstable();
    Ok(epochs)
}

/// Gives the beginning of a log back to the disk when more than `kept` and `slack` bytes are there.
fn trim(path: &Path, kept: u64, slack: u64) -> io::Result<()> {
    let size = fs::metadata(path)?.len();
    if size <= kept + slack {
        return Ok(());
    }
    let file = File::options().write(true).read(true).open(path)?;
    let begin = first_byte(&file, size)?;
    if size.saturating_sub(begin) <= kept + slack {
        return Ok(());
    }
    let end = (size - kept) / BLOCK_BYTES * BLOCK_BYTES;
    match fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, end) {
        Ok(()) => Ok(()),
        // A file system without holes: better an empty log than a full disk.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(0),
        Err(errno) => Err(errno.into()),
    }
}

/// Where a log begins after what was cut off.
pub(super) fn first_byte(file: &File, size: u64) -> io::Result<u64> {
    match seek(file, SeekFrom::Data(0)) {
        Ok(offset) => Ok(offset),
        // Nothing but a hole, or nothing at all.
        Err(Errno::NXIO) => Ok(size),
        Err(Errno::INVAL) => Ok(0),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes old files, and directories that are empty. Whether anything is left.
fn sweep(dir: &Path, keep: &[PathBuf], now: SystemTime) -> io::Result<bool> {
    let mut left = false;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if sweep(&path, keep, now)? {
                left = true;
            } else if let Err(error) = fs::remove_dir(&path) {
                // A new container may have put its log there just now.
                left = true;
                tracing::debug!(path = %path.display(), %error, "not removed");
            }
            continue;
        }
        let age = entry.metadata()?.modified().ok().and_then(|written| now.duration_since(written).ok());
        if !keep.contains(&path) && age.is_some_and(|age| age > LOG_KEPT_FOR) {
            fs::remove_file(&path)?;
        } else {
            left = true;
        }
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Write as _, os::unix::fs::MetadataExt as _, time::Duration};

    #[test]
    fn a_long_log_loses_its_beginning_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1.log");
        let mut writer = File::options().append(true).create(true).open(&path).unwrap();
        for line in 0..50_000 {
            writeln!(writer, "line {line:06}").unwrap();
        }
        trim(&path, 1 << 20, 1 << 20).unwrap();
        assert_eq!(first_byte(&File::open(&path).unwrap(), 600_000).unwrap(), 0, "not long enough");
        trim(&path, 100_000, 50_000).unwrap();
        writeln!(writer, "the end").unwrap();
        let file = File::open(&path).unwrap();
        let size = fs::metadata(&path).unwrap().len();
        assert_eq!(size, 600_008);
        let begin = first_byte(&file, size).unwrap();
        if begin == 0 {
            // This file system has no holes.
            return;
        }
        assert!((400_000..=500_000).contains(&begin), "{begin}");
        assert!(fs::metadata(&path).unwrap().blocks() * 512 < 250_000);
        let text = fs::read(&path).unwrap();
        assert!(text.ends_with(b"line 049999\nthe end\n"));
    }

    #[tokio::test]
    async fn only_the_newest_logs_of_a_task_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let logs = Logs::new(dir.path().to_owned());
        let task: TaskId = "shop/web/0".parse().unwrap();
        assert_eq!(logs.newest(&task).await, None);
        for epoch in [2, 9, 10, 11] {
            logs.begin(&ContainerId { task: task.clone(), epoch: Epoch(epoch) }).await.unwrap();
        }
        logs.prune(&task).await;
        assert_eq!(epochs(&dir.path().join("shop/web/0")).unwrap(), [Epoch(9), Epoch(10), Epoch(11)]);
        assert_eq!(logs.newest(&task).await.unwrap().epoch, Epoch(11));
    }

    #[test]
    fn old_logs_go_with_their_directories() {
        let dir = tempfile::tempdir().unwrap();
        let (old, live) = (dir.path().join("a/b/0/1.log"), dir.path().join("a/c/0/1.log"));
        for path in [&old, &live] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            File::create(path).unwrap();
        }
        sweep(dir.path(), std::slice::from_ref(&live), SystemTime::now()).unwrap();
        assert!(old.exists());
        sweep(dir.path(), std::slice::from_ref(&live), SystemTime::now() + LOG_KEPT_FOR + Duration::from_secs(60))
            .unwrap();
        assert!(!dir.path().join("a/b").exists() && live.exists());
    }
}
