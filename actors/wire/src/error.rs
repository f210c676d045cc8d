//! What can be wrong with bytes from outside.

/// Why a value can't be written or read.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// Something is larger than its limit.
    #[error("{what} is too large: {found}, {max} at most")]
    TooLarge {
        /// What.
        what: &'static str,
        /// How large it is.
        found: usize,
        /// The limit.
        max: usize,
    },
    /// The bytes are not protobuf of this kind.
    #[error("these bytes are not {what}")]
    Malformed {
        /// What they should have been.
        what: &'static str,
        /// Where it went wrong.
        source: prost::DecodeError,
    },
    /// A field that can't be left out is not there.
    #[error("`{field}` is missing")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// A field has a value that it can't have.
    #[error("`{field}` is not valid: {reason}")]
    Bad {
        /// The field.
        field: &'static str,
        /// Why.
        reason: String,
    },
    /// A choice that this version does not know, or none at all.
    #[error("`{field}` holds nothing that this version knows")]
    UnknownKind {
        /// The choice.
        field: &'static str,
    },
    /// A stored value was written by a newer version.
    #[error(
        "{what} has version {found}, but this program knows versions up to {known}: run the version that wrote it, or a newer one"
    )]
    NewerVersion {
        /// What was stored.
        what: &'static str,
        /// Its version.
        found: u32,
        /// The newest version that is known.
        known: u32,
    },
}

impl WireError {
    pub(crate) fn bad(field: &'static str, reason: impl ToString) -> Self {
        Self::Bad { field, reason: reason.to_string() }
    }
}

/// Refuses what is above its limit.
pub(crate) const fn within(what: &'static str, found: usize, max: usize) -> Result<(), WireError> {
    if found > max { Err(WireError::TooLarge { what, found, max }) } else { Ok(()) }
}
