//! `polder host`: the agent of one machine.

use crate::failure::Failure;

/// Runs the agent of this machine
#[derive(Debug, clap::Args)]
pub(crate) struct HostArgs {}

impl HostArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        Err(Failure::system("pending"))
    }
}
