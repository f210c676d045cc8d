//! What is on disk: the lock, the format, and the keyspaces of fjall.
//!
//! ```text
//! DIR/lock     held by the process that has the store open; its number inside
//! DIR/format   the format's number
//! DIR/data/    fjall: `kv`      key -> revision (8 bytes, big-endian), value
//!                     `leased`  key -> nothing, for each key that lives under a lease
//!                     `meta`    `revision` -> the last revision
//! ```

use super::FORMAT;
use crate::{
    limits::CACHE_BYTES,
    store::{Entry, Revision, StoreError},
};
use bytes::Bytes;
use fjall::{
    Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch as WriteBatch, PersistMode, Readable as _, Snapshot,
};
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    path::Path,
    process,
};

const REVISION_KEY: &str = "revision";
const REVISION_BYTES: usize = size_of::<u64>();
/// The revision of a store without a key; etcd begins with the same.
const FIRST_REVISION: Revision = Revision(1);

fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> StoreError {
    let what = what.into();
    |source| StoreError::Io { what, source }
}

fn engine_error(what: &str, error: &fjall::Error) -> StoreError {
    StoreError::Stopped { why: format!("{what} failed: {error}") }
}

/// The right to use a directory, for as long as it lives.
#[derive(Debug)]
pub(super) struct DirLock {
    file: File,
}

impl DirLock {
    pub(super) fn take(dir: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(dir).map_err(io_error(format!("creating {}", dir.display())))?;
        let path = dir.join("lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(io_error(format!("opening {}", path.display())))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // Only for the message; the holder may be writing it right now.
                let _ = file.read_to_string(&mut pid);
                let pid = if pid.trim().is_empty() { "(unknown)".to_owned() } else { pid.trim().to_owned() };
                return Err(StoreError::Locked { dir: dir.display().to_string(), pid });
            }
            Err(TryLockError::Error(source)) => {
                return Err(StoreError::Io { what: format!("locking {}", path.display()), source });
            }
        }
        let note = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", process::id())
        };
        note(&mut file).map_err(io_error(format!("writing {}", path.display())))?;
        Ok(Self { file })
    }
}

impl Drop for DirLock {
    fn drop(&mut self) {
        let _ = self.file.set_len(0);
    }
}

/// Checks that this version understands the directory, and marks it if it is new.
fn check_format(dir: &Path) -> Result<(), StoreError> {
    let path = dir.join("format");
    let show = || dir.display().to_string();
    match fs::read_to_string(&path) {
        Ok(text) => {
            let found: u64 = text.trim().parse().map_err(|_| StoreError::NotAStore {
                dir: show(),
                why: format!(
                    "its file `format` does not hold a number: {:?}",
                    text.chars().take(40).collect::<String>()
                ),
            })?;
            if found > FORMAT {
                return Err(StoreError::TooNew { what: format!("the store in {}", show()), found, known: FORMAT });
            }
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let other = fs::read_dir(dir)
                .map_err(io_error(format!("reading {}", dir.display())))?
                .filter_map(Result::ok)
                .find(|entry| entry.file_name() != "lock" && entry.file_name() != "format.new");
            if let Some(other) = other {
                let why = format!("it has no file `format`, and holds `{}`", other.file_name().to_string_lossy());
                return Err(StoreError::NotAStore { dir: show(), why });
            }
            write_format(dir).map_err(io_error(format!("writing {}", path.display())))
        }
        Err(source) => Err(StoreError::Io { what: format!("reading {}", path.display()), source }),
    }
}

fn write_format(dir: &Path) -> io::Result<()> {
    let new = dir.join("format.new");
    let mut file = File::create(&new)?;
    writeln!(file, "{FORMAT}")?;
    file.sync_all()?;
    fs::rename(&new, dir.join("format"))?;
    File::open(dir)?.sync_all()
}

/// A key as the writer handles it.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) revision: Revision,
    pub(super) value: Bytes,
}

/// The keyspaces.
pub(super) struct Disk {
    db: Database,
    kv: Keyspace,
    leased: Keyspace,
    meta: Keyspace,
}

impl Disk {
    pub(super) fn open(dir: &Path) -> Result<Self, StoreError> {
        check_format(dir)?;
        let open = || -> fjall::Result<Self> {
            let db = Database::builder(dir.join("data")).cache_size(CACHE_BYTES).open()?;
            let kv = db.keyspace("kv", KeyspaceCreateOptions::default)?;
            let leased = db.keyspace("leased", KeyspaceCreateOptions::default)?;
            let meta = db.keyspace("meta", KeyspaceCreateOptions::default)?;
            Ok(Self { db, kv, leased, meta })
        };
        open().map_err(|error| match error {
            fjall::Error::Io(source) => {
                StoreError::Io { what: format!("opening the store in {}", dir.display()), source }
            }
            error => StoreError::Corrupt { key: dir.display().to_string(), why: error.to_string() },
        })
    }

