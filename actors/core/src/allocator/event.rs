//! What the allocator is told and what it asks for.

use crate::message::{HostNotice, Notice, PlacementAnswer, PlacementNote};
use polder_types::{Allotment, HostId, ShardId};

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A shard said something.
    Note(PlacementNote),
    /// A broker told what a host is and how it is.
    Host(HostNotice),
    /// A host was taken out of the fleet. What is still charged on it stays charged.
    HostForgotten(HostId),
    /// The region durably has a new allotment. An older version than the known one changes nothing.
    AllotmentChanged(Allotment),
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Tell one shard.
    Answer {
        /// The shard.
        shard: ShardId,
        /// What.
        answer: PlacementAnswer,
    },
    /// Tell every shard.
    Broadcast(PlacementAnswer),
    /// Tell people.
    Notice(Notice),
}

/// A change of durable state. There is none: what is charged is the fold of the shards' task records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta {}
