//! What makes one host better than another for a task.

use alloc::{format, string::String};
use polder_types::{Capacity, HostId, Resources, Usage};

/// Weight of an imbalance between what is left of CPU and of memory against the amount that is left. At 3 a fleet
/// that is 80 % full strands about half as much as at 1.
const IMBALANCE_WEIGHT: u64 = 3;
/// A whole host.
const WHOLE: u64 = 1_000_000;

/// How good a host is for a task: the least is the best. The order of the fields is the policy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score {
    /// Whether it is the host to stay away from.
    pub avoided: bool,
    /// Tasks of the job in its datacenter.
    pub in_datacenter: u32,
    /// Tasks of the job in its rack.
    pub in_rack: u32,
    /// Tasks of the job on it.
    pub on_host: u32,
    /// What would be left unused or out of balance, in millionths of the host.
    pub stranding: u64,
    /// Breaks ties.
    pub host: HostId,
}

/// What a task would leave of a host: CPU and memory left, and [`IMBALANCE_WEIGHT`] times their difference, each in
/// millionths of the host. It is small on a host that gets full, and large where one kind of resource would be left
/// without the other.
#[must_use]
pub(super) fn stranding(capacity: &Capacity, used: &Usage, task: &Resources) -> u64 {
    let left = |capacity: u64, used: u64| {
        let left = u128::from(capacity.saturating_sub(used)) * u128::from(WHOLE) / u128::from(capacity.max(1));
        u64::try_from(left).unwrap_or(WHOLE)
    };
    let cpu = left(
        u64::from(capacity.cpu.centi_cores()),
        u64::from(used.cpu.centi_cores()) + u64::from(task.cpu.centi_cores()),
    );
    let memory = left(capacity.memory.get(), used.memory.get().saturating_add(task.memory.get()));
    cpu + memory + IMBALANCE_WEIGHT * cpu.abs_diff(memory)
}

/// Why the winner comes before the next best, for people.
pub(super) fn why(winner: &Score, next: Option<&Score>) -> String {
    let Some(next) = next else {
        return String::from("the only host that can take it");
    };
    let host = &next.host;
    if winner.avoided != next.avoided {
        return format!("{host} would do too, but the task is to stay away from it");
    }
    let domains = [
        ("in its datacenter", winner.in_datacenter, next.in_datacenter),
        ("in its rack", winner.in_rack, next.in_rack),
        ("on it", winner.on_host, next.on_host),
    ];
    if let Some((place, mine, theirs)) = domains.into_iter().find(|(_, mine, theirs)| mine != theirs) {
        return format!("fewest tasks of the job {place}: {mine}, and {theirs} for {host}, the next best");
    }
    if winner.stranding != next.stranding {
        let parts = |stranding: u64| stranding / (WHOLE / 1000);
        return format!(
            "leaves least of the host unused or out of balance: {} against {} for {host}, the next best",
            parts(winner.stranding),
            parts(next.stranding)
        );
    }
    format!("as good as {host}, and first by name")
}
