//! A directory tree that is built from what a stranger says, without ever reaching out of it.
//!
//! Every path is resolved by the kernel with `openat2(RESOLVE_BENEATH)` from the tree's root: symbolic links are
//! followed as long as they stay in the tree; absolute ones, and those that climb out, are errors.

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat},
    io::Errno,
};
use std::{
    ffi::OsStr,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

/// How often an open is tried again when the kernel saw a rename at the same time.
const RETRIES_MAX: u32 = 64;
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// What overlayfs looks for on a directory that hides the ones below it.
pub(super) const OPAQUE_XATTR: &str = "trusted.overlay.opaque";
/// The same, for mounts with `userxattr`, which is all that a user other than root can set.
pub(super) const OPAQUE_XATTR_USER: &str = "user.overlay.opaque";

/// `openat2`, tried again while the kernel asks for it.
pub(super) fn openat2_retrying(
    directory: impl AsFd,
    path: &Path,
    flags: OFlags,
    resolve: ResolveFlags,
) -> io::Result<OwnedFd> {
    let mut tries = 0;
    loop {
        match rustix::fs::openat2(&directory, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) if tries < RETRIES_MAX => tries += 1,
            result => return result.map_err(Into::into),
        }
    }
}

/// A path inside a tree: no root, no `.` or `..`, no empty parts. Empty means the root itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct InnerPath(PathBuf);

impl InnerPath {
    /// From the bytes of a tar entry, or the reason why not.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        use super::limits::{NAME_BYTES_MAX, PATH_BYTES_MAX, PATH_DEPTH_MAX};
        if bytes.len() > PATH_BYTES_MAX {
            return Err("its path is longer than 4096 bytes");
        }
        if bytes.contains(&0) {
            return Err("its path holds a NUL");
        }
        if bytes.first() == Some(&b'/') {
            return Err("its path is absolute");
        }
        let mut path = PathBuf::new();
        let mut depth = 0;
        for part in bytes.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".") {
            if part == b".." {
                return Err("its path climbs up with `..`");
            }
            if part.len() > NAME_BYTES_MAX {
                return Err("a name in its path is longer than 255 bytes");
            }
            path.push(OsStr::from_bytes(part));
            depth += 1;
        }
        if depth > PATH_DEPTH_MAX {
            return Err("its path is more than 128 directories deep");
        }
        Ok(Self(path))
    }

    pub(super) fn as_path(&self) -> &Path {
        &self.0
    }

    /// Its directory and its name; none for the root.
    pub(super) fn split(&self) -> Option<(Self, &OsStr)> {
        Some((Self(self.0.parent()?.to_owned()), self.0.file_name()?))
    }

    /// The same, for a path to be opened from the root.
    fn to_open(&self) -> &Path {
        if self.0.as_os_str().is_empty() { Path::new(".") } else { &self.0 }
    }
}

/// Why something can't be done in a tree.
#[derive(Debug)]
pub(super) enum TreeError {
    /// What was asked for reaches out of the tree or makes no sense.
    Refused(String),
    /// The disk or the kernel refused.
    Io(io::Error),
}

impl From<io::Error> for TreeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Errno> for TreeError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

type Result<T, E = TreeError> = std::result::Result<T, E>;

/// What is at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    Nothing,
    Directory,
    /// The mark that hides a file of the layers below; only this code makes devices in a layer.
    Whiteout,
    /// A file, link or anything else that is no directory.
    Other,
}

/// A tree under construction.
pub(super) struct Tree {
    root: OwnedFd,
    opaque_xattr: &'static str,
}

