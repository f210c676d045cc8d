//! Where a container's files are.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use polder_shim::{EXIT_FILE, LAUNCH_FILE, LOCK_FILE, ROOTFS_DIR, SHIM_FILE};
use polder_types::ContainerId;
use rustix::fs::{FlockOperation, flock};

use super::limits::NAME_BYTES_MAX;

/// Begins the name of a directory that is being removed.
const REMOVING_PREFIX: &str = ".removing-";

/// A container's id as one word that can name a file, a cgroup and a libcontainer container. Two ids never have the
/// same: names have no `.` in them, and a number at the end is the epoch.
#[must_use]
pub fn container_name(id: &ContainerId) -> String {
    let full = format!("{}.{}", id.task, id.epoch).replace('/', ".");
    if full.len() <= NAME_BYTES_MAX {
        return full;
    }
    // A hash in place of the middle; the end tells containers of one job apart for people.
    let hash = fnv128(full.as_bytes());
    let half = (NAME_BYTES_MAX - 36) / 2;
    format!("{}..{hash:032x}..{}", &full[..half], &full[full.len() - half..])
}

fn fnv128(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, &byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
}

/// The directories of one container: its state, and what it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StateDir {
    pub(crate) state: PathBuf,
    pub(crate) scratch: PathBuf,
}

impl StateDir {
    pub(crate) fn new(state_root: &Path, scratch_root: &Path, name: &str) -> Self {
        Self { state: state_root.join(name), scratch: scratch_root.join(name) }
    }

    pub(crate) fn launch(&self) -> PathBuf {
        self.state.join(LAUNCH_FILE)
    }

    pub(crate) fn shim(&self) -> PathBuf {
        self.state.join(SHIM_FILE)
    }

    pub(crate) fn exit(&self) -> PathBuf {
        self.state.join(EXIT_FILE)
    }

    pub(crate) fn hostname(&self) -> PathBuf {
        self.state.join("hostname")
    }

    pub(crate) fn upper(&self) -> PathBuf {
        self.scratch.join("upper")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.scratch.join("work")
    }

    /// Makes everything that a shim expects to find.
    pub(crate) fn make(&self) -> io::Result<()> {
        // The first one says whether there is such a container.
        std::fs::create_dir(&self.state)?;
        std::fs::create_dir(self.state.join(ROOTFS_DIR))?;
        for dir in [self.upper(), self.work()] {
            std::fs::create_dir_all(dir)?;
        }
        Ok(())
    }

    /// Takes the lock that tells whether a shim lives; the shim gets it as an open file and so holds it until its end.
    /// None when one holds it.
    pub(crate) fn lock(&self) -> io::Result<Option<File>> {
        let file = File::options().create(true).truncate(false).write(true).open(self.state.join(LOCK_FILE))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes both. The name goes first, at once: what is seen after a crash is a whole container or none.
    pub(crate) fn remove(&self) -> io::Result<()> {
        if let (Some(parent), Some(name)) = (self.state.parent(), self.state.file_name()) {
            remove_all(&self.scratch)?;
            let mut hidden = std::ffi::OsString::from(REMOVING_PREFIX);
            hidden.push(name);
            let hidden = parent.join(hidden);
            remove_all(&hidden)?;
            match std::fs::rename(&self.state, &hidden) {
                Ok(()) => remove_all(&hidden)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Whether a directory is what a crash left of a removal.
pub(crate) fn is_being_removed(name: &str) -> bool {
    name.starts_with(REMOVING_PREFIX)
}

/// Removes a directory; one that isn't there is as good.
pub(crate) fn remove_all(dir: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io::Error::new(error.kind(), format!("{}: {error}", dir.display())))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words() {
        let id: ContainerId = "shop/checkout/web/3@7".parse().unwrap();
        assert_eq!(container_name(&id), "shop.checkout.web.3.7");
    }

    #[test]
    fn long_names_are_cut_and_still_differ() {
        let account = ["a".repeat(63), "b".repeat(63), "c".repeat(63)].join("/");
        let id = |end: &str| format!("{account}/{}/{end}", "j".repeat(63)).parse::<ContainerId>().unwrap();
        let (one, other) = (container_name(&id("1@1")), container_name(&id("1@2")));
        assert!(one.len() <= NAME_BYTES_MAX, "{}", one.len());
        assert!(one.ends_with(".1.1"));
        assert_ne!(one, other);
    }
}
