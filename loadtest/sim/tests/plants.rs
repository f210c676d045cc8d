//! Each oracle catches a bug that is planted for it; without the bug the same seeds are fine.

use polder_sim::{Plant, Setup, run};

/// So many seeds are tried for each bug.
const SEEDS: u64 = 80;

fn setup(seed: u64, plant: Option<Plant>, oracle: &'static str) -> Setup {
    Setup { events: 15_000, plant, only: vec![oracle], ..Setup::new(seed) }
}

#[test]
fn each_planted_bug_is_caught_by_its_oracle() {
    for plant in Plant::ALL {
        let caught = (1..=SEEDS).find(|seed| run(&setup(*seed, Some(*plant), plant.oracle)).found.is_some());
        let seed = caught.unwrap_or_else(|| panic!("`{}` is not caught by `{}`", plant.name, plant.oracle));
        let clean = run(&setup(seed, None, plant.oracle));
        assert_eq!(clean.found, None, "`{}` sees something in seed {seed} where nothing is planted", plant.oracle);
    }
}

#[test]
fn every_oracle_has_a_planted_bug() {
    // What machines check of themselves is shown in their own tests.
    for oracle in polder_sim::oracle::ALL.iter().filter(|oracle| **oracle != polder_sim::oracle::MACHINE) {
        assert!(Plant::ALL.iter().any(|plant| plant.oracle == *oracle), "nothing is planted for `{oracle}`");
    }
}
