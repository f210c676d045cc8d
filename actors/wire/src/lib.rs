//! What leaves a process as bytes: the link between a host and its region, and the values that are stored in bulk.
//!
//! Both are protobuf, because versions N and N-1 must understand each other. Conversions are total: bytes from
//! outside become a value or an error that names the field, never a panic and never a guess.
//!
//! A link message is a [`ToRegion`] or a [`ToHost`]. [`pack`] puts any number of them into frames that fit the
//! limits, [`unpack`] takes a frame apart again.
//!
