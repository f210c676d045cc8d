//! Worlds without faults: they do what people want, and the same seed is the same world.

use polder_sim::{Detail, Setup, Shape, run};

#[test]
fn without_faults_everything_comes_right() {
    for seed in 1..=12 {
        let outcome = run(&Setup { shape: Shape::Calm, events: 5_000, ..Setup::new(seed) });
        assert_eq!(outcome.found, None, "seed {seed}: `polder-sim replay {seed} --calm --events 5000`");
        assert!(outcome.counts.starts > 0, "seed {seed}");
    }
}

#[test]
fn the_same_seed_is_the_same_world() {
    for seed in 1..=4 {
        let full = || run(&Setup { detail: Detail::Full, events: 5_000, ..Setup::new(seed) });
        assert_eq!(full(), full(), "seed {seed}");
    }
    let hash = |seed| run(&Setup { events: 1_000, ..Setup::new(seed) }).hash;
    assert_ne!(hash(1), hash(2));
}
