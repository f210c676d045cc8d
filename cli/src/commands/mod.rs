//! The commands, one file each.

mod apply;
mod completions;
mod delete;
mod drain;
mod events;
mod follow;
mod hosts;
mod image;
mod logs;
mod quota;
mod readmit;
mod status;
mod stop;
mod target;
mod validate;
mod wait;
mod why;

use crate::{failure::Failure, roles};
use clap::{CommandFactory as _, Parser, Subcommand};
use polder_api::client::Client;
use std::process::ExitCode;

/// Polder runs containers on fleets of machines in many regions.
#[derive(Debug, Parser)]
#[command(
    name = "polder",
    version,
    after_help = "Data goes to stdout, everything else to stderr. Exit codes: 0 done, 1 your fault, 2 the system's."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    server: Server,
    #[command(subcommand)]
    command: Command,
}

/// Which server is asked.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Server {
    /// Address of a region or the federation
    #[arg(long, global = true, env = "POLDER_ADDR", value_name = "URL", default_value = "http://127.0.0.1:7000")]
    addr: String,
}

#[derive(Debug, Subcommand)]
enum Command {
    Apply(apply::Apply),
    Validate(validate::Validate),
    Schema(validate::Schema),
    Status(status::Status),
    Stop(stop::Stop),
    Delete(delete::Delete),
    Logs(logs::Logs),
    Why(why::Why),
    Hosts(hosts::Hosts),
    Cordon(hosts::Cordon),
    Uncordon(hosts::Uncordon),
    Readmit(readmit::Readmit),
    Drain(drain::Drain),
    #[command(subcommand)]
    Quota(quota::Quota),
    Events(events::Events),
    #[command(subcommand)]
    Image(image::Image),
    Completions(completions::Completions),
    Federation(roles::federation::FederationArgs),
    Region(roles::region::RegionArgs),
    Host(roles::host::HostArgs),
    Dev(roles::dev::DevArgs),
}

/// Commands that ask no server.
const ALONE: [&str; 8] = ["validate", "schema", "image", "completions", "federation", "region", "host", "dev"];

/// The whole command line. Help names an address only where one is asked.
pub(crate) fn command() -> clap::Command {
    let mut command = Cli::command();
    // A command that has an argument of that name is not given the one that all have.
    let hidden = command.get_arguments().find(|argument| argument.get_id() == "addr").cloned();
    for name in ALONE {
        let hidden = hidden.clone().map(|addr| addr.hide(true));
        command = command.mut_subcommand(name, |inner| inner.args(hidden));
    }
    command
}

/// Carries a command out. Most succeed or fail; roles have exit codes of their own.
pub(crate) fn run(cli: Cli) -> Result<ExitCode, Failure> {
    let server = cli.server;
    match cli.command {
        Command::Apply(command) => asking(&server, |client| command.run(client)),
        Command::Validate(command) => command.run().map(|()| ExitCode::SUCCESS),
        Command::Schema(command) => command.run().map(|()| ExitCode::SUCCESS),
        Command::Status(command) => asking(&server, |client| command.run(client)),
        Command::Stop(command) => asking(&server, |client| command.run(client)),
        Command::Delete(command) => asking(&server, |client| command.run(client)),
        Command::Logs(command) => asking(&server, |client| command.run(client)),
        Command::Why(command) => asking(&server, |client| command.run(client)),
        Command::Hosts(command) => asking(&server, |client| command.run(client)),
        Command::Cordon(command) => asking(&server, |client| command.run(client)),
        Command::Uncordon(command) => asking(&server, |client| command.run(client)),
        Command::Readmit(command) => asking(&server, |client| command.run(client)),
        Command::Drain(command) => asking(&server, |client| command.run(client)),
        Command::Quota(command) => asking(&server, |client| command.run(client)),
        Command::Events(command) => asking(&server, |client| command.run(client)),
        Command::Image(command) => command.run().map(|()| ExitCode::SUCCESS),
        Command::Completions(command) => command.run().map(|()| ExitCode::SUCCESS),
        Command::Federation(role) => role.run().map(|()| ExitCode::SUCCESS),
        Command::Region(role) => role.run().map(|()| ExitCode::SUCCESS),
        Command::Host(role) => role.run().map(|()| ExitCode::SUCCESS),
        Command::Dev(role) => role.run().map(|()| ExitCode::SUCCESS),
    }
}

/// Runs a command that asks a server.
fn asking<F>(server: &Server, command: impl FnOnce(Client) -> F) -> Result<ExitCode, Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::system(format!("can't start: {error}")))?;
    runtime.block_on(async {
        let client = Client::new(&server.addr)?;
        command(client).await
    })?;
    Ok(ExitCode::SUCCESS)
}
