//! What a run came to.

use crate::plan::Fault;
use std::{collections::BTreeMap, fmt};

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which oracle saw it.
    pub oracle: &'static str,
    /// What it saw.
    pub what: String,
    /// When, in milliseconds of virtual time.
    pub at: u64,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}.{:03} s: {}", self.oracle, self.at / 1000, self.at % 1000, self.what)
    }
}

/// How often what happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Steps and wakes of machines.
    pub steps: u64,
    /// Things that were taken from the queue.
    pub happenings: u64,
    /// Checks of a machine by itself.
    pub checks: u64,
    /// Commits.
    pub commits: u64,
    /// Commits that met a newer epoch.
    pub conflicts: u64,
    /// Commits whose outcome nobody was told.
    pub unknown: u64,
    /// Machines that were restored.
    pub restores: u64,
    /// Nodes that took a lead.
    pub takeovers: u64,
    /// Leases that were lost.
    pub leases_lost: u64,
    /// Events that a full inbox refused.
    pub refused: u64,
    /// Containers that started.
    pub starts: u64,
    /// Of them, containers of services: those of batch jobs end by themselves, and may start again.
    pub service_starts: u64,
    /// Orders of people.
    pub orders: u64,
    /// Faults, by kind.
    pub faults: BTreeMap<Fault, u64>,
    /// Looks of each oracle.
    pub looks: BTreeMap<&'static str, u64>,
}

impl Counts {
    /// What counts as an event: a step of a machine, or something else that happened.
    #[must_use]
    pub const fn events(&self) -> u64 {
        // What is taken from the queue mostly ends in a step: each is counted once.
        if self.steps > self.happenings { self.steps } else { self.happenings }
    }

    pub(crate) fn fault(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    pub(crate) fn look(&mut self, oracle: &'static str) {
        *self.looks.entry(oracle).or_default() += 1;
    }

    /// Adds another run's.
    pub fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.happenings += other.happenings;
        self.checks += other.checks;
        self.commits += other.commits;
        self.conflicts += other.conflicts;
        self.unknown += other.unknown;
        self.restores += other.restores;
        self.takeovers += other.takeovers;
        self.leases_lost += other.leases_lost;
        self.refused += other.refused;
        self.starts += other.starts;
        self.service_starts += other.service_starts;
        self.orders += other.orders;
        for (fault, count) in &other.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        for (oracle, count) in &other.looks {
            *self.looks.entry(oracle).or_default() += count;
        }
    }
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// The hash of its trace.
    pub hash: u64,
    /// The first promise that was broken, if any was.
    pub found: Option<Found>,
    /// How often what happened.
    pub counts: Counts,
    /// How long it took, in milliseconds of virtual time.
    pub virtual_ms: u64,
    /// How long it took until all had come right after the faults, in milliseconds of virtual time.
    pub converged_in_ms: Option<u64>,
}
