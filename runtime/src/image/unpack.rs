//! One layer: from a compressed, untrusted stream to a directory that overlayfs can use.
//!
//! Files, directories, symbolic and hard links are made with their modes, times, owners (as root) and the attributes
//! of [`xattr_is_kept`]. Devices and pipes are left out and counted: a container gets its `/dev` from Polder, and an
//! image must not bring a node of the host's disk. Whiteouts become what overlayfs understands.

use super::{
    digest::{Digest, HashingReader},
    error::{ImageError, UnpackError},
    layout::{Blob, check},
    limits::{DIRECTORY_NOTES_BYTES_MAX, LayerLimits, ZSTD_WINDOW_LOG_MAX},
    tar_reader::{Entry, Kind, Stream, TarReader},
    tree::{Found, InnerPath, Tree, TreeError, find},
};
use rustix::{
    fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags},
    io::Errno,
};
use std::{
    ffi::OsStr,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::Path,
};

const WHITEOUT_PREFIX: &[u8] = b".wh.";
const OPAQUE_MARK: &[u8] = b".wh..wh.opq";
/// Other names that begin like this are notes of an old storage driver to itself.
const WHITEOUT_NOTE_PREFIX: &[u8] = b".wh..wh.";

/// What a layer is said to be.
#[derive(Clone, Debug)]
pub(super) struct LayerSource {
    /// The digest of the blob.
    pub(super) blob: Digest,
    /// The length of the blob.
    pub(super) size: u64,
    /// The digest of the tar stream in it.
    pub(super) diff_id: Digest,
}

/// What a layer turned out to hold.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unpacked {
    pub(super) entries: u64,
    pub(super) bytes: u64,
    pub(super) left_out: u64,
}

/// Unpacks a layer into an empty directory and verifies it. The directory is only good if this succeeds.
pub(super) fn unpack(
    layer: &LayerSource,
    blob: Blob,
    directory: &Path,
    limits: LayerLimits,
) -> Result<Unpacked, ImageError> {
    let fail = |source| ImageError::Layer { layer: layer.diff_id, source };
    let stream = |error| fail(UnpackError::Stream(error));
    let stored = HashingReader::new(blob.reader, layer.size, "the layer");
    let plain = Decompressor::new(BufReader::with_capacity(64 << 10, stored)).map_err(stream)?;
    let plain = HashingReader::new(plain, limits.unpacked.get(), "the unpacked layer");
    let tree = Tree::open(directory).map_err(ImageError::io(format!("open {}", directory.display())))?;
    let mut unpacker = Unpacker {
        tree,
        reader: TarReader::new(Stream(BufReader::with_capacity(64 << 10, plain))),
        directories: Vec::new(),
        remembered_bytes: 0,
        done: Unpacked::default(),
        limits,
        root_user: rustix::process::geteuid().is_root(),
    };
    unpacker.run().map_err(fail)?;
    let done = unpacker.done;
    // The rest of both streams counts for the digests too.
    let mut rest = unpacker.reader.into_source();
    io::copy(&mut rest, &mut io::sink()).map_err(stream)?;
    let (diff_id, length, plain) = rest.0.into_inner().finish().map_err(stream)?;
    let (blob, size, _) = plain.into_stored().finish().map_err(stream)?;
    check(&format!("layer blob {}", layer.blob), (&layer.blob, layer.size), (&blob, size))?;
    check(&format!("the unpacked layer {}", layer.diff_id), (&layer.diff_id, length), (&diff_id, length))?;
    Ok(done)
}

/// Whether an extended attribute of an image is set on disk. `security.capability` gives a program its powers and
/// `user.*` is the application's own. Everything else acts on the host (`trusted.overlay.*` could point one layer
/// at any other file) or means nothing here.
fn xattr_is_kept(name: &[u8], root_user: bool) -> bool {
    match name {
        b"security.capability" => root_user,
        name => name.starts_with(b"user.") && !name.starts_with(b"user.overlay."),
    }
}

