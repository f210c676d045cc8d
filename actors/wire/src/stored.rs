//! Values as a store holds them: the version of the format as a varint, then the value.
//!
//! A program reads what its own version and older ones wrote, and refuses what a newer one wrote: it could only guess
//! what that means. When a format changes in a way that protobuf does not carry, its version is raised, and the older
//! one is read and converted here for as long as an upgrade from it is allowed.

use crate::{
    convert::{Wire, from_json, to_json},
    error::{WireError, within},
};
use polder_core::{broker, host, intent_router, job_shard, quota_ledger};
use polder_types::Allotment;
use prost::{Message, encoding};

/// Longest stored value, in bytes: what etcd takes in one transaction, with room for the rest of it.
pub const STORED_BYTES_MAX: usize = 1_400_000;

/// A value that a store can hold.
pub trait Stored: Sized {
    /// What it is, for people.
    const WHAT: &'static str;
    /// The newest version of its format: what is written.
    const VERSION: u32;

    /// The bytes to store.
    ///
    /// # Errors
    /// When it is too large.
    fn to_value(&self) -> Result<Vec<u8>, WireError>;

    /// The value that was stored.
    ///
    /// # Errors
    /// When a newer version wrote it, or the bytes are damaged.
    fn from_value(value: &[u8]) -> Result<Self, WireError>;
}

fn begin(version: u32) -> Vec<u8> {
    let mut value = Vec::new();
    encoding::encode_varint(u64::from(version), &mut value);
    value
}

/// Checks the version and gives what follows it.
fn open<T: Stored>(mut value: &[u8]) -> Result<&[u8], WireError> {
    within(T::WHAT, value.len(), STORED_BYTES_MAX)?;
    let malformed = |source| WireError::Malformed { what: T::WHAT, source };
    let found = encoding::decode_varint(&mut value).map_err(malformed)?;
    let found = u32::try_from(found).unwrap_or(u32::MAX);
    if found > T::VERSION {
        return Err(WireError::NewerVersion { what: T::WHAT, found, known: T::VERSION });
    }
    if found == 0 {
        return Err(WireError::bad("version", "versions begin with 1"));
    }
    Ok(value)
}

macro_rules! protobuf {
    ($($record:ty, $what:literal;)*) => {$(
        impl Stored for $record {
            const WHAT: &'static str = $what;
            const VERSION: u32 = 1;

            fn to_value(&self) -> Result<Vec<u8>, WireError> {
                let mut value = begin(Self::VERSION);
                value.extend_from_slice(&self.to_proto()?.encode_to_vec());
                within(Self::WHAT, value.len(), STORED_BYTES_MAX)?;
                Ok(value)
            }

            fn from_value(value: &[u8]) -> Result<Self, WireError> {
                let proto = <Self as Wire>::Proto::decode(open::<Self>(value)?)
                    .map_err(|source| WireError::Malformed { what: Self::WHAT, source })?;
                Self::from_proto(proto)
            }
        }
    )*};
}

protobuf! {
    job_shard::JobRecord, "a stored job";
    job_shard::TaskChunk, "a stored chunk of tasks";
    broker::HostRecord, "a stored host";
    Allotment, "a stored allotment";
}

/// What is not stored in bulk is JSON behind its version.
macro_rules! json {
    ($($record:ty, $what:literal;)*) => {$(
        impl Stored for $record {
            const WHAT: &'static str = $what;
            const VERSION: u32 = 1;

            fn to_value(&self) -> Result<Vec<u8>, WireError> {
                let mut value = begin(Self::VERSION);
                value.extend_from_slice(&to_json(Self::WHAT, self)?);
                Ok(value)
            }

            fn from_value(value: &[u8]) -> Result<Self, WireError> {
                from_json(Self::WHAT, open::<Self>(value)?)
            }
        }
    )*};
}

json! {
    intent_router::IntentRecord, "a stored intent";
    quota_ledger::QuotaRecord, "a stored quota";
    host::ContainerRecord, "a stored container";
    host::OwnerRecord, "a stored owner of a shard";
    host::TaskFloor, "a stored epoch of a task";
    host::DrainRecord, "a stored drain";
}
