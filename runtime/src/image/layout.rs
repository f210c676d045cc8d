//! Reading an OCI image layout, in a directory or in a tar file.

use super::{
    digest::{Digest, HashingReader},
    error::ImageError,
    limits::{ARCHIVE_ENTRIES_MAX, INDEX_BYTES_MAX},
    reference::ImageReference,
    tar_reader::{Kind, Seekable, TarReader},
};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufReader, Read},
    os::{fd::OwnedFd, unix::fs::FileExt},
    path::{Path, PathBuf},
};

/// A layout that is open; its blobs can be read from several threads at once.
pub(super) struct Layout {
    path: PathBuf,
    place: Place,
}

enum Place {
    Directory(OwnedFd),
    /// The file, and where in it each named file begins and how long it is.
    Archive(File, BTreeMap<String, (u64, u64)>),
}

/// A file of a layout, with its length.
pub(super) struct Blob {
    pub(super) reader: Box<dyn Read + Send>,
    pub(super) length: u64,
}

impl Layout {
    pub(super) fn open(reference: &ImageReference) -> Result<Self, ImageError> {
        let path = reference.path().clone();
        let missing = |source| ImageError::NoLayout { path: path.clone(), source };
        let place = match reference {
            ImageReference::Layout { path, .. } => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                Place::Directory(rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| missing(errno.into()))?)
            }
            ImageReference::Archive { path, .. } => {
                let file = open_regular(rustix::fs::CWD, path, ResolveFlags::empty()).map_err(missing)?;
                let entries = scan(&file).map_err(|error| ImageError::Layout {
                    path: path.clone(),
                    problem: format!("it is no tar file ({error})"),
                })?;
                Place::Archive(file, entries)
            }
        };
        let layout = Self { path, place };
        layout.check_version()?;
        Ok(layout)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn broken(&self, problem: impl Into<String>) -> ImageError {
        ImageError::Layout { path: self.path.clone(), problem: problem.into() }
    }

    fn check_version(&self) -> Result<(), ImageError> {
        let bytes = self.small_file("oci-layout")?;
        let layout: oci_spec::image::OciLayout =
            serde_json::from_slice(&bytes).map_err(|error| self.broken(format!("`oci-layout` is wrong: {error}")))?;
        let version = layout.image_layout_version();
        if version.split('.').next() == Some("1") {
            return Ok(());
        }
        Err(ImageError::Unsupported(format!(
            "the image layout at {} has version `{}`; only version 1 is known",
            self.path.display(),
            version.escape_debug()
        )))
    }

    /// The bytes of `index.json`.
    pub(super) fn index(&self) -> Result<Vec<u8>, ImageError> {
        self.small_file("index.json")
    }

    fn small_file(&self, name: &str) -> Result<Vec<u8>, ImageError> {
        let blob = self.file(name).map_err(|source| ImageError::NoLayout { path: self.path.clone(), source })?;
        let mut bytes = Vec::new();
        blob.reader
            .take(INDEX_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(|source| ImageError::NoLayout { path: self.path.clone(), source })?;
        match bytes.len() as u64 {
            length if length > INDEX_BYTES_MAX => Err(ImageError::Limit {
                what: format!("`{name}`, in bytes,"),
                actual: blob.length,
                limit: INDEX_BYTES_MAX,
            }),
            _ => Ok(bytes),
        }
    }

    /// A blob as a stream, its length already checked; whoever reads it checks the digest.
    pub(super) fn blob(&self, digest: &Digest, size: u64) -> Result<Blob, ImageError> {
        let blob = self.file(&format!("blobs/sha256/{}", digest.hex())).map_err(|source| ImageError::NoBlob {
            digest: *digest,
            path: self.path.clone(),
            source,
        })?;
        if blob.length != size {
            return Err(ImageError::WrongSize { what: format!("blob {digest}"), expected: size, actual: blob.length });
        }
        Ok(blob)
    }

    /// A small blob, whole and verified.
    pub(super) fn verified(
        &self,
        digest: &Digest,
        size: u64,
        limit: u64,
        what: &'static str,
    ) -> Result<Vec<u8>, ImageError> {
        if size > limit {
            return Err(ImageError::Limit { what: format!("the {what}, in bytes,"), actual: size, limit });
        }
        let blob = self.blob(digest, size)?;
        let reading = || ImageError::io(format!("read the {what} {digest} from {}", self.path.display()));
        let mut reader = HashingReader::new(blob.reader, size, what);
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map_err(reading())?;
        let (actual, length, _) = reader.finish().map_err(reading())?;
        check(&format!("the {what}"), (digest, size), (&actual, length))?;
        Ok(bytes)
    }

    fn file(&self, name: &str) -> io::Result<Blob> {
        match &self.place {
            Place::Directory(directory) => {
                // A layout is a stranger's: its files may be links, but to nothing outside it, and no pipes.
                let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
                let file = open_regular(directory, Path::new(name), beneath)?;
                let length = file.metadata()?.len();
                Ok(Blob { reader: Box::new(BufReader::with_capacity(READ_BUFFER, file)), length })
            }
            Place::Archive(file, entries) => {
                let (start, length) = entries.get(name).copied().ok_or(io::ErrorKind::NotFound)?;
                let part = Part { file: file.try_clone()?, position: start, end: start + length };
                Ok(Blob { reader: Box::new(BufReader::with_capacity(READ_BUFFER, part)), length })
            }
        }
    }
}

