//! The layout of a region's keys in its store.
//!
//! ```text
//! meta/identity                           region id, incarnation, format
//! epochs/<actor>  owners/<actor>          who owns which actor, and how often that changed
//! nodes/<node>    actors/<actor>          who is here, under the node's lease
//! hosts/<datacenter>/<host>               one record per boot, without a lease
//! jobs/<shard>/<account>/<name>           specs
//! tasks/<shard>/<account>/<name>#<chunk>  task records, some tens to a key
//! broker/<datacenter>/<host>              cordons, drains, what a host is
//! allotments/<account>                    what this region may admit by itself
//! ```
//!
//! Shards are three hex digits, so that each is read with one range.

use polder_types::{AccountId, DatacenterId, HostId, JobId, ShardId};

/// Task records of one job in one key are numbered with so many digits, to sort.
const CHUNK_DIGITS: usize = 6;

/// All jobs of a shard.
#[must_use]
pub fn jobs(shard: ShardId) -> String {
    format!("jobs/{:03x}/", shard.0)
}

/// One job.
#[must_use]
pub fn job(shard: ShardId, job: &JobId) -> String {
    format!("jobs/{:03x}/{job}", shard.0)
}

/// All task records of a shard.
#[must_use]
pub fn tasks(shard: ShardId) -> String {
    format!("tasks/{:03x}/", shard.0)
}

/// One chunk of task records.
#[must_use]
pub fn chunk(shard: ShardId, job: &JobId, number: u32) -> String {
    format!("tasks/{:03x}/{job}#{number:0CHUNK_DIGITS$}", shard.0)
}

/// All hosts of all brokers.
pub const BROKERS: &str = "broker/";

/// All hosts of a broker.
#[must_use]
pub fn broker(datacenter: &DatacenterId) -> String {
    format!("broker/{datacenter}/")
}

/// One host of a broker.
#[must_use]
pub fn broker_host(datacenter: &DatacenterId, host: &HostId) -> String {
    format!("broker/{datacenter}/{host}")
}

/// All allotments.
pub const ALLOTMENTS: &str = "allotments/";

/// One allotment.
#[must_use]
pub fn allotment(account: &AccountId) -> String {
    format!("allotments/{account}")
}
