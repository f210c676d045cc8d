//! How much and how long, for containers.

use std::time::Duration;

/// A shim that hasn't created its container by then is killed. A cold start takes some tens of milliseconds.
pub const CREATE_LIMIT: Duration = Duration::from_secs(30);
/// Containers that are created at the same time, for each core. More wait for their turn: all of them would only be
/// slower together, up to the limit above.
pub const CREATES_PER_CORE: usize = 2;
/// A shim that hasn't started its container by then is killed.
pub const START_LIMIT: Duration = Duration::from_secs(10);
/// How long a new agent waits for a shim that was in the middle of something when the old agent died.
pub const SETTLE_LIMIT: Duration = Duration::from_secs(15);
/// How often it looks meanwhile.
pub const SETTLE_PAUSE: Duration = Duration::from_millis(20);
/// How long the kernel may take to give the exit status of a process that isn't ours, which it does once somebody has
/// reaped it.
pub const REAP_LIMIT: Duration = Duration::from_secs(10);
/// How often it is asked.
pub const REAP_PAUSE: Duration = Duration::from_millis(20);
/// Ends of containers that wait for the agent to read them. More than these wait in their own tasks.
pub const EXITS_QUEUED_MAX: usize = 1024;
/// The longest line that a shim may send.
pub const MESSAGE_BYTES_MAX: usize = 16 << 10;
/// The most arguments, and the most variables, of a container.
pub const WORDS_MAX: usize = 4096;
/// The most bytes of all arguments and variables. The kernel's own limit is a quarter of the stack.
pub const WORD_BYTES_MAX: usize = 1 << 20;
/// The most layers; overlayfs takes 500, images have at most 127.
pub const LAYERS_MAX: usize = 256;
/// The most files and directories of the host in one container.
pub const BINDS_MAX: usize = 128;
/// Open files of a container's process, if the host's own limit allows.
pub const OPEN_FILES_MAX: u64 = 65_536;
/// The longest name of a state directory.
pub const NAME_BYTES_MAX: usize = 200;
