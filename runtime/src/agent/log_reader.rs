//! Reading logs for the region.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use polder_types::ContainerId;
use polder_wire::{LOG_CHUNK_BYTES_MAX, LogChunk, LogRequest};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, spawn_blocking},
    time::sleep,
};

use super::{
    containers::Containers,
    limits::{LOG_FOLLOW_EVERY, LOG_READERS_MAX},
    logs::{Logs, first_byte},
};

/// Bytes that are looked at together when lines are counted.
const BLOCK_BYTES: u64 = 64 << 10;

/// The readers of one link. Dropping it ends them.
#[derive(Debug)]
pub(super) struct LogReaders {
    logs: Logs,
    containers: Containers,
    chunks: mpsc::Sender<LogChunk>,
    running: Arc<Mutex<BTreeMap<u64, AbortHandle>>>,
}

impl LogReaders {
    pub(super) fn new(logs: Logs, containers: Containers, chunks: mpsc::Sender<LogChunk>) -> Self {
        Self { logs, containers, chunks, running: Arc::default() }
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<u64, AbortHandle>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to read.
    pub(super) fn begin(&self, request: LogRequest) {
        let id = request.id;
        let reader = Reader {
            logs: self.logs.clone(),
            containers: self.containers.clone(),
            chunks: self.chunks.clone(),
            request,
        };
        let mut running = self.running();
        let busy = running.len() >= LOG_READERS_MAX;
        let all = Arc::clone(&self.running);
        let task = tokio::spawn(async move {
            let error = if busy {
                Some(format!("{LOG_READERS_MAX} logs of this host are being read; try again later"))
            } else {
                reader.read().await.err()
            };
            // Nobody listens any more if this fails.
            let _ = reader.chunks.send(LogChunk { id, bytes: Bytes::new(), eof: true, error }).await;
            all.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        });
        if let Some(older) = running.insert(id, task.abort_handle()) {
            older.abort();
        }
    }

    /// Stops reading.
    pub(super) fn cancel(&self, id: u64) {
        if let Some(task) = self.running().remove(&id) {
            task.abort();
        }
    }
}

impl Drop for LogReaders {
    fn drop(&mut self) {
        for task in self.running().values() {
            task.abort();
        }
    }
}

struct Reader {
    logs: Logs,
    containers: Containers,
    chunks: mpsc::Sender<LogChunk>,
    request: LogRequest,
}

impl Reader {
    async fn read(&self) -> Result<(), String> {
        let LogRequest { task, epoch, follow, tail, .. } = &self.request;
        let id = match epoch {
            Some(epoch) => Some(ContainerId { task: task.clone(), epoch: *epoch }),
            None => self.logs.newest(task).await,
        };
        let nothing = || format!("this host has no log of {task}");
        let id = id.ok_or_else(nothing)?;
        let file = File::open(self.logs.path(&id)).map_err(|_| nothing())?;
        let file = Arc::new(file);
        let failed = |error: io::Error| format!("the log of {id} can't be read: {error}");
        let mut offset = {
            let (file, tail) = (Arc::clone(&file), *tail);
            blocking(move || start(&file, tail)).await.map_err(failed)?
        };
        loop {
            // Looked at before the file is: what was written before the end is not missed.
            let live = self.containers.is_live(&id);
            let at = offset;
            let source = Arc::clone(&file);
            let (from, piece) = blocking(move || piece(&source, at)).await.map_err(failed)?;
            if piece.is_empty() {
                if !follow || !live {
                    return Ok(());
                }
                sleep(LOG_FOLLOW_EVERY).await;
                continue;
            }
            offset = from + u64::try_from(piece.len()).unwrap_or(0);
            let chunk = LogChunk { id: self.request.id, bytes: piece, eof: false, error: None };
            if self.chunks.send(chunk).await.is_err() {
                return Ok(());
            }
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(error.into()))
}

/// The next piece of a log from an offset on, and where it begins: later if that was cut off, at the beginning if the
/// log was emptied.
fn piece(file: &File, offset: u64) -> io::Result<(u64, Bytes)> {
    let size = file.metadata()?.len();
    let offset = if offset > size { 0 } else { offset };
    let offset = offset.max(first_byte(file, size)?);
    let mut bytes = vec![0; LOG_CHUNK_BYTES_MAX];
    let read = file.read_at(&mut bytes, offset)?;
    bytes.truncate(read);
    Ok((offset, bytes.into()))
}

/// Where to begin so that at most `tail` lines follow.
fn start(file: &File, tail: Option<u32>) -> io::Result<u64> {
    let size = file.metadata()?.len();
    let begin = first_byte(file, size)?;
    let Some(tail) = tail else { return Ok(begin) };
    let mut missing = u64::from(tail);
    let mut end = size;
    // The end of the last line is not the beginning of one.
    let mut last = [0];
    if size > begin && file.read_at(&mut last, size - 1)? == 1 && last == *b"\n" {
        missing += 1;
    }
    let mut block = vec![0; usize::try_from(BLOCK_BYTES).unwrap_or(4096)];
    while end > begin && missing > 0 {
        let from = end.saturating_sub(BLOCK_BYTES).max(begin);
        let length = usize::try_from(end - from).unwrap_or(block.len());
        file.read_exact_at(&mut block[..length], from)?;
        for (at, byte) in block[..length].iter().enumerate().rev() {
            if *byte == b'\n' {
                missing -= 1;
                if missing == 0 {
                    return Ok(from + u64::try_from(at).unwrap_or(0) + 1);
                }
            }
        }
        end = from;
    }
    Ok(if tail == 0 { size } else { begin })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn the_last_lines_are_found() {
        let text = |text: &[u8], tail| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text).unwrap();
            let begin = usize::try_from(start(&file, tail).unwrap()).unwrap();
            String::from_utf8(text[begin..].to_vec()).unwrap()
        };
        assert_eq!(text(b"a\nb\nc\n", None), "a\nb\nc\n");
        assert_eq!(text(b"a\nb\nc\n", Some(2)), "b\nc\n");
        assert_eq!(text(b"a\nb\nc", Some(2)), "b\nc");
        assert_eq!(text(b"a\nb\nc\n", Some(9)), "a\nb\nc\n");
        assert_eq!(text(b"a\nb\n", Some(0)), "");
        assert_eq!(text(b"a", Some(0)), "");
        assert_eq!(text(b"", Some(3)), "");
        let long = "x".repeat(100_000) + "\n" + &"y".repeat(100_000) + "\n";
        assert_eq!(text(long.as_bytes(), Some(1)).len(), 100_001);
    }

    #[test]
    fn a_log_that_was_emptied_is_read_from_its_beginning() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(piece(&file, 1000).unwrap(), (0, Bytes::from_static(b"new")));
        assert_eq!(piece(&file, 3).unwrap(), (3, Bytes::new()));
    }
}
