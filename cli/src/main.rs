//! `polder`: every role and every operator command.
//!
//! Data goes to stdout, everything else to stderr. Exit codes: 0 done, 1 the user's fault, 2 the system's.

mod commands;
mod failure;
mod job_source;
mod output;
mod progress;
mod roles;

use clap::FromArgMatches as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let parsed = commands::command().try_get_matches().and_then(|matches| commands::Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way as well, to stdout. A reader that went away is nobody's fault.
            let _ = error.print();
            return if error.use_stderr() { failure::USER.into() } else { ExitCode::SUCCESS };
        }
    };
    match commands::run(cli) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
