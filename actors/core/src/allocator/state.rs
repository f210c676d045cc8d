//! What the allocator knows.

use crate::machine::Effects;
use alloc::vec::Vec;
use polder_types::{Allotment, Millis, OwnerEpoch, ShardId, Timestamp};

/// How an allocator is to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its owner epoch: goes with each grant.
    pub epoch: OwnerEpoch,
    /// How long after its start it waits for hosts to be told of before it grants anything: otherwise the first host
    /// that is heard gets everything.
    pub settle: Millis,
    /// How long a grant may go without being placed before people are told. It holds all the same.
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
}

impl Allocator {
    /// Starts from what every shard's task records charge and from the region's allotments. Hosts are told of by
    /// events.
    pub fn restore(
        config: Config,
        charges: impl IntoIterator<Item = (ShardId, crate::message::Charge)>,
        allotments: impl IntoIterator<Item = Allotment>,
        now: Timestamp,
    ) -> (Self, Effects<Self>) {
        let _ = (charges.into_iter().collect::<Vec<_>>(), allotments.into_iter().count(), now);
        (Self { config }, Effects::none())
    }
}
