//! Fixed seeds with all their faults: the same on every change. Many more are run by hand with `polder-sim swarm`.

use polder_sim::{Counts, Fault, Setup, oracle, run};

/// Enough for every fault and every oracle, and few enough for a test.
const SEEDS: u64 = 120;

#[test]
fn with_faults_every_promise_holds() {
    let mut total = Counts::default();
    for seed in 1..=SEEDS {
        let outcome = run(&Setup::new(seed));
        assert_eq!(outcome.found, None, "seed {seed}: `polder-sim replay {seed}`");
        assert!(outcome.counts.events() >= 20_000, "seed {seed}");
        total.add(&outcome.counts);
    }
    for fault in Fault::ALL {
        assert!(total.faults.get(fault).is_some_and(|count| *count > 0), "`{fault}` never struck");
    }
    for name in oracle::ALL.iter().filter(|name| **name != oracle::MACHINE) {
        assert!(total.looks.get(name).is_some_and(|looks| *looks > 0), "`{name}` never looked");
    }
}

/// Seeds in which something was wrong once: what it was is in the history of the machine that was mended.
#[test]
fn what_was_found_once_stays_mended() {
    // The router told a region again to forget a job that it had forgotten; a slice that a region told of before it was
    // durable, and lost, was not sent again; tasks were said to wait for an older container that was given up long ago,
    // or for nothing at all while their hosts stopped them.
    for seed in [134, 138, 392, 398, 1305, 1460, 25, 97, 42, 791] {
        let outcome = run(&Setup::new(seed));
        assert_eq!(outcome.found, None, "seed {seed}: `polder-sim replay {seed}`");
    }
}
