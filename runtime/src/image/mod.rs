//! Images: from an OCI layout or archive to overlayfs layers on this machine's disk, and back.
//!
//! ```text
//! oci:/srv/demo:v1 ── reference ── layout ── select ──> manifest, configuration (verified)
//!                                    │
//!                                    └ blob ── unpack ──> layers/<diff id>   (verified, atomic, shared)
//!                                               │
//!                                       tar_reader, tree: nothing a layer says reaches out of its directory
//! ```
//!
//! [`ImageStore::prepare`] is the entry: it gives the lower directories of an overlay mount, the top one first, and
//! how the image wants to be run. [`resolve_user`] finds a user in them, [`ImageStore::collect`] removes what nobody
//! uses, and [`pack`] makes an image of files. What is read is a stranger's: everything has a limit ([`limits`]),
//! every digest and size is verified, and no path is resolved but by the kernel, beneath the directory being filled.
//! This never mounts anything, and never executes or interprets what is in an image.

mod collect;
mod config;
mod digest;
mod error;
mod layout;
pub mod limits;
mod lock;
mod merged;
pub mod pack;
mod reference;
mod select;
mod store;
mod tar_reader;
mod tree;
mod unpack;
mod user;

pub use collect::Collected;
pub use config::{ExposedPort, ImageConfig, PortProtocol};
pub use digest::{Digest, DigestError};
pub use error::{ImageError, UnpackError};
pub use limits::LayerLimits;
pub use reference::{ImageReference, ReferenceError, Selector};
pub use store::{ImageStore, PreparedImage};
pub use user::{ResolvedUser, resolve_user};
