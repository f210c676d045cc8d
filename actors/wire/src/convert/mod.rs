//! Between Rust types and protobuf, both ways.

mod common;
mod link;
mod order;
mod report;

use crate::error::WireError;
use std::fmt;
use std::str::FromStr;

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
    crate::error::within(what, list.len(), max)?;
    list.iter().map(T::to_proto).collect()
}

/// All of a list, within its limit.
pub(crate) fn list_from_proto<T: Wire>(
    what: &'static str,
    list: Vec<T::Proto>,
    max: usize,
) -> Result<Vec<T>, WireError> {
    crate::error::within(what, list.len(), max)?;
    list.into_iter().map(T::from_proto).collect()
}

/// A part that can't be left out.
pub(crate) fn required<T: Wire>(field: &'static str, proto: Option<T::Proto>) -> Result<T, WireError> {
    T::from_proto(proto.ok_or(WireError::Missing { field })?)
}

/// A name or another value that is parsed from text.
pub(crate) fn parsed<T: FromStr<Err: fmt::Display>>(field: &'static str, text: &str) -> Result<T, WireError> {
    text.parse().map_err(|error: T::Err| WireError::bad(field, error))
}

/// A number that is smaller than its protobuf type.
pub(crate) fn small<T: TryFrom<u32>>(field: &'static str, number: u32) -> Result<T, WireError> {
    T::try_from(number).map_err(|_| WireError::bad(field, format_args!("{number} is out of range")))
}
