//! Layers on this machine's disk: each unpacked once, shared by all tasks.
//!
//! ```text
//! version            which layout of this directory this is
//! layers/<diff id>/  a layer, complete: it appears by a rename after everything in it is durable
//! images/<digest>    which layers an image is made of
//! tmp/<diff id>/     a layer in the making; what a killed process left is removed by the next
//! trash/             layers on their way out
//! locks/             who unpacks which layer, who uses which image; kept by the kernel, so they die with a process
//! ```
//!
//! Several agents may share a store: everything they must not do at once is under a file lock.

use super::{
    collect,
    config::ImageConfig,
    digest::Digest,
    error::ImageError,
    layout::Layout,
    limits::LayerLimits,
    lock::{FileLock, Pin},
    reference::ImageReference,
    select::{Selected, select},
    tree::{OPAQUE_XATTR, OPAQUE_XATTR_USER},
    unpack::{LayerSource, unpack},
};
use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

const VERSION: &str = "1\n";
/// How the name of a file begins that is not whole yet.
pub(super) const UNFINISHED_PREFIX: &str = ".new-";
/// How many layers one process unpacks at a time: more would only take disk and processor from running tasks.
const UNPACKING_MAX: usize = 2;

/// An image that is ready to be mounted.
#[derive(Clone, Debug)]
pub struct PreparedImage {
    /// The digest of its manifest for this machine.
    pub digest: Digest,
    /// Its layers, the top one first: what overlayfs takes as lower directories.
    pub lower_layers: Vec<PathBuf>,
    /// How it wants to be run.
    pub config: ImageConfig,
    /// Keeps the layers from being collected until whoever asked has written down that it uses them.
    pub(super) _pin: Arc<Pin>,
}

/// The images of one machine. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ImageStore {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) dir: PathBuf,
    limits: LayerLimits,
    /// One unpacking at a time for each layer, so that waiting for it costs no thread.
    unpacking: Mutex<HashMap<Digest, Arc<tokio::sync::Mutex<()>>>>,
    slots: tokio::sync::Semaphore,
}

impl ImageStore {
    /// Opens the store in a directory, which is made if it is missing, and removes what killed processes left.
    ///
    /// # Errors
    /// When the directory can't be used or was written by a newer version.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, ImageError> {
        Self::open_with(dir, LayerLimits::default())
    }

    /// The same, with other limits.
    ///
    /// # Errors
    /// As for [`ImageStore::open`].
    pub fn open_with(dir: impl Into<PathBuf>, limits: LayerLimits) -> Result<Self, ImageError> {
        let dir = std::path::absolute(dir.into()).map_err(ImageError::io("find the image store"))?;
        let opening = || ImageError::io(format!("open the image store at {}", dir.display()));
        // Programs in layers may be set-user-id: nobody but the owner may reach them outside a container.
        for part in ["", "layers", "images", "tmp", "trash", "locks"] {
            let part = if part.is_empty() { dir.clone() } else { dir.join(part) };
            fs::DirBuilder::new().recursive(true).mode(0o700).create(&part).map_err(opening())?;
        }
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).map_err(opening())?;
        let version = dir.join("version");
        match fs::read_to_string(&version) {
            Ok(found) if found == VERSION => {}
            Ok(found) => {
                return Err(ImageError::Unsupported(format!(
                    "the image store at {} has version `{}`, which this version of Polder does not know; use the \
                     newer one, or give it another directory",
                    dir.display(),
                    found.trim().escape_debug()
                )));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                write_durably(&version, VERSION.as_bytes()).map_err(opening())?;
            }
            Err(error) => return Err(opening()(error)),
        }
        let inner =
            Inner { dir, limits, unpacking: Mutex::default(), slots: tokio::sync::Semaphore::new(UNPACKING_MAX) };
        collect::remove_leftovers(&inner)?;
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Makes an image ready: finds and verifies it, and unpacks the layers that are not here yet.
    ///
    /// May be called by any number of tasks for the same image at once: its layers are unpacked once. Dropping the
    /// future is safe.
    ///
    /// # Errors
    /// When the image can't be read, is not what it says, is not for this machine or can't be written to disk.
    pub async fn prepare(&self, reference: &ImageReference) -> Result<PreparedImage, ImageError> {
        let (store, wanted) = (self.inner.clone(), reference.clone());
        let (layout, selected, pin) = blocking(move || {
            let layout = Layout::open(&wanted)?;
            let selected = select(&layout, wanted.selector(), store.limits)?;
            let pin = collect::pin(&store, &selected)?;
            Ok((Arc::new(layout), selected, pin))
        })
        .await?;
        let Selected { digest, config, layers } = selected;
        let count = layers.len();
        for (place, layer) in layers.iter().enumerate() {
            if self.inner.layer_dir(&layer.diff_id).is_dir() {
                continue;
            }
            tracing::info!(image = %digest, layer = %layer.diff_id, number = place + 1, of = count, "unpacking a layer");
            self.ensure_layer(layer, &layout).await?;
        }
        let store = self.inner.clone();
        let lower_layers = blocking(move || store.lower_layers(&layers)).await?;
        Ok(PreparedImage { digest, lower_layers, config, _pin: Arc::new(pin) })
    }

    async fn ensure_layer(&self, layer: &LayerSource, layout: &Arc<Layout>) -> Result<(), ImageError> {
        let turn = self.inner.turn(&layer.diff_id);
        let guard = turn.clone().lock_owned().await;
        let result = if self.inner.layer_dir(&layer.diff_id).is_dir() {
            Ok(())
        } else {
            // Never closed, so there is always a permit to be had.
            let slot = self.inner.slots.acquire().await.ok();
            let (store, layer, layout) = (self.inner.clone(), layer.clone(), layout.clone());
            let result = blocking(move || {
                // Held by the work and not by the future: dropping that does not stop this.
                let _guard = guard;
                store.make_layer(&layer, &layout)
            })
            .await;
            drop(slot);
            result
        };
        self.inner.end_turn(&layer.diff_id, turn);
        result
    }
}

