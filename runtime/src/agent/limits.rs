//! How much and how long, for the agent.

use std::time::Duration;

/// Launches under way at a time; more wait for their turn.
pub(super) const LAUNCHES_MAX: usize = 8;
/// Images that are prepared at a time ahead of a start: fewer, so that starts have the disk to themselves.
pub(super) const PREPARATIONS_MAX: usize = 2;
/// Reports that wait for the link. What does not fit is dropped: everything is said again.
pub(super) const REPORTS_QUEUED_MAX: usize = 4096;
/// Pieces of logs that wait for the link; readers of logs wait.
pub(super) const LOG_CHUNKS_QUEUED_MAX: usize = 16;
/// Logs that are read at a time.
pub(super) const LOG_READERS_MAX: usize = 64;
/// Events that wait for the machine.
pub(super) const EVENTS_QUEUED_MAX: usize = 4096;

/// How often the machine is told that time passes, by a clock that can't be set.
pub(super) const TICK_EVERY: Duration = Duration::from_secs(5);

/// How long opening a link may take, and then the welcome.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the region may take to read a frame.
pub(super) const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a ping is sent over a link.
pub(super) const PING_EVERY: Duration = Duration::from_secs(5);
/// A link over which nothing came for so long, not even the answer to a ping, is dead.
pub(super) const LINK_SILENT_MAX: Duration = Duration::from_secs(20);
/// First wait before the next attempt to open a link; doubles up to [`RECONNECT_WAIT_MAX`]. Each wait is a random
/// part of it, so that the hosts of a region that comes back do not all come at once.
pub(super) const RECONNECT_WAIT: Duration = Duration::from_millis(200);
/// The longest wait between two attempts.
pub(super) const RECONNECT_WAIT_MAX: Duration = Duration::from_secs(10);

/// How much of a container's log is kept.
pub(super) const LOG_KEPT_BYTES: u64 = 16 << 20;
/// How much it may grow beyond that before its beginning is cut off.
pub(super) const LOG_SLACK_BYTES: u64 = 4 << 20;
/// How often logs are looked at for that.
pub(super) const LOG_TRIM_EVERY: Duration = Duration::from_secs(2);
/// Logs that are kept of each task: of its newest containers.
pub(super) const LOGS_PER_TASK: usize = 3;
/// Logs of tasks that have no container here are removed after so long.
pub(super) const LOG_KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);
/// How often old logs are looked for.
pub(super) const LOG_SWEEP_EVERY: Duration = Duration::from_secs(3600);
/// How often a log that is followed is looked at.
pub(super) const LOG_FOLLOW_EVERY: Duration = Duration::from_millis(200);

/// How long the end of a container whose start failed is waited for.
pub(super) const FAILED_START_TIMEOUT: Duration = Duration::from_secs(15);
/// The longest answer of a probe that is read: its first line.
pub(super) const PROBE_ANSWER_BYTES_MAX: usize = 1024;

/// How long containers have after their stop signal when everything on a host is stopped.
pub(super) const PURGE_GRACE: Duration = Duration::from_secs(3);
/// How long killed containers may take to be gone then.
pub(super) const PURGE_TIMEOUT: Duration = Duration::from_secs(20);
/// How often what is left is tried to be removed then.
pub(super) const PURGE_TRIES: u32 = 10;
/// The wait between those tries.
pub(super) const PURGE_PAUSE: Duration = Duration::from_millis(200);
