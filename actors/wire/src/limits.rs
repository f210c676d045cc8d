//! How large things may be.

/// Longest frame, in bytes. Whoever reads a link refuses a longer one before it is held in memory.
pub const FRAME_BYTES_MAX: usize = 4 << 20;
/// Most messages in one frame.
pub const FRAME_MESSAGES_MAX: usize = 1024;
/// Most containers in one report or attestation.
pub const CONTAINERS_PER_REPORT_MAX: usize = 16 << 10;
/// Longest spec of a container or job, as JSON, in bytes.
pub const SPEC_BYTES_MAX: usize = 1 << 20;
/// Longest piece of a log in one message, in bytes.
pub const LOG_CHUNK_BYTES_MAX: usize = 256 << 10;
/// Most addresses of region nodes in a welcome.
pub const NODES_MAX: usize = 64;
/// Most tasks in one stored chunk.
pub const TASKS_PER_VALUE_MAX: usize = 1024;
/// Most ranges of slots in a stored job.
pub(crate) const SLOT_RANGES_MAX: usize = 64 << 10;
/// Most older templates in a stored job.
pub(crate) const OLDER_MAX: usize = 1024;
/// Most lingering containers of a stored task.
pub(crate) const PLACEMENTS_MAX: usize = 1024;
/// Most ports of one container.
pub(crate) const PORTS_MAX: usize = 1024;
