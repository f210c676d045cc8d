//! What an account may use.

use crate::{
    names::{AccountId, RegionId},
    units::{Bytes, Cpu},
};
use alloc::collections::BTreeMap;
use serde::{Deserialize, Serialize};

/// Amounts that quota counts. `None` in a limit would be ambiguous, so a limit is always a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amounts {
    /// CPU.
    pub cpu: Cpu,
    /// Memory.
    pub memory: Bytes,
    /// Number of tasks.
    pub tasks: u32,
}

impl Amounts {
    /// No limit: what an account gets whose quota was removed.
    pub const UNLIMITED: Self =
        Self { cpu: Cpu::from_centi_cores(u32::MAX), memory: Bytes::new(u64::MAX), tasks: u32::MAX };

    /// The sum of two.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu + other.cpu,
            memory: self.memory + other.memory,
            tasks: self.tasks.saturating_add(other.tasks),
        }
    }

    /// What is left of `self` after `other`, or nothing, each by itself.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(other.cpu),
            memory: self.memory.saturating_sub(other.memory),
            tasks: self.tasks.saturating_sub(other.tasks),
        }
    }

    /// Whether none of the amounts is above that of `limit`.
    #[must_use]
    pub fn within(self, limit: Self) -> bool {
        self.cpu <= limit.cpu && self.memory <= limit.memory && self.tasks <= limit.tasks
    }
}

/// What an account may use over all regions, and how it is shared out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// The account.
    pub account: AccountId,
    /// The whole.
    pub limit: Amounts,
    /// The part of each region. Their sum is never above `limit`.
    pub regions: BTreeMap<RegionId, Amounts>,
}

/// The part of a quota that one region may admit by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allotment {
    /// The account.
    pub account: AccountId,
    /// Counts the changes of this allotment; a region ignores an older one.
    pub version: u64,
    /// The amounts.
    pub limit: Amounts,
}