impl Tree {
    /// The tree in an existing directory.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let root = rustix::fs::open(path, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        let root_user = rustix::process::geteuid().is_root();
        Ok(Self { root, opaque_xattr: if root_user { OPAQUE_XATTR } else { OPAQUE_XATTR_USER } })
    }

    /// A directory that is there.
    pub(super) fn open_dir(&self, path: &InnerPath) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        openat2_retrying(&self.root, path.to_open(), DIRECTORY, resolve)
    }

    /// A directory, made with all its parents where it is missing.
    pub(super) fn ensure_dir(&self, path: &InnerPath) -> Result<OwnedFd> {
        match self.open_dir(path) {
            Ok(directory) => return Ok(directory),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(explain(error, path)),
        }
        let mut current = self.open_dir(&InnerPath(PathBuf::new()))?;
        let mut prefix = InnerPath(PathBuf::new());
        for part in &path.0 {
            prefix.0.push(part);
            current = match self.open_dir(&prefix) {
                Ok(directory) => directory,
                Err(error) if is_missing(&error) => match find(&current, part)?.0 {
                    Found::Nothing => self.make_dir(&current, part, false)?,
                    Found::Whiteout => {
                        rustix::fs::unlinkat(&current, part, AtFlags::empty())?;
                        self.make_dir(&current, part, true)?
                    }
                    Found::Directory | Found::Other => {
                        return Err(TreeError::Refused(format!(
                            "`{}` on the way to it is no directory",
                            prefix.0.display()
                        )));
                    }
                },
                Err(error) => return Err(explain(error, &prefix)),
            };
        }
        Ok(current)
    }

    /// Makes a directory with the mode of one that nothing is said of, whatever the process's umask is.
    pub(super) fn make_dir(&self, parent: &OwnedFd, name: &OsStr, opaque: bool) -> Result<OwnedFd> {
        let mode = Mode::from_raw_mode(0o755);
        rustix::fs::mkdirat(parent, name, mode)?;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let directory = openat2_retrying(parent, Path::new(name), DIRECTORY, resolve)?;
        rustix::fs::fchmod(&directory, mode)?;
        if opaque {
            self.make_opaque(&directory)?;
        }
        Ok(directory)
    }

    /// Makes a directory hide those of the same path in the layers below.
    pub(super) fn make_opaque(&self, directory: &OwnedFd) -> Result<()> {
        let flags = rustix::fs::XattrFlags::empty();
        Ok(rustix::fs::fsetxattr(directory, self.opaque_xattr, b"y", flags)?)
    }

    /// Makes a mark that hides a file of the layers below.
    pub(super) fn make_whiteout(&self, parent: &OwnedFd, name: &OsStr) -> Result<()> {
        let device = rustix::fs::makedev(0, 0);
        Ok(rustix::fs::mknodat(parent, name, FileType::CharacterDevice, Mode::empty(), device)?)
    }

    /// Removes whatever is at a place, directories with all that is in them; says what it was.
    pub(super) fn clear(&self, parent: &OwnedFd, name: &OsStr) -> Result<Found> {
        let found = find(parent, name)?.0;
        match found {
            Found::Nothing => {}
            Found::Directory => remove_dir(parent, name, 0)?,
            Found::Whiteout | Found::Other => rustix::fs::unlinkat(parent, name, AtFlags::empty())?,
        }
        Ok(found)
    }
}

/// What is at a place, links not followed.
pub(super) fn find(parent: &OwnedFd, name: &OsStr) -> io::Result<(Found, Option<Stat>)> {
    let stat = match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok((Found::Nothing, None)),
        Err(errno) => return Err(errno.into()),
    };
    let found = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Found::Directory,
        FileType::CharacterDevice if stat.st_rdev == 0 => Found::Whiteout,
        _ => Found::Other,
    };
    Ok((found, Some(stat)))
}

fn remove_dir(parent: &OwnedFd, name: &OsStr, depth: usize) -> Result<()> {
    // Directories made through links can nest deeper than a path may; nobody needs that.
    if depth > 2 * super::limits::PATH_DEPTH_MAX {
        return Err(TreeError::Refused("it replaces a directory that is too deep".into()));
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let directory = openat2_retrying(parent, Path::new(name), DIRECTORY, resolve)?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(&directory)? {
        let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    for name in names {
        match find(&directory, &name)?.0 {
            Found::Nothing => {}
            Found::Directory => remove_dir(&directory, &name, depth + 1)?,
            Found::Whiteout | Found::Other => rustix::fs::unlinkat(&directory, &name, AtFlags::empty())?,
        }
    }
    Ok(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR))
}

/// Tells what is the image's fault from what is the disk's.
fn explain(error: io::Error, path: &InnerPath) -> TreeError {
    match Errno::from_io_error(&error) {
        Some(Errno::XDEV) => TreeError::Refused(format!(
            "a symbolic link on the way to it (`{}`) leads out of the layer",
            path.0.display()
        )),
        Some(Errno::LOOP) => TreeError::Refused("symbolic links on the way to it go round in a circle".into()),
        Some(Errno::NAMETOOLONG) => TreeError::Refused("its path is too long".into()),
        _ => TreeError::Io(error),
    }
}
