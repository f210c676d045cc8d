//! Reading a file of an image as a container would see it, without mounting anything: the layers are looked through
//! from the top, whiteouts and opaque directories are obeyed, and links are followed inside the image only.

use super::{
    limits::LINKS_FOLLOWED_MAX,
    tree::{OPAQUE_XATTR, OPAQUE_XATTR_USER, openat2_retrying},
};
use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Read},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

/// The layers of an image, the top one first.
pub(super) struct MergedView {
    layers: Vec<OwnedFd>,
}

/// What is at a place, and in which layer.
enum Seen {
    Nothing,
    File(usize),
    Directory,
    Link(OsString),
    /// A device or anything else nobody should read.
    Other,
}

const STAY: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

impl MergedView {
    pub(super) fn open(layers: &[PathBuf]) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let layers = layers.iter().map(|path| rustix::fs::open(path, flags, Mode::empty()));
        Ok(Self { layers: layers.collect::<Result<_, _>>()? })
    }

    /// The content of a regular file, or none if there is no such file.
    pub(super) fn read(&self, path: &str, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let Some((path, layer)) = self.find(path)? else { return Ok(None) };
        let layer = self.layers.get(layer).ok_or(io::ErrorKind::NotFound)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat2_retrying(layer, &path, flags, STAY)?);
        if !file.metadata()?.is_file() {
            return Ok(None);
        }
        let mut content = Vec::new();
        file.take(limit + 1).read_to_end(&mut content)?;
        if content.len() as u64 > limit {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {limit} bytes")));
        }
        Ok(Some(content))
    }

    /// Follows links to a regular file.
    fn find(&self, path: &str) -> io::Result<Option<(PathBuf, usize)>> {
        let mut ahead: VecDeque<OsString> = parts(OsStr::new(path));
        let mut here = PathBuf::new();
        let mut links = 0;
        while let Some(part) = ahead.pop_front() {
            if part == ".." {
                here.pop();
                continue;
            }
            here.push(&part);
            match self.see(&here)? {
                Seen::Nothing | Seen::Other => return Ok(None),
                Seen::Directory => {}
                Seen::File(layer) => return Ok(ahead.is_empty().then_some((here, layer))),
                Seen::Link(target) => {
                    links += 1;
                    if links > LINKS_FOLLOWED_MAX {
                        return Err(Errno::LOOP.into());
                    }
                    here.pop();
                    if target.as_bytes().starts_with(b"/") {
                        here = PathBuf::new();
                    }
                    for part in parts(&target).into_iter().rev() {
                        ahead.push_front(part);
                    }
                }
            }
        }
        Ok(None)
    }

    /// What a container would see at a path whose parents are directories.
    fn see(&self, path: &Path) -> io::Result<Seen> {
        for (place, layer) in self.layers.iter().enumerate() {
            let mut hides_the_rest = false;
            let mut prefix = PathBuf::new();
            let mut seen = Seen::Nothing;
            for part in path {
                prefix.push(part);
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let found = match openat2_retrying(layer, &prefix, flags, ResolveFlags::BENEATH) {
                    Ok(found) => found,
                    Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => {
                        seen = Seen::Nothing;
                        break;
                    }
                    Err(error) => return Err(error),
                };
                let stat = rustix::fs::fstat(&found)?;
                seen = match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Directory => Seen::Directory,
                    FileType::RegularFile => Seen::File(place),
                    FileType::Symlink => Seen::Link(
                        OsStr::from_bytes(rustix::fs::readlinkat(&found, "", Vec::new())?.to_bytes()).to_owned(),
                    ),
                    FileType::CharacterDevice if stat.st_rdev == 0 => return Ok(Seen::Nothing),
                    _ => Seen::Other,
                };
                if !matches!(seen, Seen::Directory) {
                    // What is no directory hides everything below it in the layers beneath.
                    return Ok(if prefix == path { seen } else { Seen::Nothing });
                }
                let opened =
                    openat2_retrying(layer, &prefix, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, STAY)?;
                let opaque = |name| rustix::fs::fgetxattr_query(&opened, name).is_ok();
                hides_the_rest |= opaque(OPAQUE_XATTR) || opaque(OPAQUE_XATTR_USER);
            }
            if matches!(seen, Seen::Directory) || hides_the_rest {
                return Ok(seen);
            }
        }
        Ok(Seen::Nothing)
    }
}

fn parts(path: &OsStr) -> VecDeque<OsString> {
    path.as_bytes()
        .split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty() && *part != b".")
        .map(|part| OsStr::from_bytes(part).to_owned())
        .collect()
}
