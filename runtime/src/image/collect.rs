//! Which images are used, and removing layers that no image in use is made of.

use super::{
    digest::Digest,
    error::ImageError,
    lock::{FileLock, Pin},
    select::Selected,
    store::{ImageStore, Inner, UNFINISHED_PREFIX, blocking, remove_tree, sync_dir, write_durably},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

/// Which layers an image is made of; kept so that its digest is enough to know what must stay.
#[derive(Serialize, Deserialize)]
struct ImageRecord {
    layers: Vec<Digest>,
}

/// What a collection removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Images that nobody uses.
    pub images: Vec<Digest>,
    /// Layers that only they were made of.
    pub layers: Vec<Digest>,
}

impl ImageStore {
    /// Removes all layers but those of the images that are in use: the given ones (by the digest of their manifest,
    /// or a layer's own digest), those being prepared, and those whose [`PreparedImage`](super::PreparedImage) still
    /// exists, in this process or any other.
    ///
    /// The caller finds out from its own records on disk what is in use, so that nothing is forgotten in a restart.
    ///
    /// # Errors
    /// When the store can't be read or written. What is in use stays in any case.
    pub async fn collect(&self, in_use: BTreeSet<Digest>) -> Result<Collected, ImageError> {
        let store = self.inner.clone();
        blocking(move || collect(&store, &in_use)).await
    }
}

fn gate(store: &Inner) -> PathBuf {
    store.dir.join("locks/gate")
}

fn image_lock(store: &Inner, digest: &Digest) -> PathBuf {
    store.dir.join("locks").join(format!("image-{}", digest.hex()))
}

/// Writes down what an image is made of and keeps it from being collected while the pin exists.
pub(super) fn pin(store: &Inner, image: &Selected) -> Result<Pin, ImageError> {
    let doing = || ImageError::io(format!("note that image {} is used, in {}", image.digest, store.dir.display()));
    // A collection must see either none of this or all of it.
    let _gate = FileLock::shared(&gate(store)).map_err(doing())?;
    let lock = FileLock::shared(&image_lock(store, &image.digest)).map_err(doing())?;
    let path = store.dir.join("images").join(image.digest.hex());
    if !path.exists() {
        let record = ImageRecord { layers: image.layers.iter().map(|layer| layer.diff_id).collect() };
        let content = serde_json::to_vec(&record).map_err(|error| doing()(error.into()))?;
        write_durably(&path, &content).map_err(doing())?;
    }
    Ok(Pin { _lock: lock })
}

fn collect(store: &Inner, in_use: &BTreeSet<Digest>) -> Result<Collected, ImageError> {
    let doing = || ImageError::io(format!("collect unused images in {}", store.dir.display()));
    let mut collected = Collected::default();
    {
        // Only names are changed under this lock, so that starts wait for a moment and not for a disk.
        let _gate = FileLock::exclusive(&gate(store)).map_err(doing())?;
        let mut keep = in_use.clone();
        let mut unused = Vec::new();
        for (digest, path) in digests(&store.dir.join("images")).map_err(doing())? {
            let lock = if in_use.contains(&digest) {
                None
            } else {
                FileLock::try_exclusive(&image_lock(store, &digest)).map_err(doing())?
            };
            match lock {
                Some(lock) => unused.push((digest, path, lock)),
                None => keep.extend(read_record(&path)?.layers),
            }
        }
        for (digest, path, lock) in unused {
            fs::remove_file(path).map_err(doing())?;
            lock.remove().map_err(doing())?;
            collected.images.push(digest);
        }
        for (digest, path) in digests(&store.dir.join("layers")).map_err(doing())? {
            if keep.contains(&digest) {
                continue;
            }
            let trash = store.dir.join("trash").join(format!("{}-{}", digest.hex(), std::process::id()));
            remove_tree(&trash).map_err(doing())?;
            fs::rename(path, trash).map_err(doing())?;
            collected.layers.push(digest);
        }
        sync_dir(&store.dir.join("layers")).map_err(doing())?;
    }
    remove_leftovers(store)?;
    if collected != Collected::default() {
        tracing::info!(images = collected.images.len(), layers = collected.layers.len(), "collected unused images");
    }
    Ok(collected)
}

/// Removes what killed processes left half made or half removed.
pub(super) fn remove_leftovers(store: &Inner) -> Result<(), ImageError> {
    let doing = || ImageError::io(format!("clean up the image store at {}", store.dir.display()));
    for (digest, path) in digests(&store.dir.join("tmp")).map_err(doing())? {
        let lock = store.dir.join("locks").join(format!("layer-{}", digest.hex()));
        // Somebody who holds the lock is making it right now.
        if let Some(lock) = FileLock::try_exclusive(&lock).map_err(doing())? {
            remove_tree(&path).map_err(doing())?;
            lock.remove().map_err(doing())?;
        }
    }
    if let Some(_gate) = FileLock::try_exclusive(&gate(store)).map_err(doing())? {
        // Nobody writes a record without the gate.
        for entry in fs::read_dir(store.dir.join("images")).map_err(doing())? {
            let entry = entry.map_err(doing())?;
            if entry.file_name().as_encoded_bytes().starts_with(UNFINISHED_PREFIX.as_bytes()) {
                fs::remove_file(entry.path()).map_err(doing())?;
            }
        }
    }
    for entry in fs::read_dir(store.dir.join("trash")).map_err(doing())? {
        let path = entry.map_err(doing())?.path();
        // Another process may be removing the same: what it takes away first is no error.
        match remove_tree(&path) {
            Err(error) if path.exists() => return Err(doing()(error)),
            _ => {}
        }
    }
    Ok(())
}

fn read_record(path: &Path) -> Result<ImageRecord, ImageError> {
    let doing = || ImageError::io(format!("read {}", path.display()));
    serde_json::from_slice(&fs::read(path).map_err(doing())?).map_err(|error| doing()(error.into()))
}

/// The entries of a directory that are named by a digest.
fn digests(dir: &Path) -> io::Result<Vec<(Digest, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if let Some(digest) = entry.file_name().to_str().and_then(|name| Digest::from_hex(name).ok()) {
            found.push((digest, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}
