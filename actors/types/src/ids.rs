//! Ids and versions that Polder makes itself.

use crate::names::{JobId, NameError, shape_error};
use alloc::string::String;
use core::{fmt, str::FromStr};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The one after this.
            ///
            /// # Panics
            /// Never in practice: the number would have to run out.
            #[must_use]
            pub const fn next(self) -> Self {
                match self.0.checked_add(1) {
                    Some(next) => Self(next),
                    None => panic!(concat!(stringify!($name), " ran out of numbers")),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number_id! {
    /// Counts the starts of one task. Only grows; the container with the highest epoch is the task's current one.
    Epoch(u64)
}
number_id! {
    /// Counts the owners of a shard, allocator or broker. A host refuses orders of an older one.
    OwnerEpoch(u64)
}
number_id! {
    /// Counts the specs of one job. A container knows which one it was started from.
    Generation(u64)
}
number_id! {
    /// Counts what the federation has asked of one region for one job.
    SliceVersion(u64)
}
number_id! {
    /// Counts the drains of one host.
    DrainVersion(u64)
}
number_id! {
    /// Counts the lives of a store: raised when a backup is restored.
    Incarnation(u64)
}
number_id! {
    /// A virtual shard of a region's jobs.
    ShardId(u16)
}

impl ShardId {
    /// The shard that owns a job, of `shards` in the region: FNV-1a over its name, so that any process agrees.
    #[must_use]
    pub fn of(job: &JobId, shards: u16) -> Self {
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        let parts = [job.account.as_str().as_bytes(), b"/", job.name.as_str().as_bytes()];
        for byte in parts.iter().flat_map(|part| part.iter()) {
            hash ^= u64::from(*byte);
            hash = hash.wrapping_mul(0x0000_0100_0000_01b3);
        }
        #[expect(clippy::cast_possible_truncation, reason = "the remainder of a u16 fits in one")]
        Self((hash % u64::from(shards.max(1))) as u16)
    }
}

/// One boot of a machine: the kernel's boot id.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootId(pub String);

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A host's data folder: a number drawn when the folder was made. A host's name belongs to one folder, because only its
/// records know which containers are there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HomeId(pub u64);

impl fmt::Display for HomeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for HomeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Slot *k* of a job: `account/job/k`. It keeps its identity over all its containers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The job.
    pub job: JobId,
    /// The slot.
    pub index: u32,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.job, self.index)
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for TaskId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let shape = || shape_error("task", text, "ACCOUNT/JOB/NUMBER");
        let (job, index) = text.rsplit_once('/').ok_or_else(shape)?;
        Ok(Self { job: job.parse()?, index: index.parse().map_err(|_| shape())? })
    }
}

/// One start of a task on one host: `account/job/k@epoch`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerId {
    /// The task.
    pub task: TaskId,
    /// Which start of it.
    pub epoch: Epoch,
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.task, self.epoch)
    }
}

impl fmt::Debug for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for ContainerId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let shape = || shape_error("container", text, "ACCOUNT/JOB/NUMBER@EPOCH");
        let (task, epoch) = text.rsplit_once('@').ok_or_else(shape)?;
        Ok(Self { task: task.parse()?, epoch: Epoch(epoch.parse().map_err(|_| shape())?) })
    }
}

macro_rules! text_serde {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(de::Error::custom)
            }
        }
    };
}

text_serde!(TaskId);
text_serde!(ContainerId);