const READ_BUFFER: usize = 128 << 10;

/// Compares what was promised with what was found.
pub(super) fn check(what: &str, expected: (&Digest, u64), actual: (&Digest, u64)) -> Result<(), ImageError> {
    if expected.1 != actual.1 {
        return Err(ImageError::WrongSize { what: what.to_owned(), expected: expected.1, actual: actual.1 });
    }
    if expected.0 != actual.0 {
        return Err(ImageError::WrongDigest { what: what.to_owned(), expected: *expected.0, actual: *actual.0 });
    }
    Ok(())
}

fn open_regular(directory: impl std::os::fd::AsFd, path: &Path, resolve: ResolveFlags) -> io::Result<File> {
    // Without NONBLOCK, opening a pipe would wait for somebody to write into it.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(super::tree::openat2_retrying(directory, path, flags, resolve)?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Where each file of an archive is. As when unpacking it, the last of several with one name counts.
fn scan(file: &File) -> io::Result<BTreeMap<String, (u64, u64)>> {
    let mut magic = [0; 4];
    let known = file.read_at(&mut magic, 0)?;
    if known >= 2 && magic.starts_with(&[0x1f, 0x8b]) || magic == [0x28, 0xb5, 0x2f, 0xfd] {
        return Err(io::Error::other("it is compressed; decompress it first"));
    }
    let mut reader = TarReader::new(Seekable::new(file.try_clone()?)?);
    let mut entries = BTreeMap::new();
    let mut count = 0;
    while let Some(entry) = reader.next_entry()? {
        count += 1;
        if count > ARCHIVE_ENTRIES_MAX {
            return Err(io::Error::other(format!("it has more than {ARCHIVE_ENTRIES_MAX} entries")));
        }
        let Ok(name) = String::from_utf8(entry.path) else { continue };
        let name = name.trim_start_matches("./");
        match entry.kind {
            Kind::File => drop(entries.insert(name.to_owned(), (entry.offset, entry.size))),
            // Deduplicated blobs in some archives; a link can only name a file that came before.
            Kind::HardLink => {
                let target = String::from_utf8_lossy(&entry.link).trim_start_matches("./").to_owned();
                if let Some(place) = entries.get(&target).copied() {
                    entries.insert(name.to_owned(), place);
                }
            }
            _ => {}
        }
    }
    Ok(entries)
}

/// A part of a file, read without moving the position that all who hold the file share.
struct Part {
    file: File,
    position: u64,
    end: u64,
}

impl Read for Part {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX).min(buffer.len());
        let Some(buffer) = buffer.get_mut(..left) else { return Ok(0) };
        let read = self.file.read_at(buffer, self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}
