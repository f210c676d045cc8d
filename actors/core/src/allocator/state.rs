//! What the allocator knows, and how it starts.

use super::{
    books::{Books, Held, Hold},
    event::Effect,
    queue::Queue,
};
use crate::{
    machine::Effects,
    message::{Charge, PlacementAnswer},
};
use alloc::collections::BTreeMap;
use polder_types::{AccountId, Allotment, Millis, OwnerEpoch, ShardId, Timestamp};

/// How an allocator is to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its owner epoch: goes with each grant.
    pub epoch: OwnerEpoch,
    /// How long after its start it waits for hosts to be told of before it grants anything: otherwise the first host
    /// that is heard gets everything.
    pub settle: Millis,
    /// How long a grant may go without being placed before people are told and the grant is repeated. It holds all
    /// the same.
    pub place_within: Millis,
}

impl Config {
    /// The usual times.
    #[must_use]
    pub const fn new(epoch: OwnerEpoch) -> Self {
        Self { epoch, settle: Millis(500), place_within: Millis::from_secs(30) }
    }
}

/// The one actor of a region that picks hosts.
#[derive(Debug)]
pub struct Allocator {
    pub(super) config: Config,
    /// Nothing is granted before.
    pub(super) settled_at: Timestamp,
    pub(super) books: Books,
    pub(super) allotments: BTreeMap<AccountId, Allotment>,
    /// The newest owner epoch seen of each shard.
    pub(super) owners: BTreeMap<ShardId, OwnerEpoch>,
    pub(super) queue: Queue,
}

impl Allocator {
    /// Starts from what every shard's task records charge and from the region's allotments. Hosts are told of by
    /// events. What shards still want, they ask for again when they hear that a new allocator has started.
    pub fn restore(
        config: Config,
        charges: impl IntoIterator<Item = (ShardId, Charge)>,
        allotments: impl IntoIterator<Item = Allotment>,
        now: Timestamp,
    ) -> (Self, Effects<Self>) {
        let mut books = Books::default();
        for (shard, charge) in charges {
            books.charge(Held { shard, charge, hold: Hold::Placed });
        }
        let allocator = Self {
            config,
            settled_at: now + config.settle,
            books,
            allotments: allotments.into_iter().map(|allotment| (allotment.account.clone(), allotment)).collect(),
            owners: BTreeMap::new(),
            queue: Queue::default(),
        };
        let mut effects = Effects::none();
        effects.now(Effect::Broadcast(PlacementAnswer::Started { allocator: config.epoch }));
        (allocator, effects)
    }
}
