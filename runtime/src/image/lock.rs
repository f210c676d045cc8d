//! Locks between processes. The kernel holds them, so a killed process holds none.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// A lock on a file that exists for nothing else. Freed when dropped.
#[derive(Debug)]
pub(super) struct FileLock {
    file: File,
    path: PathBuf,
}

/// Says that somebody uses an image; its layers stay while this exists.
#[derive(Debug)]
pub(super) struct Pin {
    pub(super) _lock: FileLock,
}

impl FileLock {
    /// Waits until nobody else holds it.
    pub(super) fn exclusive(path: &Path) -> io::Result<Self> {
        Self::acquire(path, |file| file.lock().map(|()| true))?.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    /// Waits until nobody holds it for himself alone.
    pub(super) fn shared(path: &Path) -> io::Result<Self> {
        Self::acquire(path, |file| file.lock_shared().map(|()| true))?.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    /// None if somebody holds it.
    pub(super) fn try_exclusive(path: &Path) -> io::Result<Option<Self>> {
        Self::acquire(path, |file| match file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        })
    }

    fn acquire(path: &Path, lock: impl Fn(&File) -> io::Result<bool>) -> io::Result<Option<Self>> {
        loop {
            let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)?;
            match lock(&file) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            // Whoever held it before may have removed the file: then this locks nothing that others can find.
            let ours = file.metadata()?;
            match std::fs::metadata(path) {
                Ok(now) if (now.dev(), now.ino()) == (ours.dev(), ours.ino()) => {
                    return Ok(Some(Self { file, path: path.to_owned() }));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes the file and frees the lock. Only for one that is held exclusively.
    pub(super) fn remove(self) -> io::Result<()> {
        std::fs::remove_file(&self.path)?;
        drop(self.file);
        Ok(())
    }
}
