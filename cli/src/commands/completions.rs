use super::Cli;
use crate::{failure::Failure, output};
use clap::CommandFactory as _;
use clap_complete::Shell;

/// Print a script that completes commands in a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  polder completions bash > /etc/bash_completion.d/polder")]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self) -> Result<(), Failure> {
        // Into memory first: the generator would panic on a closed pipe.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "polder", &mut script);
        output::bytes(&script)
    }
}
