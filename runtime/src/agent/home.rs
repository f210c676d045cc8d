//! The agent's data directory, and where else it keeps things.
//!
//! ```text
//! host.json      whose directory this is
//! agent.lock     locked while an agent, or a purge, uses it
//! store/         the host's own store
//! images/        unpacked images, unless they are kept elsewhere
//! scratch/       what containers write
//! logs/          account/job/index/epoch.log
//! ```

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use polder_types::{HostId, RegionId};
use serde::{Deserialize, Serialize};

use super::AgentError;
use crate::shim::ShimRuntimeConfig;

const IDENTITY_FILE: &str = "host.json";
const LOCK_FILE: &str = "agent.lock";
/// Where the state of containers is kept: in memory, for it is of no use after a reboot.
const RUN_DIR: &str = "/run/polder";
/// Below this, each host has its own cgroup.
const CGROUP_PARENT: &str = "/polder";

/// Whose directory it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    /// Of this format.
    version: u32,
    pub(super) host: HostId,
    pub(super) region: RegionId,
    /// The shim program that the last agent used.
    pub(super) shim: PathBuf,
}

const IDENTITY_VERSION: u32 = 1;

/// A data directory that is ours for as long as this exists.
#[derive(Debug)]
pub(super) struct Home {
    dir: PathBuf,
    _lock: File,
}

impl Home {
    /// Takes the directory, which is made if it is missing.
    pub(super) fn take(dir: &Path) -> Result<Self, AgentError> {
        let using = || AgentError::io(format!("use the data directory {}", dir.display()));
        let dir = std::path::absolute(dir).map_err(using())?;
        fs::create_dir_all(&dir).map_err(using())?;
        let dir = dir.canonicalize().map_err(using())?;
        let mut lock = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(dir.join(LOCK_FILE))
            .map_err(using())?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // Only for the message.
                let _ = lock.read_to_string(&mut pid);
                let pid = if pid.trim().is_empty() { "unknown".to_owned() } else { pid.trim().to_owned() };
                return Err(AgentError::Locked { dir, pid });
            }
            Err(fs::TryLockError::Error(error)) => return Err(using()(error)),
        }
        lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id())).map_err(using())?;
        Ok(Self { dir, _lock: lock })
    }

    /// Whose directory it is; none if it is new.
    pub(super) fn identity(&self) -> Result<Option<Identity>, AgentError> {
        let path = self.dir.join(IDENTITY_FILE);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(AgentError::io(format!("read {}", path.display()))(error)),
        };
        let broken = |why: String| AgentError::Stored { key: path.display().to_string(), why };
        let identity: Identity = serde_json::from_slice(&text).map_err(|error| broken(error.to_string()))?;
        if identity.version > IDENTITY_VERSION {
            return Err(broken(format!("a newer version of Polder wrote it (format {})", identity.version)));
        }
        Ok(Some(identity))
    }

    /// Makes sure that the directory is this host's, and notes which shim it uses.
    pub(super) fn claim(&self, host: &HostId, region: &RegionId, shim: &Path) -> Result<Identity, AgentError> {
        let wanted =
            Identity { version: IDENTITY_VERSION, host: host.clone(), region: region.clone(), shim: shim.to_owned() };
        match self.identity()? {
            Some(found) if found == wanted => {}
            Some(found) if found.host != *host || found.region != *region => {
                return Err(AgentError::OtherHost {
                    dir: self.dir.clone(),
                    found: found.host.to_string(),
                    region: found.region.to_string(),
                    wanted: format!("{host} of region {region}"),
                });
            }
            _ => self.write_identity(&wanted)?,
        }
        Ok(wanted)
    }

    fn write_identity(&self, identity: &Identity) -> Result<(), AgentError> {
        let path = self.dir.join(IDENTITY_FILE);
        let draft = self.dir.join("host.json.new");
        let write = || -> io::Result<()> {
            let mut file = File::create(&draft)?;
            serde_json::to_writer_pretty(&mut file, identity)?;
            file.sync_all()?;
            fs::rename(&draft, &path)?;
            File::open(&self.dir)?.sync_all()
        };
        write().map_err(AgentError::io(format!("write {}", path.display())))
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn store_dir(&self) -> PathBuf {
        self.dir.join("store")
    }

    pub(super) fn image_dir(&self) -> PathBuf {
        self.dir.join("images")
    }

    pub(super) fn log_dir(&self) -> PathBuf {
        self.dir.join("logs")
    }

    /// The directory of the state of this host's containers, and the parent of their cgroups. Both carry a mark of the
    /// data directory: hosts of the same name on one machine, of two trials say, must never meet.
    pub(super) fn run_name(&self, host: &HostId) -> String {
        format!("{host}-{:08x}", mark(&self.dir))
    }

    pub(super) fn run_dir(&self, host: &HostId) -> PathBuf {
        Path::new(RUN_DIR).join(self.run_name(host))
    }

    pub(super) fn runtime_config(&self, host: &HostId) -> ShimRuntimeConfig {
        ShimRuntimeConfig {
            state_root: self.run_dir(host).join("containers"),
            scratch_root: self.dir.join("scratch"),
            cgroup_parent: Path::new(CGROUP_PARENT).join(self.run_name(host)),
        }
    }
}

/// FNV-1a over a path: the same in every version of this program.
fn mark(path: &Path) -> u32 {
    use std::os::unix::ffi::OsStrExt as _;
    let hash = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    path.as_os_str().as_bytes().iter().fold(0x811c_9dc5, hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_of_one_agent_and_one_host() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::take(dir.path()).unwrap();
        let error = Home::take(dir.path()).unwrap_err();
        assert!(
            matches!(&error, AgentError::Locked { pid, .. } if *pid == std::process::id().to_string()),
            "{error:?}"
        );

        let (host, region) = ("h1".parse().unwrap(), "west".parse().unwrap());
        assert_eq!(home.identity().unwrap(), None);
        home.claim(&host, &region, Path::new("/shim")).unwrap();
        home.claim(&host, &region, Path::new("/other")).unwrap();
        assert_eq!(home.identity().unwrap().unwrap().shim, Path::new("/other"));
        drop(home);
        let home = Home::take(dir.path()).unwrap();
        let error = home.claim(&"h2".parse().unwrap(), &region, Path::new("/shim")).unwrap_err();
        assert!(error.to_string().contains("belongs to host h1 of region west"), "{error}");
        let error = home.claim(&host, &"east".parse().unwrap(), Path::new("/shim")).unwrap_err();
        assert!(matches!(error, AgentError::OtherHost { .. }), "{error:?}");
    }
}
