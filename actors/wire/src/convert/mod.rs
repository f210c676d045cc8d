//! Between Rust types and protobuf, both ways.

mod common;
mod host;
mod job;
mod link;
mod order;
mod quota;
mod report;

use crate::{
    error::{WireError, within},
    limits::SPEC_BYTES_MAX,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt, str::FromStr};

/// A type with a protobuf form.
pub(crate) trait Wire: Sized {
    /// Its form.
    type Proto;

    /// To protobuf. Fails only when something is larger than may be sent.
    fn to_proto(&self) -> Result<Self::Proto, WireError>;

    /// From protobuf.
    fn from_proto(proto: Self::Proto) -> Result<Self, WireError>;
}

/// All of a list, within its limit.
pub(crate) fn list_to_proto<T: Wire>(what: &'static str, list: &[T], max: usize) -> Result<Vec<T::Proto>, WireError> {
    within(what, list.len(), max)?;
    list.iter().map(T::to_proto).collect()
}

/// All of a list, within its limit.
pub(crate) fn list_from_proto<T: Wire>(
    what: &'static str,
    list: Vec<T::Proto>,
    max: usize,
) -> Result<Vec<T>, WireError> {
    within(what, list.len(), max)?;
    list.into_iter().map(T::from_proto).collect()
}

/// A part that can't be left out.
pub(crate) fn required<T: Wire>(field: &'static str, proto: Option<T::Proto>) -> Result<T, WireError> {
    T::from_proto(proto.ok_or(WireError::Missing { field })?)
}

/// A part that may be left out.
pub(crate) fn optional<T: Wire>(proto: Option<T::Proto>) -> Result<Option<T>, WireError> {
    proto.map(T::from_proto).transpose()
}

/// A part that may be left out.
pub(crate) fn optional_to_proto<T: Wire>(value: Option<&T>) -> Result<Option<T::Proto>, WireError> {
    value.map(T::to_proto).transpose()
}

/// A value that is carried as JSON.
pub(crate) fn to_json<T: Serialize>(field: &'static str, value: &T) -> Result<Vec<u8>, WireError> {
    let json = serde_json::to_vec(value).map_err(|error| WireError::bad(field, error))?;
    within(field, json.len(), SPEC_BYTES_MAX)?;
    Ok(json)
}

/// A value that is carried as JSON.
pub(crate) fn from_json<T: DeserializeOwned>(field: &'static str, json: &[u8]) -> Result<T, WireError> {
    within(field, json.len(), SPEC_BYTES_MAX)?;
    serde_json::from_slice(json).map_err(|error| WireError::bad(field, error))
}

/// One of a fixed set. Zero and numbers that this version does not know are errors.
pub(crate) fn one_of<P: TryFrom<i32>, T>(
    field: &'static str,
    number: i32,
    known: impl FnOnce(P) -> Option<T>,
) -> Result<T, WireError> {
    let bad = || WireError::bad(field, format_args!("{number} stands for nothing that this version knows"));
    known(P::try_from(number).map_err(|_| bad())?).ok_or_else(bad)
}

/// A name or another value that is parsed from text.
pub(crate) fn parsed<T: FromStr<Err: fmt::Display>>(field: &'static str, text: &str) -> Result<T, WireError> {
    text.parse().map_err(|error: T::Err| WireError::bad(field, error))
}

/// A number that is smaller than its protobuf type.
pub(crate) fn small<T: TryFrom<u32>>(field: &'static str, number: u32) -> Result<T, WireError> {
    T::try_from(number).map_err(|_| WireError::bad(field, format_args!("{number} is out of range")))
}
