//! Reading a task's log over its host's link.

use super::{LOG_CHUNKS_MAX, LOGS_PER_HOST_MAX, Link, Links};
use bytes::Bytes;
use polder_types::{HostId, TaskId};
use polder_wire::{LogCancel, LogChunk, LogRequest, ToHost};
use std::sync::Arc;
use tokio::sync::mpsc;

/// A log being read. Dropping it tells the host to stop.
#[derive(Debug)]
pub(crate) struct LogStream {
    link: Arc<Link>,
    id: u64,
    chunks: mpsc::Receiver<LogChunk>,
    ended: bool,
}

/// Why a log can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogError {
    /// The host has no link to this node.
    NotLinked,
    /// Too many logs are read from that host.
    Busy,
}

impl Links {
    /// Begins to read the newest container's log of a task.
    pub(crate) fn read_log(
        &self,
        host: &HostId,
        task: TaskId,
        follow: bool,
        tail: Option<u32>,
    ) -> Result<LogStream, LogError> {
        let link = self.get(host).ok_or(LogError::NotLinked)?;
        let id = link.next_log_id();
        let (sender, chunks) = mpsc::channel(LOG_CHUNKS_MAX);
        {
            let mut logs = link.logs();
            if logs.len() >= LOGS_PER_HOST_MAX {
                return Err(LogError::Busy);
            }
            logs.insert(id, sender);
        }
        let stream = LogStream { link: Arc::clone(&link), id, chunks, ended: false };
        // From here on dropping the stream takes the entry out again.
        if link.send(ToHost::Log(LogRequest { id, task, epoch: None, follow, tail })) {
            Ok(stream)
        } else {
            Err(LogError::Busy)
        }
    }
}

impl Link {
    /// Hands a piece of a log to its reader.
    pub(super) fn deliver(&self, chunk: LogChunk) {
        let (id, last) = (chunk.id, chunk.eof || chunk.error.is_some());
        let mut logs = self.logs();
        let Some(reader) = logs.get(&id) else { return };
        // A reader that is too slow loses its stream rather than hold up the link.
        if reader.try_send(chunk).is_err() {
            logs.remove(&id);
            drop(logs);
            self.send(ToHost::LogCancel(LogCancel { id }));
        } else if last {
            logs.remove(&id);
        }
    }
}

impl LogStream {
    /// The next piece: none at the end, an error with the host's words when it can't go on.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, String>> {
        if self.ended {
            return None;
        }
        let Some(chunk) = self.chunks.recv().await else {
            self.ended = true;
            return Some(Err("the host's link was lost, or this reader was too slow; ask again".to_owned()));
        };
        self.ended = chunk.eof || chunk.error.is_some();
        if let Some(error) = chunk.error {
            return Some(Err(error));
        }
        if chunk.bytes.is_empty() && self.ended { None } else { Some(Ok(chunk.bytes)) }
    }
}

impl Drop for LogStream {
    fn drop(&mut self) {
        self.link.logs().remove(&self.id);
        if !self.ended {
            self.link.send(ToHost::LogCancel(LogCancel { id: self.id }));
        }
    }
}
