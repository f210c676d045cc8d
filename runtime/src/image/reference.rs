//! References to images, as people write them in a job.

use super::digest::{Digest, DigestError};
use std::{fmt, path::PathBuf, str::FromStr};

const TAG_LEN_MAX: usize = 128;

/// Which of a layout's images is meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Selector {
    /// The only one there is.
    Only,
    /// The one of this name.
    Tag(String),
    /// The one whose manifest has this digest.
    Digest(Digest),
}

/// Where an image is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ImageReference {
    /// In a directory that holds an OCI image layout.
    Layout {
        /// The directory.
        path: PathBuf,
        /// Which image of it.
        selector: Selector,
    },
    /// In a tar file that holds an OCI image layout.
    Archive {
        /// The file.
        path: PathBuf,
        /// Which image of it.
        selector: Selector,
    },
}

impl ImageReference {
    /// The directory or file that the image is in.
    #[must_use]
    pub const fn path(&self) -> &PathBuf {
        match self {
            Self::Layout { path, .. } | Self::Archive { path, .. } => path,
        }
    }

    /// Which image is meant.
    #[must_use]
    pub const fn selector(&self) -> &Selector {
        match self {
            Self::Layout { selector, .. } | Self::Archive { selector, .. } => selector,
        }
    }
}

/// A text that is no reference to an image Polder can use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// It names an image in a registry.
    #[error(
        "`{0}` names an image in a registry, and pulling from registries is not built yet; put the image into a \
         directory or file on every host (for example `skopeo copy docker://{0} oci:/srv/images/NAME:TAG`) and \
         write `oci:/srv/images/NAME:TAG`"
    )]
    Registry(String),
    /// The scheme is unknown.
    #[error(
        "image `{0}` begins with a scheme that Polder does not know; write `oci:PATH[:TAG]` or `oci-archive:PATH[:TAG]`"
    )]
    Scheme(String),
    /// There is no path.
    #[error("image `{0}` names no path; write `oci:PATH[:TAG]` or `oci-archive:PATH[:TAG]`")]
    NoPath(String),
    /// The path depends on where a program runs.
    #[error(
        "image `{0}` has a relative path; write the whole path, because each host looks for the image from a \
         directory of its own"
    )]
    Relative(String),
    /// The path can't be one.
    #[error("the path in image `{0}` holds a NUL or another control character")]
    Path(String),
    /// The tag can't be one.
    #[error(
        "`{tag}` in image `{image}` is no tag; a tag is 1 to 128 letters, digits, `.`, `_` and `-`, and begins with \
         none of `.` and `-`"
    )]
    Tag {
        /// The whole reference.
        image: String,
        /// The part that should be a tag.
        tag: String,
    },
    /// The digest can't be one.
    #[error("the digest of image `{image}` is wrong")]
    Digest {
        /// The whole reference.
        image: String,
        /// Why.
        #[source]
        source: DigestError,
    },
}

impl FromStr for ImageReference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let shown = || text.chars().take(200).collect::<String>();
        let (archive, rest) = match text.split_once(':') {
            Some(("oci", rest)) => (false, rest),
            Some(("oci-archive", rest)) => (true, rest),
            Some(("docker", rest)) => {
                return Err(ReferenceError::Registry(rest.trim_start_matches('/').chars().take(200).collect()));
            }
            Some((
                "docker-archive" | "docker-daemon" | "dir" | "containers-storage" | "http" | "https" | "file",
                _,
            )) => {
                return Err(ReferenceError::Scheme(shown()));
            }
            _ if text.is_empty() || text.starts_with(['/', '.']) => return Err(ReferenceError::Scheme(shown())),
            _ => return Err(ReferenceError::Registry(shown())),
        };
        let (rest, digest) = match rest.rsplit_once('@') {
            Some((rest, digest)) if !digest.contains('/') => {
                let digest = digest.parse().map_err(|source| ReferenceError::Digest { image: shown(), source })?;
                (rest, Some(digest))
            }
            _ => (rest, None),
        };
        // A colon before the last slash belongs to the path.
        let name_at = rest.rfind('/').map_or(0, |slash| slash + 1);
        let (directory, name) = rest.split_at(name_at);
        let (name, tag) = match name.split_once(':') {
            Some((name, tag)) => (name, Some(tag)),
            None => (name, None),
        };
        let path = format!("{directory}{name}");
        if path.is_empty() {
            return Err(ReferenceError::NoPath(shown()));
        }
        if path.chars().any(char::is_control) {
            return Err(ReferenceError::Path(shown().escape_debug().to_string()));
        }
        if !path.starts_with('/') {
            return Err(ReferenceError::Relative(shown()));
        }
        if let Some(tag) = tag {
            parse_tag(tag).map_err(|tag| ReferenceError::Tag { image: shown(), tag })?;
        }
        let selector = match (digest, tag) {
            // As everywhere, a digest says exactly what is meant, and a tag beside it is a remark.
            (Some(digest), _) => Selector::Digest(digest),
            (None, Some(tag)) => Selector::Tag(tag.to_owned()),
            (None, None) => Selector::Only,
        };
        let path = PathBuf::from(path);
        Ok(if archive { Self::Archive { path, selector } } else { Self::Layout { path, selector } })
    }
}