impl Inner {
    pub(super) fn layer_dir(&self, diff_id: &Digest) -> PathBuf {
        self.dir.join("layers").join(diff_id.hex())
    }

    fn turn(&self, diff_id: &Digest) -> Arc<tokio::sync::Mutex<()>> {
        self.unpacking.lock().unwrap_or_else(PoisonError::into_inner).entry(*diff_id).or_default().clone()
    }

    /// Forgets the queue for a layer when nobody else stands in it.
    fn end_turn(&self, diff_id: &Digest, turn: Arc<tokio::sync::Mutex<()>>) {
        let mut unpacking = self.unpacking.lock().unwrap_or_else(PoisonError::into_inner);
        drop(turn);
        if unpacking.get(diff_id).is_some_and(|turn| Arc::strong_count(turn) == 1) {
            unpacking.remove(diff_id);
        }
    }

    fn make_layer(&self, layer: &LayerSource, layout: &Layout) -> Result<(), ImageError> {
        let lock = FileLock::exclusive(&self.dir.join("locks").join(format!("layer-{}", layer.diff_id.hex())))
            .map_err(ImageError::io(format!("lock layer {}", layer.diff_id)))?;
        let result = self.make_locked_layer(layer, layout);
        // Who waits for it finds that the file is gone, takes a new one and looks again.
        if let Err(error) = lock.remove() {
            tracing::warn!(layer = %layer.diff_id, %error, "could not remove the lock of a layer; it does no harm");
        }
        result
    }

    fn make_locked_layer(&self, layer: &LayerSource, layout: &Layout) -> Result<(), ImageError> {
        let target = self.layer_dir(&layer.diff_id);
        if target.is_dir() {
            return Ok(());
        }
        let making = self.dir.join("tmp").join(layer.diff_id.hex());
        let storing = || ImageError::io(format!("store layer {} in {}", layer.diff_id, self.dir.display()));
        remove_tree(&making).map_err(storing())?;
        fs::create_dir(&making).map_err(storing())?;
        fs::set_permissions(&making, fs::Permissions::from_mode(0o755)).map_err(storing())?;
        let make = || {
            let blob = layout.blob(&layer.blob, layer.size)?;
            let done = unpack(layer, blob, &making, self.limits)?;
            let directory = File::open(&making).map_err(storing())?;
            rustix::fs::syncfs(&directory).map_err(|errno| storing()(errno.into()))?;
            fs::rename(&making, &target).map_err(storing())?;
            sync_dir(&self.dir.join("layers")).map_err(storing())?;
            let (entries, bytes, left_out) = (done.entries, done.bytes, done.left_out);
            tracing::info!(layer = %layer.diff_id, entries, bytes, left_out, "unpacked a layer");
            Ok(())
        };
        make().inspect_err(|_| {
            if let Err(error) = remove_tree(&making) {
                let path = making.display();
                tracing::warn!(%path, %error, "could not remove a layer that failed; the next start will");
            }
        })
    }

    /// The layers from the top, without those that an opaque root hides.
    fn lower_layers(&self, layers: &[LayerSource]) -> Result<Vec<PathBuf>, ImageError> {
        let mut lower = Vec::with_capacity(layers.len());
        for layer in layers.iter().rev() {
            let path = self.layer_dir(&layer.diff_id);
            // The kernel refuses to stack one directory twice, and a second time would change nothing.
            if lower.contains(&path) {
                continue;
            }
            let directory =
                File::open(&path).map_err(ImageError::io(format!("open layer {} in the store", layer.diff_id)))?;
            lower.push(path);
            let opaque = |name| rustix::fs::fgetxattr_query(&directory, name).is_ok();
            if opaque(OPAQUE_XATTR) || opaque(OPAQUE_XATTR_USER) {
                break;
            }
        }
        Ok(lower)
    }
}

/// Runs what reads and writes disks away from the threads that answer messages.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ImageError> + Send + 'static,
) -> Result<T, ImageError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(ImageError::Io {
            doing: "finish work on an image".into(),
            source: io::Error::other(if error.is_panic() { "a programming error" } else { "the program is ending" }),
        }),
    }
}

/// Writes a file so that after a crash there is the old one or the new one.
pub(super) fn write_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut name = std::ffi::OsString::from(UNFINISHED_PREFIX);
    name.push(path.file_name().ok_or(io::ErrorKind::InvalidInput)?);
    name.push(format!("-{}-{:?}", std::process::id(), std::thread::current().id()));
    let new = parent.join(name);
    let write = || {
        let mut file = File::create(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        sync_dir(parent)
    };
    write().inspect_err(|_| drop(fs::remove_file(&new)))
}

pub(super) fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Removes a tree, links not followed; fine if there is none.
pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
