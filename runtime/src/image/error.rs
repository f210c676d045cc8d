//! What can be wrong with an image or with the place it is kept.

use super::{digest::Digest, reference::ReferenceError};
use std::{io, path::PathBuf};

/// Why an image can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The reference is wrong.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// There is no layout where the reference points.
    #[error("no OCI image layout can be read at {}; check the path, and that it exists on this host", path.display())]
    NoLayout {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// What is there is not what the specification says.
    #[error("the image layout at {} is broken: {problem}; copy or pack the image again", path.display())]
    Layout {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// No image, or more than one, is what was asked for.
    #[error("{problem} in the image layout at {}; it holds: {}", path.display(), list(holds))]
    Selection {
        /// Where.
        path: PathBuf,
        /// What was looked for.
        problem: String,
        /// The names that are there.
        holds: Vec<String>,
    },
    /// There is no version of the image for this machine.
    #[error("the image has no version for {wanted}; it has: {}; build or copy it for that platform", list(has))]
    Platform {
        /// This machine's.
        wanted: String,
        /// The image's.
        has: Vec<String>,
    },
    /// Something valid that Polder doesn't do.
    #[error("{0}")]
    Unsupported(String),
    /// A blob isn't there.
    #[error("blob {digest} is missing from the image layout at {}; copy or pack the image again", path.display())]
    NoBlob {
        /// The blob.
        digest: Digest,
        /// The layout.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Content is not what its digest says.
    #[error("{what} should have digest {expected} but has {actual}; the image is damaged or was tampered with")]
    WrongDigest {
        /// What was read.
        what: String,
        /// What was promised.
        expected: Digest,
        /// What was found.
        actual: Digest,
    },
    /// Content is not as long as was promised.
    #[error("{what} should be {expected} bytes long but is {actual}; the image is damaged or was tampered with")]
    WrongSize {
        /// What was read.
        what: String,
        /// What was promised.
        expected: u64,
        /// What was found.
        actual: u64,
    },
    /// Something is larger than allowed.
    #[error("{what} is {actual}, more than the limit of {limit}")]
    Limit {
        /// What.
        what: String,
        /// How much it is.
        actual: u64,
        /// How much it may be.
        limit: u64,
    },
    /// A layer can't be unpacked.
    #[error("layer {layer} can't be unpacked")]
    Layer {
        /// Its digest after decompression.
        layer: Digest,
        /// Why.
        #[source]
        source: UnpackError,
    },
    /// A user or group of an image can't be found.
    #[error("{0}")]
    User(String),
    /// This machine's disk, not the image, is the trouble.
    #[error("could not {doing}")]
    Io {
        /// What was being done.
        doing: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

/// Why a layer can't be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The layer's stream can't be read or is no tar stream.
    #[error("its content can't be read")]
    Stream(#[source] io::Error),
    /// An entry would reach out of the layer, or means nothing.
    #[error("entry `{path}` is refused: {problem}")]
    Refused {
        /// The entry, with odd bytes escaped.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The layer is larger than allowed.
    #[error("it has more than {limit} {what}")]
    Limit {
        /// What.
        what: &'static str,
        /// How many there may be.
        limit: u64,
    },
    /// An entry can't be written to this machine's disk.
    #[error("entry `{path}` can't be written; check the disk that holds the image store")]
    Write {
        /// The entry, with odd bytes escaped.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl ImageError {
    pub(super) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }

    /// Whether trying again, without anybody changing the image, may help: the disk was full or busy.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Io { .. } | Self::Layer { source: UnpackError::Write { .. }, .. } | Self::NoLayout { .. })
    }
}

fn list(names: &[String]) -> String {
    const SHOWN_MAX: usize = 20;
    match names.len() {
        0 => "nothing".into(),
        count if count > SHOWN_MAX => {
            let shown: Vec<_> = names.iter().take(SHOWN_MAX).map(String::as_str).collect();
            format!("{} and {} more", shown.join(", "), count - SHOWN_MAX)
        }
        _ => names.join(", "),
    }
}
