//! How numbers of things are said.

use alloc::{format, string::String};
use core::fmt::Display;

/// `1 task`, `3 tasks`: for nouns whose plural ends in a plain `s`.
pub(crate) fn counted(number: impl Display + PartialEq + From<u8>, noun: &str) -> String {
    if number == 1.into() { format!("{number} {noun}") } else { format!("{number} {noun}s") }
}
