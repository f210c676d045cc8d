//! What the host agent and a container's shim say to each other.
//!
//! A shim is a small process that creates one container, starts it, waits for it and writes down how it ended. The
//! agent starts it and may come and go; the two meet in the container's *state directory*:
//!
//! ```text
//! launch.json    agent -> shim   what to run: the OCI spec, the image's layers, logs, the user      (Launch)
//! shim.lock      held by the shim as its standard output for as long as it lives
//! shim.json      shim -> agent   the processes, written before the container may start              (ShimRecord)
//! exit.json      shim -> agent   how it ended; its presence means that it has                       (ExitRecord)
//! shim.log       what the shim had to say (standard error)
//! config.json    the OCI bundle's spec, with the user filled in
//! rootfs/        where the shim mounts the root, in a mount namespace of its own
//! libcontainer/  libcontainer's own state
//! ```
//!
//! Every JSON file of ours has a `version`, and is written to a temporary name and renamed. Only the exit record is also
//! made durable: the others are about processes, which a crash of the machine ends. A launch order says in which boot it
//! was given, so that after a crash nobody takes it for more than it is.
//!
//! The handshake runs over a stream socket that is the shim's standard input:
//!
//! ```text
//! shim  -> agent   "C\n"        created: shim.json is there
//! agent -> shim    "g"          go; the end of the stream instead means that the agent is gone: nothing is started
//! shim  -> agent   "R\n"        running; the shim closes the socket
//! shim  -> agent   "E text\n"   instead of either: it failed, and why; exit.json says so too
//! ```
#![deny(missing_docs)]

pub mod cgroup;
mod files;
mod mark;
mod records;

pub use files::{RECORD_BYTES_MAX, Survives, read_record, write_record};
pub use mark::{ProcessMark, boot_id};
pub use records::{ExitRecord, Launch, Outcome, ShimRecord, Versioned};

/// The version of the files and of the handshake. The agent refuses a shim binary of another one.
pub const PROTOCOL_VERSION: u32 = 1;

/// What `polder-shim --version` prints, so that an agent can tell whether the two fit.
pub const VERSION_LINE: &str = concat!("polder-shim ", env!("CARGO_PKG_VERSION"), " protocol 1");

/// The agent's order.
pub const LAUNCH_FILE: &str = "launch.json";
/// Locked by the shim while it lives.
pub const LOCK_FILE: &str = "shim.lock";
/// The processes of the container.
pub const SHIM_FILE: &str = "shim.json";
/// How it ended.
pub const EXIT_FILE: &str = "exit.json";
/// What the shim had to say.
pub const LOG_FILE: &str = "shim.log";
/// Where the root is mounted.
pub const ROOTFS_DIR: &str = "rootfs";
/// Where libcontainer keeps its state.
pub const LIBCONTAINER_DIR: &str = "libcontainer";

/// Sent by the shim when the container is created.
pub const MESSAGE_CREATED: &str = "C";
/// Sent by the shim when the container runs.
pub const MESSAGE_RUNNING: &str = "R";
/// Begins a line that says why the shim failed.
pub const MESSAGE_ERROR: &str = "E";
/// Sent by the agent: start it.
pub const BYTE_GO: u8 = b'g';
