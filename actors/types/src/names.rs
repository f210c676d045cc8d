//! Names that people choose: accounts, jobs, hosts, places.

use alloc::{format, string::String, sync::Arc};
use core::{fmt, str::FromStr};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Longest single name, in bytes.
pub const NAME_BYTES_MAX: usize = 63;
/// Longest account path, in bytes.
pub const ACCOUNT_BYTES_MAX: usize = 200;

/// Why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text is empty.
    #[error("{} can't be empty", a(.what))]
    Empty {
        /// What the text was to name.
        what: &'static str,
    },
    /// The text is too long.
    #[error("`{text}` is too long for {}: {bytes} bytes, {max} at most", a(.what))]
    TooLong {
        /// What the text was to name.
        what: &'static str,
        /// The text, cut.
        text: String,
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The text has a character that names can't have.
    #[error(
        "`{text}` is not {}: `{bad}` is not allowed (lower-case letters, digits and `-`, begun by a letter or digit)",
        a(.what)
    )]
    BadCharacter {
        /// What the text was to name.
        what: &'static str,
        /// The text, cut.
        text: String,
        /// The first character that is not allowed.
        bad: char,
    },
    /// A job or task id without its parts.
    #[error("`{text}` is not {}: expected {expected}", a(.what))]
    Shape {
        /// What the text was to name.
        what: &'static str,
        /// The text, cut.
        text: String,
        /// What it should have looked like.
        expected: &'static str,
    },
}

fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}

fn check_segment(what: &'static str, text: &str, max: usize, extra: &[char]) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty { what });
    }
    if text.len() > max {
        return Err(NameError::TooLong { what, text: cut(text), bytes: text.len(), max });
    }
    let allowed = |(at, c): (usize, char)| {
        c.is_ascii_lowercase() || c.is_ascii_digit() || (at > 0 && (c == '-' || extra.contains(&c)))
    };
    match text.chars().enumerate().find(|&pair| !allowed(pair)) {
        Some((_, bad)) => Err(NameError::BadCharacter { what, text: cut(text), bad }),
        None => Ok(()),
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Parses a text.
            ///
            /// # Errors
            /// When the text is empty, too long, or has a character that is not allowed.
            pub fn new(text: &str) -> Result<Self, NameError> {
                let check: fn(&'static str, &str) -> Result<(), NameError> = $check;
                check($what, text)?;
                Ok(Self(Arc::from(text)))
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::new(&text).map_err(de::Error::custom)
            }
        }
    };
}

fn plain(what: &'static str, text: &str) -> Result<(), NameError> {
    check_segment(what, text, NAME_BYTES_MAX, &[])
}

fn dotted(what: &'static str, text: &str) -> Result<(), NameError> {
    check_segment(what, text, NAME_BYTES_MAX, &['.', '_'])
}

fn label(what: &'static str, text: &str) -> Result<(), NameError> {
    check_segment(what, text, NAME_BYTES_MAX, &['.', '_', '/'])
}

fn path(what: &'static str, text: &str) -> Result<(), NameError> {
    if text.len() > ACCOUNT_BYTES_MAX {
        return Err(NameError::TooLong { what, text: cut(text), bytes: text.len(), max: ACCOUNT_BYTES_MAX });
    }
    text.split('/').try_for_each(|segment| check_segment(what, segment, NAME_BYTES_MAX, &[]))
}

text_id! {
    /// A name within something else: a job within its account, a port within its job.
    Name, "name", plain
}
text_id! {
    /// A tenant: owns jobs and quota. Accounts form a tree: `shop/checkout`.
    AccountId, "account", path
}
text_id! {
    /// A machine.
    HostId, "host name", dotted
}
text_id! {
    /// A rack: hosts that share a switch.
    RackId, "rack name", dotted
}
text_id! {
    /// Hosts that lose power together.
    PowerDomainId, "power domain name", dotted
}
text_id! {
    /// A building.
    DatacenterId, "datacenter name", dotted
}
text_id! {
    /// A set of datacenters under one control plane.
    RegionId, "region name", plain
}
text_id! {
    /// The key of a label on a host.
    Label, "label", label
}

/// A job: `account/name`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    /// Who owns it.
    pub account: AccountId,
    /// Its name within the account.
    pub name: Name,
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.account, self.name)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for JobId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let Some((account, name)) = text.rsplit_once('/') else {
            return Err(NameError::Shape { what: "job", text: cut(text), expected: "ACCOUNT/NAME" });
        };
        Ok(Self { account: AccountId::new(account)?, name: Name::new(name)? })
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

pub(crate) fn shape_error(what: &'static str, text: &str, expected: &'static str) -> NameError {
    NameError::Shape { what, text: cut(text), expected }
}

/// `a job`, `an account`.
fn a(what: &str) -> String {
    let article = if what.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {what}")
}
