//! The store of one process, in a directory.
//!
//! ```text
//!  commit ─┐                       ┌ compares, against the disk and the group before it
//!  commit ─┼─► queue ─► writer ────┤ one durable batch for the whole group (fjall, fdatasync)
//!  lease  ─┘   (bounded) (thread)  └ then: the new snapshot is published, watchers wake, each is answered
//!
//!  get, list ─► the published snapshot        watch ─► the history in memory
//! ```
//!
//! What is read has been made durable before; nothing is acknowledged before that either. When a batch fails, its
//! outcome is unknown and the store takes no more writes until it is opened again. The history of changes lives in
//! memory, so after a restart every watcher lists again. Leases live in memory as well: opening the store ends those
//! of the process before.

mod disk;
mod history;
mod leases;
mod writer;

#[cfg(feature = "testing")]
pub mod faults;

use crate::{
    background::background,
    clock::Moment,
    lease::{Lease, LeaseBackend, LeaseId, RenewError, check_ttl},
    limits::WRITER_QUEUE_MAX,
    store::{Commit, Entry, Listing, Revision, Store, StoreError},
    txn::Txn,
    watch::{WatchEvent, WatchStream},
};
use async_trait::async_trait;
use disk::Disk;
use history::{Cursor, History};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    thread::{Builder, JoinHandle},
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};
use writer::{Request, Writer};

/// The format that this version writes, and the newest it reads.
pub const FORMAT: u64 = 1;

/// What readers see: a revision and the state it left.
struct Published {
    revision: Revision,
    snapshot: fjall::Snapshot,
}

/// What the writer and the readers share.
struct Shared {
    disk: Disk,
    published: RwLock<Arc<Published>>,
    history: History,
    #[cfg(feature = "testing")]
    faults: faults::Faults,
}

impl Shared {
    fn published(&self) -> Arc<Published> {
        Arc::clone(&self.published.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn publish(&self, revision: Revision) {
        let next = Arc::new(Published { revision, snapshot: self.disk.snapshot() });
        *self.published.write().unwrap_or_else(PoisonError::into_inner) = next;
    }
}

/// The embedded store. Dropping it waits for what is queued.
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    /// None only while it is being dropped.
    queue: Option<mpsc::Sender<Request>>,
    writer: Option<JoinHandle<()>>,
    dir: PathBuf,
    // Last, so that the directory is free only when everything else is closed.
    _lock: disk::DirLock,
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedStore").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl EmbeddedStore {
    /// Opens the store in `dir`, and makes it if there is none. Blocks while the last process's work is recovered.
    ///
    /// # Errors
    /// When another process uses it, a newer version wrote it, the directory holds something else, or the disk fails.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, StoreError> {
        let dir = dir.as_ref().to_owned();
        let lock = disk::DirLock::take(&dir)?;
        let disk = Disk::open(&dir)?;
        let revision = disk.end_old_leases()?;
        let shared = Arc::new(Shared {
            published: RwLock::new(Arc::new(Published { revision, snapshot: disk.snapshot() })),
            history: History::new(revision),
            disk,
            #[cfg(feature = "testing")]
            faults: faults::Faults::default(),
        });
        let (queue, requests) = mpsc::channel(WRITER_QUEUE_MAX);
        let runtime = background()
            .map_err(|source| StoreError::Io { what: "starting the store's background thread".to_owned(), source })?;
        let mut writer = Writer::new(Arc::clone(&shared), requests, runtime.clone(), revision);
        let writer = Builder::new()
            .name("polder-store-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(|source| StoreError::Io { what: "starting the store's writer thread".to_owned(), source })?;
        Ok(Self { shared, queue: Some(queue), writer: Some(writer), dir, _lock: lock })
    }

    /// Failures to order, for tests.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn faults(&self) -> &faults::Faults {
        &self.shared.faults
    }

    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request + Send) -> Result<T, StoreError> {
        ask(self.queue.as_ref(), request).await
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable { why: "it is being closed".to_owned() }
}

async fn ask<T>(
    queue: Option<&mpsc::Sender<Request>>,
    request: impl FnOnce(oneshot::Sender<T>) -> Request + Send,
) -> Result<T, StoreError> {
    let queue = queue.ok_or_else(closed)?;
    let (answer, answered) = oneshot::channel();
    queue.send(request(answer)).await.map_err(|_| closed())?;
    answered.await.map_err(|_| closed())
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!(dir = %self.dir.display(), "the store's writer had panicked");
        }
        self.shared.history.close();
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.shared.disk.get(&self.shared.published().snapshot, key)
    }

    async fn list(&self, prefix: &str) -> Result<Listing, StoreError> {
        let runtime = background()
            .map_err(|source| StoreError::Io { what: "starting the store's background thread".to_owned(), source })?;
        let shared = Arc::clone(&self.shared);
        let prefix = prefix.to_owned();
        // A million keys take a second; no actor's thread waits for that.
        let read = runtime.spawn_blocking(move || {
            let published = shared.published();
            let entries = shared.disk.list(&published.snapshot, &prefix)?;
            Ok(Listing { revision: published.revision, entries })
        });
        read.await.map_err(|error| StoreError::Unavailable { why: format!("listing keys broke off: {error}") })?
    }

    async fn commit(&self, txn: Txn) -> Commit {
        match self.ask(|answer| Request::Commit { txn, answer }).await {
            Ok(commit) => commit,
            Err(error) => Commit::Unknown { why: error.to_string() },
        }
    }

    fn watch(&self, prefix: &str, after: Revision) -> WatchStream {
        let cursor = Cursor::new(self.shared.history.reader(), prefix.to_owned(), after);
        WatchStream::new(futures::stream::unfold(cursor, |mut cursor| async move {
            let event: WatchEvent = cursor.next().await?;
            Some((event, cursor))
        }))
    }

    async fn grant_lease(&self, ttl: Duration) -> Result<Lease, StoreError> {
        check_ttl(ttl)?;
        let asked = Moment::now();
        let id = self.ask(|answer| Request::Grant { ttl, answer }).await??;
        let queue = self.queue.as_ref().ok_or_else(closed)?.downgrade();
        Lease::start(Arc::new(Backend { queue }), id, asked, ttl)
    }

    async fn compact(&self, revision: Revision) -> Result<(), StoreError> {
        self.shared.history.compact(revision)
    }

    async fn size_bytes(&self) -> Result<u64, StoreError> {
        self.shared.disk.size_bytes()
    }
}

/// A lease's way to the writer; it does not keep a store open that was dropped.
struct Backend {
    queue: mpsc::WeakSender<Request>,
}

#[async_trait]
impl LeaseBackend for Backend {
    async fn renew(&self, id: LeaseId, limit: Duration) -> Result<Duration, RenewError> {
        let queue = self.queue.upgrade();
        match timeout(limit, ask(queue.as_ref(), |answer| Request::Renew { id, answer })).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Err(RenewError::Failed(error.to_string())),
            Err(_) => Err(RenewError::Failed(format!("the store was busy for {limit:?}"))),
        }
    }

    async fn revoke(&self, id: LeaseId) -> Result<(), StoreError> {
        ask(self.queue.upgrade().as_ref(), |answer| Request::Revoke { id, answer }).await?
    }
}
