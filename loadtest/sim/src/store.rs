//! A model of the store of a region or of the federation: durable records, owners with epochs, leases.
//!
//! A transaction is applied whole or not at all, and only while its owner is the owner. What the world makes of a commit
//! (late, lost, answered or not) is in `world/commits.rs`.

use crate::{happening::Process, names::ActorId};
use polder_core::{
    broker::HostRecord,
    intent_router::IntentRecord,
    job_shard::{JobRecord, TaskChunk},
    quota_ledger::QuotaRecord,
};
use polder_types::{AccountId, Allotment, HostId, JobId};
use std::collections::{BTreeMap, VecDeque};

/// What can be owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Seat {
    Allocator,
    Shard(u16),
    Broker(u8),
    Federation,
    Intents,
    Quotas,
}

/// A life of a process, as an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Holder {
    pub(crate) process: Process,
    pub(crate) life: u32,
}

/// A change.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    Job(u16, Box<JobRecord>),
    Chunk(u16, TaskChunk),
    DeleteChunk(u16, JobId, u32),
    DeleteJob(u16, JobId),
    Host(Box<HostRecord>),
    Intent(Box<IntentRecord>),
    DeleteIntent(JobId),
    Quota(Box<QuotaRecord>),
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Job(u16, JobId),
    Chunk(u16, JobId, u32),
    Host(HostId),
    Intent(JobId),
    Quota(AccountId),
}

impl Write {
    fn key(&self) -> Key {
        match self {
            Self::Job(shard, record) => Key::Job(*shard, record.id().clone()),
            Self::DeleteJob(shard, job) => Key::Job(*shard, job.clone()),
            Self::Chunk(shard, chunk) => Key::Chunk(*shard, chunk.job.clone(), chunk.number),
            Self::DeleteChunk(shard, job, number) => Key::Chunk(*shard, job.clone(), *number),
            Self::Host(record) => Key::Host(record.info.id.clone()),
            Self::Intent(record) => Key::Intent(record.spec.id.clone()),
            Self::DeleteIntent(job) => Key::Intent(job.clone()),
            Self::Quota(record) => Key::Quota(record.quota.account.clone()),
        }
    }
}

/// Changes that are applied together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Txn {
    /// Epochs that must be so.
    pub(crate) fences: Vec<(Seat, u64)>,
    pub(crate) writes: Vec<Write>,
}

/// A commit on its way: its transactions follow each other.
#[derive(Debug)]
pub(crate) struct TxnUnderWay {
    pub(crate) actor: ActorId,
    pub(crate) cell_life: u32,
    pub(crate) seat: Seat,
    pub(crate) epoch: u64,
    pub(crate) holder: Holder,
    pub(crate) left: VecDeque<Txn>,
    /// Whether whoever asked is still to be answered.
    pub(crate) answered: bool,
}

/// A store.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) owners: BTreeMap<Seat, Holder>,
    pub(crate) epochs: BTreeMap<Seat, u64>,
    /// Until when each lease holds.
    pub(crate) leases: BTreeMap<Holder, u64>,
    /// Nothing is answered before.
    pub(crate) stalled_until: u64,
    pub(crate) jobs: BTreeMap<(u16, JobId), JobRecord>,
    pub(crate) chunks: BTreeMap<(u16, JobId, u32), TaskChunk>,
    pub(crate) hosts: BTreeMap<HostId, HostRecord>,
    pub(crate) allotments: BTreeMap<AccountId, Allotment>,
    pub(crate) intents: BTreeMap<JobId, IntentRecord>,
    pub(crate) quotas: BTreeMap<AccountId, QuotaRecord>,
}

impl Store {
    /// The epoch of a seat.
    pub(crate) fn epoch(&self, seat: Seat) -> u64 {
        self.epochs.get(&seat).copied().unwrap_or_default()
    }

    /// Whether a write of this owner is let in.
    pub(crate) fn admits(&self, seat: Seat, epoch: u64, holder: Holder, fences: &[(Seat, u64)]) -> bool {
        self.owners.get(&seat) == Some(&holder)
            && self.epoch(seat) == epoch
            && fences.iter().all(|(seat, epoch)| self.epoch(*seat) == *epoch)
    }

    /// Takes a seat with a new epoch, if its lease holds and nobody else has it.
    pub(crate) fn take(&mut self, seat: Seat, holder: Holder, now: u64) -> Option<u64> {
        let leased = self.leases.get(&holder).is_some_and(|until| *until > now);
        let free = self.owners.get(&seat).is_none_or(|owner| *owner == holder);
        if !(leased && free) {
            return None;
        }
        self.owners.insert(seat, holder);
        let epoch = self.epochs.entry(seat).or_default();
        *epoch += 1;
        Some(*epoch)
    }

    /// Ends a lease with all that was held under it.
    pub(crate) fn end_lease(&mut self, holder: Holder) {
        self.leases.remove(&holder);
        self.owners.retain(|_, owner| *owner != holder);
    }
}

/// Cuts the writes of several steps into transactions. Every value is whole, so of two writes of a key the later counts.
pub(crate) fn transactions(writes: Vec<Write>, fences: Vec<(Seat, u64)>, most: usize) -> VecDeque<Txn> {
    let mut last = BTreeMap::new();
    for (at, write) in writes.iter().enumerate() {
        last.insert(write.key(), at);
    }
    let kept = writes.into_iter().enumerate().filter(|(at, write)| last.get(&write.key()) == Some(at));
    let mut txns = VecDeque::new();
    let mut part = Vec::new();
    for (_, write) in kept {
        part.push(write);
        if part.len() == most {
            txns.push_back(Txn { fences: fences.clone(), writes: std::mem::take(&mut part) });
        }
    }
    if !part.is_empty() || txns.is_empty() {
        txns.push_back(Txn { fences, writes: part });
    }
    txns
}
