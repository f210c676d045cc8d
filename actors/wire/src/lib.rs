//! What leaves a process as bytes: the link between a host and its region, and the values that are stored in bulk.
//!
//! Both are protobuf, because versions N and N-1 must understand each other. Conversions are total: bytes from
//! outside become a value or an error that names the field, never a panic and never a guess.
//!
//! A link message is a [`ToRegion`] or a [`ToHost`]. [`pack`] puts any number of them into frames that fit the
//! limits, [`unpack`] takes a frame apart again.
//!
//! A stored value begins with its version: see [`Stored`].
#![deny(missing_docs)]

mod convert;
mod error;
mod frame;
mod limits;
mod link;
mod proto;
mod stored;

pub use error::WireError;
pub use frame::{LinkMessage, Unpacked, pack, unpack};
pub use limits::{
    CONTAINERS_PER_REPORT_MAX, FRAME_BYTES_MAX, FRAME_MESSAGES_MAX, LOG_CHUNK_BYTES_MAX, NODES_MAX, SPEC_BYTES_MAX,
    TASKS_PER_VALUE_MAX,
};
pub use link::{
    Hello, LINK_PATH, LogCancel, LogChunk, LogRequest, PROTOCOL_OLDEST, PROTOCOL_VERSION, Reject, ToHost, ToRegion,
    Welcome,
};
pub use stored::{STORED_BYTES_MAX, Stored};
