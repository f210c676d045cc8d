//! Every limit of the store, by name.

use std::time::Duration;

/// Most operations in one transaction; etcd's own default.
pub const TXN_OPS_MAX: usize = 128;
/// Most compares in one transaction; etcd's own default.
pub const TXN_COMPARES_MAX: usize = 128;
/// Most bytes of keys and values in one transaction. etcd takes 1.5 MiB a request; the rest is left for its framing.
pub const TXN_BYTES_MAX: usize = 1 << 20;
/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;

/// Events that a watch keeps ready for its reader before it stops reading from the store.
pub const WATCH_QUEUE_EVENTS_MAX: usize = 1024;

/// Events that the embedded store remembers for watchers that are behind.
pub const HISTORY_EVENTS_MAX: usize = 1 << 17;
/// Bytes of events that the embedded store remembers for watchers that are behind.
pub const HISTORY_BYTES_MAX: usize = 64 << 20;
/// Requests that may wait for the embedded store's writer; more wait outside.
pub const WRITER_QUEUE_MAX: usize = 4096;
/// Bytes of one durable batch of the embedded store.
pub const GROUP_BYTES_MAX: usize = 8 << 20;
/// Memory that the embedded store uses to cache what is on disk.
pub const CACHE_BYTES: u64 = 64 << 20;

/// Shortest lease. etcd counts in seconds, and raises shorter ones to its own minimum.
pub const LEASE_TTL_MIN: Duration = Duration::from_secs(1);
/// Longest lease.
pub const LEASE_TTL_MAX: Duration = Duration::from_secs(3600);
/// Share of a lease's time that its holder does not trust: clocks of two machines don't run alike.
pub const LEASE_DRIFT_DIVISOR: u32 = 20;

/// How long one attempt of a read at etcd may take before the next endpoint is tried.
pub const ETCD_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a read at etcd is retried in all.
pub const ETCD_READ_DEADLINE: Duration = Duration::from_secs(15);
/// How long a transaction at etcd may take before its outcome is called unknown.
pub const ETCD_TXN_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one range read of a prefix may take: a million keys are one answer.
pub const ETCD_LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// Shortest wait before a failed call to etcd is tried again.
pub const ETCD_BACKOFF_MIN: Duration = Duration::from_millis(10);
/// Longest wait before a failed call to etcd is tried again.
pub const ETCD_BACKOFF_MAX: Duration = Duration::from_millis(500);
/// Largest answer taken from etcd: one range read of a whole prefix.
pub const ETCD_ANSWER_BYTES_MAX: usize = 1 << 30;
/// Silence on a connection to etcd after which it is probed. etcd closes connections that are probed more often
/// than every five seconds.
pub const ETCD_KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(6);
/// How long a probe may stay unanswered before the connection is given up.
pub const ETCD_KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(3);
/// How long connecting to one etcd endpoint may take.
pub const ETCD_CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