/// A layer's stream, whatever it is compressed with: its own first bytes say, not its label.
enum Decompressor<R: BufRead> {
    Plain(R),
    Gzip(Box<flate2::bufread::MultiGzDecoder<R>>),
    Zstd(zstd::stream::read::Decoder<'static, R>),
}

impl<R: BufRead> Decompressor<R> {
    fn new(mut source: R) -> io::Result<Self> {
        let head = source.fill_buf()?;
        if head.starts_with(&[0x1f, 0x8b]) {
            return Ok(Self::Gzip(Box::new(flate2::bufread::MultiGzDecoder::new(source))));
        }
        if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(source)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            return Ok(Self::Zstd(decoder));
        }
        Ok(Self::Plain(source))
    }
}

impl<R: Read> Decompressor<BufReader<R>> {
    /// What is read beneath. Bytes that are buffered have passed through it already.
    fn into_stored(self) -> R {
        match self {
            Self::Plain(source) => source.into_inner(),
            Self::Gzip(decoder) => decoder.into_inner().into_inner(),
            Self::Zstd(decoder) => decoder.finish().into_inner(),
        }
    }
}

impl<R: BufRead> Read for Decompressor<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(source) => source.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Zstd(decoder) => decoder.read(buffer),
        }
    }
}

/// What is set on a file after its content.
struct Metadata {
    mode: Mode,
    owner: Option<(Uid, Gid)>,
    times: Timestamps,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A directory whose metadata is set last, so that what is made in it does not change it again.
struct Directory {
    path: InnerPath,
    /// Which one it was: another may have taken its place.
    inode: u64,
    metadata: Metadata,
}

struct Unpacker<R: Read> {
    tree: Tree,
    reader: TarReader<Stream<R>>,
    directories: Vec<Directory>,
    remembered_bytes: usize,
    done: Unpacked,
    limits: LayerLimits,
    root_user: bool,
}

impl<R: Read> Unpacker<R> {
    fn run(&mut self) -> Result<(), UnpackError> {
        while let Some(entry) = self.reader.next_entry().map_err(UnpackError::Stream)? {
            self.done.entries += 1;
            if self.done.entries > self.limits.entries {
                return Err(UnpackError::Limit { what: "entries", limit: self.limits.entries });
            }
            self.done.bytes = self.done.bytes.saturating_add(entry.size);
            if self.done.bytes > self.limits.unpacked.get() {
                return Err(UnpackError::Limit { what: "bytes", limit: self.limits.unpacked.get() });
            }
            let shown = shown(&entry.path);
            match self.entry(entry) {
                Ok(()) => {}
                Err(EntryError::Stream(error)) => return Err(UnpackError::Stream(error)),
                Err(EntryError::Tree(TreeError::Refused(problem))) => {
                    return Err(UnpackError::Refused { path: shown, problem });
                }
                Err(EntryError::Tree(TreeError::Io(source))) => {
                    return Err(UnpackError::Write { path: shown, source });
                }
            }
        }
        self.finish_directories()
    }

    fn entry(&mut self, entry: Entry) -> Result<(), EntryError> {
        let path = InnerPath::parse(&entry.path).map_err(refused)?;
        let metadata = self.metadata(&entry)?;
        let Some((parent_path, name)) = path.split() else {
            // The layer's own root; anything but a directory there would be the whole image.
            return if entry.kind == Kind::Directory {
                self.remember(path, metadata)
            } else {
                Err(refused("it names no file"))
            };
        };
        if parent_path.as_path().iter().any(|part| part.as_bytes().starts_with(WHITEOUT_PREFIX)) {
            return Err(refused("it lies under a whiteout"));
        }
        if name.as_bytes().starts_with(WHITEOUT_PREFIX) {
            return self.whiteout(&parent_path, name);
        }
        if matches!(entry.kind, Kind::Device | Kind::Fifo) {
            self.done.left_out += 1;
            tracing::debug!(path = %shown(&entry.path), kind = ?entry.kind, "left a node of an image out");
            return Ok(());
        }
        let parent = self.tree.ensure_dir(&parent_path)?;
        match entry.kind {
            Kind::Directory => {
                if find(&parent, name)?.0 != Found::Directory {
                    let hidden = self.tree.clear(&parent, name)? == Found::Whiteout;
                    self.tree.make_dir(&parent, name, hidden)?;
                }
                self.remember(path, metadata)
            }
            Kind::File => {
                self.tree.clear(&parent, name)?;
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let mut file = File::from(rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o600))?);
                self.copy(&mut file, entry.size)?;
                Ok(apply(&file, &metadata)?)
            }
            Kind::Symlink => {
                if entry.link.is_empty() || entry.link.contains(&0) {
                    return Err(refused("it is a symbolic link to nothing"));
                }
                self.tree.clear(&parent, name)?;
                rustix::fs::symlinkat(OsStr::from_bytes(&entry.link), &parent, name)?;
                if let Some((uid, gid)) = metadata.owner {
                    rustix::fs::chownat(&parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
                }
                Ok(rustix::fs::utimensat(&parent, name, &metadata.times, AtFlags::SYMLINK_NOFOLLOW)?)
            }
            Kind::HardLink => self.hard_link(&parent, name, &entry),
            Kind::Device | Kind::Fifo => Ok(()),
            Kind::Other(kind) => Err(refused(format!("its kind `{}` is unknown", kind.escape_ascii()))),
        }
    }