/// Whether a text may be a tag; gives it back, shortened, if not.
pub(super) fn parse_tag(tag: &str) -> Result<(), String> {
    let first = tag.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let rest = tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
    if first && rest && tag.len() <= TAG_LEN_MAX { Ok(()) } else { Err(tag.chars().take(TAG_LEN_MAX + 16).collect()) }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, path, selector) = match self {
            Self::Layout { path, selector } => ("oci", path, selector),
            Self::Archive { path, selector } => ("oci-archive", path, selector),
        };
        write!(f, "{scheme}:{}", path.display())?;
        match selector {
            Selector::Only => Ok(()),
            Selector::Tag(tag) => write!(f, ":{tag}"),
            Selector::Digest(digest) => write!(f, "@{digest}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_parse_and_print() {
        for (text, path, selector) in [
            ("oci:/srv/demo", "/srv/demo", Selector::Only),
            ("oci:/srv/demo:v1.2", "/srv/demo", Selector::Tag("v1.2".into())),
            ("oci-archive:/srv/a:b/demo.tar:latest", "/srv/a:b/demo.tar", Selector::Tag("latest".into())),
            ("oci:/srv/me@home/demo", "/srv/me@home/demo", Selector::Only),
        ] {
            let reference: ImageReference = text.parse().unwrap();
            assert_eq!(reference.path(), &PathBuf::from(path));
            assert_eq!(reference.selector(), &selector);
            assert_eq!(reference.to_string(), text);
        }
        let digest = Digest::of(b"x");
        let reference: ImageReference = format!("oci:/a:tag@{digest}").parse().unwrap();
        assert_eq!(reference.selector(), &Selector::Digest(digest));
    }

    #[test]
    fn what_is_no_reference_says_why() {
        use ReferenceError as E;
        let error = |text: &str| text.parse::<ImageReference>().unwrap_err();
        for registry in ["nginx", "nginx:1.29", "ghcr.io/a/b@sha256:00", "docker://nginx", "localhost:5000/x"] {
            let error = error(registry);
            assert!(matches!(error, E::Registry(_)), "{registry}: {error:?}");
            assert!(error.to_string().contains("not built yet"));
        }
        assert!(matches!(error(""), E::Scheme(_)));
        assert!(matches!(error("/srv/demo"), E::Scheme(_)));
        assert!(matches!(error("oci:"), E::NoPath(_)));
        assert!(matches!(error("oci::tag"), E::NoPath(_)));
        assert!(matches!(error("oci:demo:v1"), E::Relative(_)));
        assert!(matches!(error("oci:/a\0b"), E::Path(_)));
        assert!(matches!(error("oci:/a:"), E::Tag { .. }));
        assert!(matches!(error("oci:/a:b:c"), E::Tag { .. }));
        assert!(matches!(error("oci:/a@sha256:12"), E::Digest { .. }));
        assert!(matches!(error("oci:/a@sha512:12"), E::Digest { .. }));
    }
}
