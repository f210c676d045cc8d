//! Many seeds, and how fast.

use crate::{BROKEN, FINE, How};
use polder_sim::{Counts, Fault, Outcome, Setup, oracle, run};
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Instant,
};

/// Seeds between two lines of progress.
const PROGRESS_EVERY: u64 = 100;

/// Runs seeds, several at a time, and sums up.
pub(crate) fn swarm(from: u64, seeds: u64, threads: usize, how: &How) -> Result<u8, String> {
    // Whatever is wrong with it is wrong with every seed.
    how.setup(from)?;
    let (next, done) = (AtomicU64::new(from), AtomicU64::new(0));
    let end = from.saturating_add(seeds);
    let (total, broken) = (Mutex::new(Counts::default()), Mutex::new(Vec::new()));
    let slowest = Mutex::new((0, 0));
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let Ok(setup) = how.setup(seed) else { return };
                    let outcome = run(&setup);
                    total.lock().unwrap_or_else(PoisonError::into_inner).add(&outcome.counts);
                    let took = (outcome.converged_in_ms.unwrap_or_default(), seed);
                    let mut slowest = slowest.lock().unwrap_or_else(PoisonError::into_inner);
                    *slowest = took.max(*slowest);
                    drop(slowest);
                    if outcome.found.is_some() {
                        tell_broken(&outcome, how);
                        broken.lock().unwrap_or_else(PoisonError::into_inner).push(seed);
                    }
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    if done.is_multiple_of(PROGRESS_EVERY) {
                        println!("{done} of {seeds} seeds, {} s", began.elapsed().as_secs());
                    }
                }
            });
        }
    });
    let took = began.elapsed().as_secs_f64();
    let total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    let broken = broken.into_inner().unwrap_or_else(PoisonError::into_inner);
    sum_up(&total);
    let (longest, seed) = slowest.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("after the faults all was right within {} s (seed {seed})", longest / 1000);
    println!("{:.0} events/s over {threads} threads, {took:.0} s", rate(&total, took));
    println!("{seeds} seeds, {} of them broke a promise", broken.len());
    Ok(if broken.is_empty() { FINE } else { BROKEN })
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn rate(counts: &Counts, seconds: f64) -> f64 {
    counts.events() as f64 / seconds.max(f64::EPSILON)
}

fn tell_broken(outcome: &Outcome, how: &How) {
    if let Some(found) = &outcome.found {
        let seed = outcome.seed;
        println!("seed {seed}: BROKEN {found}\n  replay: polder-sim replay {seed}{}", how.words());
    }
}

fn sum_up(total: &Counts) {
    println!("events {}, steps of machines {}, of them checked {}", total.events(), total.steps, total.checks);
    println!(
        "commits {}, conflicts {}, unknown {}; machines restored {}, leads taken {}, leases lost {}",
        total.commits, total.conflicts, total.unknown, total.restores, total.takeovers, total.leases_lost
    );
    println!("orders {}, containers started {}, events refused {}", total.orders, total.starts, total.refused);
    println!("faults:");
    for fault in Fault::ALL {
        println!("  {:<20} {:>10}", fault.name(), total.faults.get(fault).copied().unwrap_or_default());
    }
    println!("oracles, and how often each looked:");
    for name in oracle::ALL {
        let looks = if *name == oracle::MACHINE { total.checks } else { total.looks.get(name).copied().unwrap_or(0) };
        println!("  {name:<20} {looks:>10}");
    }
}

/// One large world, on one thread.
pub(crate) fn speed(setup: &Setup, hosts: u32) -> u8 {
    let began = Instant::now();
    let outcome = run(setup);
    let took = began.elapsed().as_secs_f64();
    let counts = &outcome.counts;
    println!(
        "{hosts} hosts: {} events ({} steps of machines) in {took:.2} s: {:.0} events/s on one thread; {} s of virtual time, {} containers started",
        counts.events(),
        counts.steps,
        rate(counts, took),
        outcome.virtual_ms / 1000,
        counts.starts
    );
    match outcome.found {
        None => FINE,
        Some(found) => {
            println!("BROKEN {found}");
            BROKEN
        }
    }
}