    fn hard_link(&self, parent: &impl AsFd, name: &OsStr, entry: &Entry) -> Result<(), EntryError> {
        let target =
            InnerPath::parse(&entry.link).map_err(|problem| refused(format!("as to its target, {problem}")))?;
        let nothing =
            || refused(format!("it is a hard link to `{}`, which is no file of this layer", shown(&entry.link)));
        let (target_parent, target_name) = target.split().ok_or_else(nothing)?;
        let target_parent = match self.tree.open_dir(&target_parent) {
            Ok(directory) => directory,
            Err(error) => {
                return Err(match Errno::from_io_error(&error) {
                    Some(Errno::NOENT | Errno::NOTDIR) => nothing(),
                    Some(Errno::XDEV | Errno::LOOP) => {
                        refused("a symbolic link on the way to its target leads out of the layer")
                    }
                    _ => TreeError::Io(error).into(),
                });
            }
        };
        let (found, target_stat) = find(&target_parent, target_name)?;
        if found != Found::Other {
            return Err(nothing());
        }
        let parent = parent.as_fd().try_clone_to_owned()?;
        let (_, here) = find(&parent, name)?;
        let same = |other: rustix::fs::Stat| target_stat.is_some_and(|target| target.st_ino == other.st_ino);
        if here.is_some_and(same) {
            return Ok(());
        }
        // Clearing the place may take the target with it.
        self.tree.clear(&parent, name)?;
        match rustix::fs::linkat(&target_parent, target_name, &parent, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Err(nothing()),
            result => Ok(result?),
        }
    }

    fn whiteout(&mut self, parent_path: &InnerPath, name: &OsStr) -> Result<(), EntryError> {
        let name = name.as_bytes();
        if name == OPAQUE_MARK {
            let parent = self.tree.ensure_dir(parent_path)?;
            return Ok(self.tree.make_opaque(&parent)?);
        }
        if name.starts_with(WHITEOUT_NOTE_PREFIX) {
            return Ok(());
        }
        let hidden = name.strip_prefix(WHITEOUT_PREFIX).unwrap_or_default();
        if matches!(hidden, b"" | b"." | b"..") {
            return Err(refused("it is a whiteout of nothing"));
        }
        let hidden = OsStr::from_bytes(hidden);
        let parent = self.tree.ensure_dir(parent_path)?;
        // A whiteout is about the layers below, whatever this layer puts in the same place, and in whatever order.
        match find(&parent, hidden)?.0 {
            Found::Nothing => Ok(self.tree.make_whiteout(&parent, hidden)?),
            Found::Directory => {
                let resolve = rustix::fs::ResolveFlags::BENEATH | rustix::fs::ResolveFlags::NO_SYMLINKS;
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let directory = super::tree::openat2_retrying(&parent, Path::new(hidden), flags, resolve)?;
                Ok(self.tree.make_opaque(&directory)?)
            }
            Found::Whiteout | Found::Other => Ok(()),
        }
    }

    fn copy(&mut self, file: &mut File, size: u64) -> Result<(), EntryError> {
        let mut buffer = vec![0; 64 << 10];
        let mut left = size;
        while left > 0 {
            let read = match self.reader.read(&mut buffer) {
                Ok(0) => return Err(EntryError::Stream(io::ErrorKind::UnexpectedEof.into())),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(EntryError::Stream(error)),
            };
            io::Write::write_all(file, buffer.get(..read).unwrap_or_default())?;
            left = left.saturating_sub(read as u64);
        }
        Ok(())
    }

