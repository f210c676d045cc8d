//! Limits and repeat times of a job shard.

use polder_types::Millis;

/// Tasks of one job in one region.
pub const TASKS_PER_JOB_MAX: u32 = 200_000;
/// Jobs of one shard, stopped ones included.
pub const JOBS_MAX: usize = 100_000;
/// Templates of one job that are kept beside the newest. A task whose template is not kept any more runs on, and is
/// started from the newest one when it ends.
pub const OLDER_TEMPLATES_MAX: usize = 8;
/// Failures in a row that make a crash loop.
pub const CRASH_LOOP_FAILURES: u32 = 3;
/// First time after which an order is repeated; doubles up to [`ORDER_REPEAT_MAX`].
pub const ORDER_REPEAT: Millis = Millis(2_000);
/// Longest time between two sendings of an order.
pub const ORDER_REPEAT_MAX: Millis = Millis(60_000);
/// A host that is heard and has not answered an order to prepare an image for so long is of a version that does not
/// know it: it is not waited for any longer.
pub const PREPARE_UNANSWERED: Millis = Millis(60_000);
/// First time after which a request for room is repeated; doubles up to [`REQUEST_REPEAT_MAX`].
pub const REQUEST_REPEAT: Millis = Millis(5_000);
/// Longest time between two sendings of a request for room.
pub const REQUEST_REPEAT_MAX: Millis = Millis(60_000);
/// A host that runs tasks of this shard is asked for its inventory at least so often, in case a report was lost.
pub const RELIST_EVERY: Millis = Millis(300_000);
/// First time after which a host that did not answer is asked again for its inventory.
pub const RELIST_REPEAT: Millis = Millis(5_000);
/// A container that ran is lost when its host's inventories have been without it for so long.
pub const MISSING_CONFIRM: Millis = Millis(2_000);
/// Deadlines handled in one wake; the rest follow in the next.
pub const DUE_PER_WAKE: usize = 4096;
/// Containers that a person was told of because no record knows them. More are not told of.
pub const STRANGERS_MAX: usize = 1024;
/// Longest text of a host or a person that is kept.
pub const TEXT_BYTES_MAX: usize = 1024;
