//! `polder-sim`: runs seeds of the simulator.
#![expect(clippy::print_stdout, reason = "a program that prints what it found")]

mod meta;
mod swarm;

use clap::{Args, Parser, Subcommand};
use polder_sim::{Detail, Filter, Outcome, Plant, Setup, Shape, oracle, run};
use std::process::ExitCode;

/// Everything was as promised.
const FINE: u8 = 0;
/// A promise was broken.
const BROKEN: u8 = 1;
/// The simulator itself could not do its work, or was asked wrongly.
const TROUBLE: u8 = 2;

/// Runs Polder's machines under virtual time with seeded faults, and watches its promises.
#[derive(Debug, Parser)]
#[command(name = "polder-sim", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the same seeds twice, in processes of their own, and compares their traces word by word.
    Meta {
        /// How many seeds.
        #[arg(long, default_value_t = 8)]
        seeds: u64,
        /// The first seed.
        #[arg(long, default_value_t = 1)]
        from: u64,
        #[command(flatten)]
        how: How,
    },
    /// Runs one seed.
    Run {
        /// The seed.
        seed: u64,
        /// Puts every event and effect into the trace's hash, word by word.
        #[arg(long)]
        full: bool,
        #[command(flatten)]
        how: How,
    },
    /// Runs many seeds, and says how to replay those that break a promise.
    Swarm {
        /// How many seeds.
        #[arg(long, default_value_t = 1000)]
        seeds: u64,
        /// The first seed.
        #[arg(long, default_value_t = 1)]
        from: u64,
        /// How many seeds are run at a time.
        #[arg(long, default_value_t = 2)]
        threads: usize,
        #[command(flatten)]
        how: How,
    },
    /// Runs one seed and prints what happens: time, ordinal, actor, event (◀) and effects.
    Replay {
        /// The seed.
        seed: u64,
        /// Only actors whose names contain this: `r0n0/shard-1`, `r0-h3`, `router`, `FAULT`, `person`.
        #[arg(long)]
        actor: Option<String>,
        /// Only lines that contain this: a job, a task, a container, a host.
        #[arg(long)]
        about: Option<String>,
        /// Nothing before this moment, in seconds of virtual time.
        #[arg(long, default_value_t = 0)]
        after: u64,
        /// Nothing after this moment, in seconds of virtual time.
        #[arg(long)]
        until: Option<u64>,
        /// Prints long lines whole.
        #[arg(long)]
        wide: bool,
        #[command(flatten)]
        how: How,
    },
    /// One large region without faults: how many events a second.
    Speed {
        /// Hosts.
        #[arg(long, default_value_t = 1000)]
        hosts: u32,
        #[command(flatten)]
        how: How,
    },
    /// Lists oracles, faults, and bugs that can be planted.
    List,
}

#[derive(Args, Clone, Debug)]
struct How {
    /// How many events happen, at least, before faults end.
    #[arg(long, default_value_t = 20_000)]
    events: u64,
    /// Without any fault.
    #[arg(long)]
    calm: bool,
    /// Asks only these oracles.
    #[arg(long = "only", value_name = "ORACLE")]
    only: Vec<String>,
    /// Plants a bug.
    #[arg(long, value_name = "NAME")]
    plant: Option<String>,
}

impl How {
    fn setup(&self, seed: u64) -> Result<Setup, String> {
        let mut setup = Setup::new(seed);
        setup.events = self.events;
        if self.calm {
            setup.shape = Shape::Calm;
        }
        for name in &self.only {
            let oracle = oracle::ALL.iter().find(|oracle| *oracle == name);
            let oracle = oracle.ok_or_else(|| format!("there is no oracle `{name}`; `polder-sim list` lists them"))?;
            setup.only.push(oracle);
        }
        if let Some(name) = &self.plant {
            let plant = Plant::named(name);
            let plant = plant.ok_or_else(|| format!("there is no bug `{name}`; `polder-sim list` lists them"))?;
            setup.plant = Some(plant);
        }
        Ok(setup)
    }

    /// The same on a command line.
    fn words(&self) -> String {
        let mut words = String::new();
        if self.events != 20_000 {
            words.push_str(&format!(" --events {}", self.events));
        }
        if self.calm {
            words.push_str(" --calm");
        }
        for name in &self.only {
            words.push_str(&format!(" --only {name}"));
        }
        if let Some(name) = &self.plant {
            words.push_str(&format!(" --plant {name}"));
        }
        words
    }
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { TROUBLE } else { FINE };
            // Nothing is left to be done if even this can't be printed.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    match work(cli.command) {
        Ok(code) => ExitCode::from(code),
        Err(problem) => {
            eprintln!("polder-sim: {problem}");
            ExitCode::from(TROUBLE)
        }
    }
}

fn work(command: Command) -> Result<u8, String> {
    match command {
        Command::Meta { seeds, from, how } => meta::compare(from, seeds, &how.words()),
        Command::Run { seed, full, how } => {
            let mut setup = how.setup(seed)?;
            if full {
                setup.detail = Detail::Full;
            }
            Ok(tell(&run(&setup), &how))
        }
        Command::Replay { seed, actor, about, after, until, wide, how } => {
            let mut setup = how.setup(seed)?;
            let moment = |seconds: u64| seconds.saturating_mul(1000);
            let until = until.map(moment);
            setup.detail = Detail::Print(Filter { actor, about, from: moment(after), until, wide });
            Ok(tell(&run(&setup), &how))
        }
        Command::Swarm { seeds, from, threads, how } => swarm::swarm(from, seeds, threads, &how),
        Command::Speed { hosts, how } => {
            let mut setup = how.setup(1)?;
            setup.shape = Shape::Large { hosts };
            Ok(swarm::speed(&setup, hosts))
        }
        Command::List => {
            list();
            Ok(FINE)
        }
    }
}

fn tell(outcome: &Outcome, how: &How) -> u8 {
    let Outcome { seed, hash, found, counts, virtual_ms, converged_in_ms } = outcome;
    println!(
        "seed {seed}: {} events, {} steps, {} s of virtual time, trace {hash:016x}",
        counts.events(),
        counts.steps,
        virtual_ms / 1000
    );
    if let Some(ms) = converged_in_ms {
        println!("all was right {} s after the faults", ms / 1000);
    }
    match found {
        None => FINE,
        Some(found) => {
            println!("BROKEN {found}");
            println!("replay: polder-sim replay {seed}{}", how.words());
            BROKEN
        }
    }
}

fn list() {
    println!("oracles: {}", oracle::ALL.join(", "));
    let faults: Vec<&str> = polder_sim::Fault::ALL.iter().map(|fault| fault.name()).collect();
    println!("faults: {}", faults.join(", "));
    println!("bugs:");
    for plant in Plant::ALL {
        println!("  {:<24} {} (seen by {})", plant.name, plant.what, plant.oracle);
    }
}