    fn metadata(&self, entry: &Entry) -> Result<Metadata, EntryError> {
        let id = |id: u64| u32::try_from(id).ok().filter(|id| *id != u32::MAX);
        let (Some(uid), Some(gid)) = (id(entry.uid), id(entry.gid)) else {
            return Err(refused("its owner or group is a larger number than Linux has"));
        };
        let time = Timespec { tv_sec: entry.mtime_secs, tv_nsec: entry.mtime_nanos.into() };
        Ok(Metadata {
            mode: Mode::from_raw_mode(entry.mode & 0o7777),
            owner: self.root_user.then(|| (Uid::from_raw(uid), Gid::from_raw(gid))),
            times: Timestamps { last_access: time, last_modification: time },
            xattrs: entry
                .xattrs
                .iter()
                .filter(|(name, _)| xattr_is_kept(name, self.root_user) && !name.contains(&0))
                .cloned()
                .collect(),
        })
    }

    fn remember(&mut self, path: InnerPath, metadata: Metadata) -> Result<(), EntryError> {
        let xattrs: usize = metadata.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
        let bytes = size_of::<Directory>() + path.as_path().as_os_str().len() + xattrs;
        self.remembered_bytes = self.remembered_bytes.saturating_add(bytes);
        if self.remembered_bytes > DIRECTORY_NOTES_BYTES_MAX {
            return Err(refused("the directories of the layer need more memory to unpack than is allowed"));
        }
        let inode = rustix::fs::fstat(self.tree.open_dir(&path)?)?.st_ino;
        self.directories.push(Directory { path, inode, metadata });
        Ok(())
    }

    fn finish_directories(&mut self) -> Result<(), UnpackError> {
        // The deepest go first: setting the mode of a directory may close it to us. Of several entries for one
        // directory the last counts; the sort keeps the order of equals.
        let mut directories = std::mem::take(&mut self.directories);
        directories.sort_by(|a, b| b.path.cmp(&a.path));
        for directory in &directories {
            let set = || -> io::Result<()> {
                let file = match self.tree.open_dir(&directory.path) {
                    Ok(file) => file,
                    Err(error) => {
                        return match Errno::from_io_error(&error) {
                            // It was replaced by something else since.
                            Some(Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP) => Ok(()),
                            _ => Err(error),
                        };
                    }
                };
                if rustix::fs::fstat(&file)?.st_ino != directory.inode {
                    return Ok(());
                }
                apply(&file, &directory.metadata)
            };
            set().map_err(|source| UnpackError::Write {
                path: shown(directory.path.as_path().as_os_str().as_bytes()),
                source,
            })?;
        }
        Ok(())
    }
}

enum EntryError {
    Stream(io::Error),
    Tree(TreeError),
}

impl From<TreeError> for EntryError {
    fn from(error: TreeError) -> Self {
        Self::Tree(error)
    }
}

impl From<io::Error> for EntryError {
    fn from(error: io::Error) -> Self {
        Self::Tree(error.into())
    }
}

impl From<Errno> for EntryError {
    fn from(errno: Errno) -> Self {
        Self::Tree(errno.into())
    }
}

fn refused(problem: impl Into<String>) -> EntryError {
    EntryError::Tree(TreeError::Refused(problem.into()))
}

/// Owner first, because changing it takes set-user-id bits and capabilities away.
fn apply(file: &impl AsFd, metadata: &Metadata) -> io::Result<()> {
    if let Some((uid, gid)) = metadata.owner {
        rustix::fs::fchown(file, Some(uid), Some(gid))?;
    }
    for (name, value) in &metadata.xattrs {
        match rustix::fs::fsetxattr(file, OsStr::from_bytes(name), value, XattrFlags::empty()) {
            // A disk that holds no attributes of applications is no reason to refuse the image.
            Err(Errno::OPNOTSUPP | Errno::NOSPC) if name.starts_with(b"user.") => {
                tracing::debug!(name = %shown(name), "left an extended attribute out: the disk does not take it");
            }
            result => result?,
        }
    }
    rustix::fs::fchmod(file, metadata.mode)?;
    Ok(rustix::fs::futimens(file, &metadata.times)?)
}

fn shown(path: &[u8]) -> String {
    const SHOWN_MAX: usize = 200;
    path.get(..SHOWN_MAX).unwrap_or(path).escape_ascii().to_string()
}
