//! Whether the simulator itself can be relied on: the same seed must give the same trace, in another process too.

use crate::{BROKEN, FINE};
use std::process::Command;

/// Runs each seed in two processes and compares what they print: counts, and the hash of every word of the trace.
pub(crate) fn compare(from: u64, seeds: u64, words: &str) -> Result<u8, String> {
    let program = std::env::current_exe().map_err(|error| format!("this program can't be found: {error}"))?;
    let once = |seed: u64| -> Result<String, String> {
        let mut command = Command::new(&program);
        command.arg("run").arg(seed.to_string()).arg("--full").args(words.split_whitespace());
        let output = command.output().map_err(|error| format!("{} can't be run: {error}", program.display()))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let mut differ = 0;
    for seed in from..from.saturating_add(seeds) {
        let (first, second) = (once(seed)?, once(seed)?);
        if first == second && first.contains("trace") {
            println!("seed {seed}: the same twice");
        } else {
            differ += 1;
            println!("seed {seed}: DIFFERS\n  {}\n  {}", first.trim(), second.trim());
        }
    }
    if differ > 0 {
        println!("{differ} of {seeds} seeds differ: until that is mended, no seed can be relied on");
        return Ok(BROKEN);
    }
    println!("{seeds} seeds, each the same twice");
    Ok(FINE)
}
