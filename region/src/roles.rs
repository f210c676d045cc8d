//! What surrounds each machine of a region: where its state lives and what its effects mean.

mod allocator;
mod broker;
mod shard;

pub(crate) use allocator::AllocatorRole;
pub(crate) use broker::BrokerRole;
pub(crate) use shard::ShardRole;
