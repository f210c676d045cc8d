//! What the quota ledger is told and what it asks for.

use super::state::QuotaRecord;
use crate::message::{Notice, ReplyId};
use alloc::{boxed::Box, collections::BTreeMap, string::String, vec::Vec};
use polder_types::{AccountId, Allotment, Amounts, Quota, RegionId, Timestamp};

/// What a region says of one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountHeard {
    /// The account.
    pub account: AccountId,
    /// What the region's task records charge to it.
    pub used: Amounts,
    /// The allotment that the region has durably; none if it has none (or did not say).
    pub allotment: Option<Allotment>,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// Somebody set a quota.
    Set {
        /// Who asks.
        reply: ReplyId,
        /// The account.
        account: AccountId,
        /// The whole.
        limit: Amounts,
        /// The part of each region; none means evenly over all known ones. A region that is left out gets nothing.
        regions: Option<BTreeMap<RegionId, Amounts>>,
    },
    /// Somebody wants an account to have no quota.
    Remove {
        /// Who asks.
        reply: ReplyId,
        /// The account.
        account: AccountId,
    },
    /// A region belongs to the federation.
    RegionKnown {
        /// The region.
        region: RegionId,
    },
    /// A region was heard.
    RegionHeard {
        /// The region.
        region: RegionId,
        /// When the region said so.
        at: Timestamp,
        /// Its accounts.
        accounts: Vec<AccountHeard>,
    },
    /// A region can't be heard. It keeps its allotments.
    RegionSilent {
        /// The region.
        region: RegionId,
    },
    /// A region said which allotment it has durably: what it answers to each that is sent.
    AllotmentHeld {
        /// The region.
        region: RegionId,
        /// The allotment.
        allotment: Allotment,
    },
    /// A region has this version of an allotment durably.
    AllotmentAcked {
        /// The region.
        region: RegionId,
        /// The account.
        account: AccountId,
        /// The version.
        version: u64,
    },
    /// A region refused an allotment.
    AllotmentRefused {
        /// The region.
        region: RegionId,
        /// The account.
        account: AccountId,
        /// The version.
        version: u64,
        /// Why, in a sentence.
        problem: String,
    },
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send an allotment to its region. It is repeated until the region has it.
    PutAllotment {
        /// The region.
        region: RegionId,
        /// The allotment.
        allotment: Allotment,
    },
    /// Answer somebody.
    Reply {
        /// Who asked.
        reply: ReplyId,
        /// The answer.
        answer: Answer,
    },
    /// Tell people.
    Notice(Notice),
}

/// A change of durable state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// This quota is now so.
    Put(Box<QuotaRecord>),
}

/// What somebody who asked is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The quota is durable; its parts reach the regions as soon as they are heard.
    Done {
        /// As it is now.
        quota: Quota,
        /// Whether anything changed.
        changed: bool,
    },
    /// Nothing was done.
    Refused(Problem),
}

/// Why an order was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Regions are named that the federation does not know.
    #[error("the quota of {account} names regions that are not known: {}; known are: {}", list(.unknown), list(.known))]
    UnknownRegions {
        /// The account.
        account: AccountId,
        /// Those that are not known.
        unknown: Vec<RegionId>,
        /// Those that are.
        known: Vec<RegionId>,
    },
    /// The account has no quota.
    #[error("account {account} has no quota")]
    NotFound {
        /// The account.
        account: AccountId,
    },
    /// The parts add up to more than the whole.
    #[error(
        "the parts of the regions add up to more than the quota of {account}: {} CPU, {} and {} tasks over",
        .over.cpu, .over.memory, .over.tasks
    )]
    AboveLimit {
        /// The account.
        account: AccountId,
        /// By how much.
        over: Amounts,
    },
    /// The federation holds as many quotas as it can.
    #[error("the quota of {account} can't be accepted: the federation holds {max} quotas, which is its limit")]
    TooManyQuotas {
        /// The account.
        account: AccountId,
        /// The limit.
        max: u32,
    },
}

fn list(regions: &[RegionId]) -> String {
    if regions.is_empty() {
        return String::from("none");
    }
    let names: Vec<&str> = regions.iter().map(RegionId::as_str).collect();
    names.join(", ")
}
