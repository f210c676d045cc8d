//! Reading a task's log over its host's link.

use super::{LOG_CHUNKS_MAX, LOGS_PER_HOST_MAX, Link, Links};
use bytes::Bytes;
use polder_types::{Epoch, HostId, TaskId};
use polder_wire::{LogCancel, LogChunk, LogRequest, ToHost};
use std::{
    collections::BTreeMap,
    sync::{Arc, MutexGuard, PoisonError, atomic::Ordering},
};
use tokio::sync::mpsc;

/// A log being read. Dropping it tells the host to stop.
#[derive(Debug)]
pub(crate) struct LogStream {
    link: Arc<Link>,
    id: u64,
    chunks: mpsc::Receiver<LogChunk>,
    ended: bool,
    /// Whether it ended because nothing more can come, rather than by the host's word.
    lost: bool,
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
    /// Begins to read the log of one of a task's containers; without an epoch, of the newest that the host has.
    pub(crate) fn read_log(
        &self,
        host: &HostId,
        task: TaskId,
        epoch: Option<Epoch>,
        follow: bool,
        tail: Option<u32>,
    ) -> Result<LogStream, LogError> {
        let link = self.get(host).ok_or(LogError::NotLinked)?;
        let id = link.next_log.fetch_add(1, Ordering::Relaxed);
        let (sender, chunks) = mpsc::channel(LOG_CHUNKS_MAX);
        {
            let mut logs = link.logs();
            let logs = logs.as_mut().ok_or(LogError::NotLinked)?;
            if logs.len() >= LOGS_PER_HOST_MAX {
                return Err(LogError::Busy);
            }
            logs.insert(id, sender);
        }
        let stream = LogStream { link: Arc::clone(&link), id, chunks, ended: false, lost: false };
        // From here on dropping the stream takes the entry out again.
        if link.send(ToHost::Log(LogRequest { id, task, epoch, follow, tail })) {
            Ok(stream)
        } else {
            Err(LogError::Busy)
        }
    }
}

impl Link {
    fn logs(&self) -> MutexGuard<'_, Option<BTreeMap<u64, mpsc::Sender<LogChunk>>>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all logs that are read over this link, and lets no other begin.
    pub(super) fn end_logs(&self) {
        self.logs().take();
    }

    /// Hands a piece of a log to its reader.
    pub(super) fn deliver(&self, chunk: LogChunk) {
        let (id, last) = (chunk.id, chunk.eof || chunk.error.is_some());
        let taken = {
            let mut logs = self.logs();
            let Some(logs) = logs.as_mut() else { return };
            // A reader that is too slow loses its stream rather than hold up the link.
            let taken = logs.get(&id).is_some_and(|reader| reader.try_send(chunk).is_ok());
            if last || !taken {
                logs.remove(&id);
            }
            taken
        };
        // Nobody reads it, though the host may have been told so before: that may have found no room in the queue.
        if !taken && !last {
            self.send(ToHost::LogCancel(LogCancel { id }));
        }
    }
}

impl LogStream {
    /// Whether it broke off without a word of the host: the log may go on.
    pub(crate) const fn is_lost(&self) -> bool {
        self.lost
    }

    /// The next piece: none at the end, an error with the host's words when it can't go on.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, String>> {
        if self.ended {
            return None;
        }
        let Some(chunk) = self.chunks.recv().await else {
            (self.ended, self.lost) = (true, true);
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
        if let Some(logs) = self.link.logs().as_mut() {
            logs.remove(&self.id);
        }
        if !self.ended {
            self.link.send(ToHost::LogCancel(LogCancel { id: self.id }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    fn chunk(id: u64, bytes: &'static [u8], eof: bool) -> LogChunk {
        LogChunk { id, bytes: Bytes::from_static(bytes), eof, error: None }
    }

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        future.now_or_never()
    }

    /// A link, what is sent to its host, and a log that is being read over it.
    fn reading(links: &Links) -> (super::super::Admitted, LogStream, LogRequest) {
        let host = "h1".parse().unwrap();
        let mut open = links.admit(&host, polder_types::HomeId(1), 1).unwrap();
        let log = links.read_log(&host, "a/b/0".parse().unwrap(), None, true, None).unwrap();
        let Ok(ToHost::Log(request)) = open.queue.try_recv() else { panic!("the host was not asked") };
        (open, log, request)
    }

    #[test]
    fn a_log_ends_when_its_host_says_so() {
        let links = Links::default();
        let (mut open, mut log, LogRequest { id, .. }) = reading(&links);
        open.link.deliver(chunk(id, b"one", false));
        open.link.deliver(chunk(id, b"two", true));
        assert_eq!(now(log.next()), Some(Some(Ok(Bytes::from_static(b"one")))));
        assert_eq!(now(log.next()), Some(Some(Ok(Bytes::from_static(b"two")))));
        assert_eq!(now(log.next()), Some(None));
        drop(log);
        assert!(open.queue.try_recv().is_err(), "there is nothing to cancel");
    }

    #[test]
    fn a_log_ends_with_its_link() {
        let links = Links::default();
        let (open, mut log, _) = reading(&links);
        assert_eq!(now(log.next()), None);
        links.dismiss(&"h1".parse().unwrap(), &open.link);
        assert!(matches!(now(log.next()), Some(Some(Err(_)))));
        assert_eq!(now(log.next()), Some(None));
        let late = links.read_log(&"h1".parse().unwrap(), "a/b/0".parse().unwrap(), None, true, None);
        assert_eq!(late.err(), Some(LogError::NotLinked));
    }

    #[test]
    fn a_reader_that_is_too_slow_or_gone_has_the_host_stop() {
        let links = Links::default();
        let (mut open, mut log, LogRequest { id, .. }) = reading(&links);
        for _ in 0..=LOG_CHUNKS_MAX {
            open.link.deliver(chunk(id, b"x", false));
        }
        assert!(matches!(open.queue.try_recv(), Ok(ToHost::LogCancel(cancel)) if cancel.id == id));
        for _ in 0..LOG_CHUNKS_MAX {
            assert!(matches!(now(log.next()), Some(Some(Ok(_)))));
        }
        assert!(matches!(now(log.next()), Some(Some(Err(_)))));
        // The host goes on, because it did not hear that: it is told again.
        open.link.deliver(chunk(id, b"x", false));
        assert!(matches!(open.queue.try_recv(), Ok(ToHost::LogCancel(cancel)) if cancel.id == id));
    }

    #[test]
    fn so_many_logs_and_no_more() {
        let links = Links::default();
        let (_open, _log, _) = reading(&links);
        let read = || links.read_log(&"h1".parse().unwrap(), "a/b/0".parse().unwrap(), None, false, None);
        let mut logs: Vec<_> = (1..LOGS_PER_HOST_MAX).map(|_| read().unwrap()).collect();
        assert_eq!(read().err(), Some(LogError::Busy));
        logs.pop();
        read().unwrap();
    }
}