    /// Deletes the keys of leases that ended with their process, and tells the revision of the store then.
    pub(super) fn end_old_leases(&self) -> Result<Revision, StoreError> {
        let broken = |error: fjall::Error| engine_error("reading the disk", &error);
        let last = self.meta.get(REVISION_KEY).map_err(broken)?;
        let revision = match last {
            None => FIRST_REVISION,
            Some(bytes) => {
                let bytes: [u8; REVISION_BYTES] = (&*bytes).try_into().map_err(|_| StoreError::Corrupt {
                    key: REVISION_KEY.to_owned(),
                    why: format!("{} bytes instead of {REVISION_BYTES}", bytes.len()),
                })?;
                Revision(u64::from_be_bytes(bytes))
            }
        };
        let mut group = Group { disk: self, batch: self.durable_batch() };
        for item in self.leased.iter() {
            let key = item.key().map_err(broken)?;
            group.batch.remove(&self.kv, key.clone());
            group.batch.remove(&self.leased, key);
        }
        if group.batch.is_empty() {
            return Ok(revision);
        }
        let next = revision.next();
        group.commit(next)?;
        Ok(next)
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.db.snapshot()
    }

    fn durable_batch(&self) -> WriteBatch {
        self.db.batch().durability(Some(PersistMode::SyncData))
    }

    /// A durable batch.
    pub(super) fn group(&self) -> Group<'_> {
        Group { disk: self, batch: self.durable_batch() }
    }

    pub(super) fn read(&self, snapshot: &Snapshot, key: &str) -> Result<Option<Stored>, StoreError> {
        let bytes = snapshot.get(&self.kv, key).map_err(|error| engine_error("reading the disk", &error))?;
        bytes.map(|bytes| decode(key, &bytes)).transpose()
    }

    pub(super) fn get(&self, snapshot: &Snapshot, key: &str) -> Result<Option<Entry>, StoreError> {
        let stored = self.read(snapshot, key)?;
        Ok(stored.map(|Stored { revision, value }| Entry { key: key.to_owned(), value, mod_revision: revision }))
    }

    pub(super) fn list(&self, snapshot: &Snapshot, prefix: &str) -> Result<Vec<Entry>, StoreError> {
        let mut entries = Vec::new();
        for item in snapshot.prefix(&self.kv, prefix) {
            let (key, bytes) = item.into_inner().map_err(|error| engine_error("reading the disk", &error))?;
            let key = str::from_utf8(&key).map_err(|error| StoreError::Corrupt {
                key: String::from_utf8_lossy(&key).into_owned(),
                why: error.to_string(),
            })?;
            let Stored { revision, value } = decode(key, &bytes)?;
            entries.push(Entry { key: key.to_owned(), value, mod_revision: revision });
        }
        Ok(entries)
    }

    pub(super) fn size_bytes(&self) -> Result<u64, StoreError> {
        self.db.disk_space().map_err(|error| engine_error("measuring the store", &error))
    }
}

fn decode(key: &str, bytes: &[u8]) -> Result<Stored, StoreError> {
    let Some((revision, value)) = bytes.split_first_chunk::<REVISION_BYTES>() else {
        return Err(StoreError::Corrupt { key: key.to_owned(), why: format!("{} bytes are too few", bytes.len()) });
    };
    Ok(Stored { revision: Revision(u64::from_be_bytes(*revision)), value: Bytes::copy_from_slice(value) })
}

/// Changes that become durable together.
pub(super) struct Group<'a> {
    disk: &'a Disk,
    batch: WriteBatch,
}

impl Group<'_> {
    pub(super) fn put(&mut self, key: &str, stored: &Stored) {
        let mut bytes = Vec::with_capacity(REVISION_BYTES + stored.value.len());
        bytes.extend_from_slice(&stored.revision.0.to_be_bytes());
        bytes.extend_from_slice(&stored.value);
        self.batch.insert(&self.disk.kv, key, bytes);
    }

    pub(super) fn delete(&mut self, key: &str) {
        self.batch.remove(&self.disk.kv, key);
    }

    pub(super) fn set_leased(&mut self, key: &str, leased: bool) {
        if leased {
            self.batch.insert(&self.disk.leased, key, "");
        } else {
            self.batch.remove(&self.disk.leased, key);
        }
    }

    pub(super) fn commit(mut self, revision: Revision) -> Result<(), StoreError> {
        self.batch.insert(&self.disk.meta, REVISION_KEY, revision.0.to_be_bytes());
        self.batch.commit().map_err(|error| engine_error("writing to the disk", &error))
    }
}
