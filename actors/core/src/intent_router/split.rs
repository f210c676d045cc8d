//! How many tasks each region gets, and which slots.

use super::event::Problem;
use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use polder_types::{JobSpec, RegionId, RegionSplit, Slots};

/// How many tasks each region is to have.
///
/// # Errors
/// When the job names regions that are not known, or its split does not say where all of its tasks go.
pub(super) fn counts(spec: &JobSpec, known: &BTreeSet<RegionId>) -> Result<BTreeMap<RegionId, u32>, Problem> {
    let job = || spec.id.clone();
    let shares: Vec<&RegionId> = match &spec.regions.split {
        RegionSplit::Even => Vec::new(),
        RegionSplit::Weights { weights } => weights.keys().collect(),
        RegionSplit::Counts { counts } => counts.keys().collect(),
    };
    let mentioned: BTreeSet<&RegionId> = spec.regions.names.iter().chain(shares.iter().copied()).collect();
    let unknown: Vec<RegionId> = mentioned.into_iter().filter(|region| !known.contains(*region)).cloned().collect();
    if !unknown.is_empty() {
        return Err(Problem::UnknownRegions { job: job(), unknown, known: known.iter().cloned().collect() });
    }
    let unnamed = |region: &&&RegionId| !spec.regions.names.is_empty() && !spec.regions.names.contains(region);
    if let Some(region) = shares.iter().find(unnamed) {
        return Err(Problem::ShareOfUnnamed { job: job(), region: (*region).clone() });
    }
    let any =
        || if spec.regions.names.is_empty() { known.iter().cloned().collect() } else { spec.regions.names.clone() };
    let weights: Vec<(RegionId, u32)> = match &spec.regions.split {
        RegionSplit::Counts { counts } => {
            let counted: u64 = counts.values().map(|count| u64::from(*count)).sum();
            if counted != u64::from(spec.tasks) {
                return Err(Problem::CountsDiffer { job: job(), tasks: spec.tasks, counted });
            }
            return Ok(counts.clone());
        }
        RegionSplit::Even => any().into_iter().map(|region| (region, 1)).collect(),
        RegionSplit::Weights { weights } => weights.iter().map(|(region, weight)| (region.clone(), *weight)).collect(),
    };
    if weights.is_empty() && matches!(spec.regions.split, RegionSplit::Even) {
        return Err(Problem::NoRegions { job: job() });
    }
    if weights.iter().all(|(_, weight)| *weight == 0) {
        return Err(Problem::NoWeight { job: job() });
    }
    Ok(proportional(spec.tasks, &weights))
}

/// Largest remainder: each gets its share rounded down, and what is left goes to the largest remainders, the earlier
/// first.
fn proportional(tasks: u32, weights: &[(RegionId, u32)]) -> BTreeMap<RegionId, u32> {
    let whole: u64 = weights.iter().map(|(_, weight)| u64::from(*weight)).sum();
    let parts = weights.iter().enumerate().map(|(at, (region, weight))| {
        let share = u64::from(tasks) * u64::from(*weight);
        (region, share / whole.max(1), share % whole.max(1), at)
    });
    let mut parts: Vec<(&RegionId, u64, u64, usize)> = parts.collect();
    let given: u64 = parts.iter().map(|(_, count, ..)| count).sum();
    let left = usize::try_from(u64::from(tasks).saturating_sub(given)).unwrap_or(usize::MAX);
    parts.sort_by(|a, b| b.2.cmp(&a.2).then(a.3.cmp(&b.3)));
    for (_, count, ..) in parts.iter_mut().take(left) {
        *count += 1;
    }
    let mut counts = BTreeMap::new();
    for (region, count, ..) in parts {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        // A name that is given twice has one share, of both.
        let sum: &mut u32 = counts.entry(region.clone()).or_default();
        *sum = sum.saturating_add(count);
    }
    counts
}

/// Which slots of `0 .. tasks` each region is to have: a slot stays where it is as far as counts allow.
pub(super) fn assign(
    tasks: u32,
    counts: &BTreeMap<RegionId, u32>,
    current: &BTreeMap<RegionId, Slots>,
) -> BTreeMap<RegionId, Slots> {
    let mut homeless: BTreeSet<u32> = (0..tasks).collect();
    let mut kept: BTreeMap<RegionId, Vec<u32>> = BTreeMap::new();
    for (region, &count) in counts {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let has = current.get(region).map(Slots::iter).into_iter().flatten();
        let keeps: Vec<u32> = has.filter(|slot| homeless.contains(slot)).take(count).collect();
        for slot in &keeps {
            homeless.remove(slot);
        }
        kept.insert(region.clone(), keeps);
    }
    let mut homeless = homeless.into_iter();
    for (region, &count) in counts {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let slots = kept.entry(region.clone()).or_default();
        let lacks = count.saturating_sub(slots.len());
        slots.extend(homeless.by_ref().take(lacks));
    }
    kept.into_iter().map(|(region, slots)| (region, slots.into_iter().collect())).collect()
}
