//! `polder host`: the agent of one machine.

use super::shutdown;
use crate::failure::Failure;
use clap::Subcommand;
use polder_runtime::agent::{self, HostConfig, detect_capacity};
use polder_types::{Bytes, Cpu, DatacenterId, HostId, Label, PortRange, PowerDomainId, RackId, RegionId};
use std::{collections::BTreeMap, path::PathBuf};

/// What each agent has in its data folder.
const IDENTITY: &str = "host.json";

/// Runs the agent of this machine
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Example:\n  polder host --id h1 --region eu --region-addr http://10.0.0.5:7001 --datacenter dc1 --rack r1 --address 10.0.0.7 --data /var/lib/polder/host\n\nStopping or killing it stops no container: the next one finds them again."
)]
pub(crate) struct HostArgs {
    #[command(subcommand)]
    command: Option<HostCommand>,
    #[command(flatten)]
    agent: Option<AgentArgs>,
}

#[derive(Debug, Subcommand)]
enum HostCommand {
    /// Stops and removes every container of a data folder whose agent does not run
    #[command(after_help = "Example:\n  polder host purge --data /var/lib/polder/host\n\nData, images and logs stay.")]
    Purge {
        /// The agent's data folder
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
struct AgentArgs {
    /// The host's name, unique in its region
    #[arg(long)]
    id: HostId,
    /// The region
    #[arg(long)]
    region: RegionId,
    /// Address of a region node; more may be given
    #[arg(long = "region-addr", value_name = "URL", required = true)]
    region_addresses: Vec<String>,
    /// The datacenter it stands in
    #[arg(long, default_value = "dc1")]
    datacenter: DatacenterId,
    /// Its rack
    #[arg(long, default_value = "rack1")]
    rack: RackId,
    /// Its power domain
    #[arg(long, default_value = "power1")]
    power_domain: PowerDomainId,
    /// What else is to be known of it; may be given more than once
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(Label, String)>,
    /// CPU that it offers to tasks [default: all there is]
    #[arg(long)]
    cpu: Option<Cpu>,
    /// Memory that it offers to tasks [default: nine tenths of what there is]
    #[arg(long)]
    memory: Option<Bytes>,
    /// Ports that it hands out to tasks [default: 20000-29999]
    #[arg(long, value_name = "FIRST-LAST", value_parser = ports)]
    ports: Option<PortRange>,
    /// Address at which the ports of its tasks are reached
    #[arg(long, default_value = "127.0.0.1")]
    address: String,
    /// Folder for records, images, logs and what containers write
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Folder for unpacked images; agents of one machine may share one [default: within --data]
    #[arg(long, value_name = "DIR")]
    images: Option<PathBuf>,
    /// Address on which it answers /metrics, /healthz and /readyz [default: none]
    #[arg(long, value_name = "IP:PORT")]
    metrics: Option<std::net::SocketAddr>,
    /// The shim program [default: polder-shim beside this program]
    #[arg(long, value_name = "FILE")]
    shim: Option<PathBuf>,
}

fn label(text: &str) -> Result<(Label, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, such as disk=ssd")?;
    let key = key.parse().map_err(|error: polder_types::NameError| error.to_string())?;
    Ok((key, value.to_owned()))
}

fn ports(text: &str) -> Result<PortRange, String> {
    let expected = "expected FIRST-LAST, such as 20000-20099";
    let (first, last) = text.split_once('-').ok_or(expected)?;
    let range = PortRange { first: first.parse().map_err(|_| expected)?, last: last.parse().map_err(|_| expected)? };
    if range.first == 0 || range.first > range.last { Err(expected.to_owned()) } else { Ok(range) }
}

impl HostArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        match (self.command, self.agent) {
            (Some(HostCommand::Purge { data }), _) => {
                if !data.join(IDENTITY).is_file() {
                    let why =
                        if data.is_dir() { format!("it has no {IDENTITY}") } else { "it is not there".to_owned() };
                    let message = format!("{} is no data folder of a host: {why}", data.display());
                    return Err(Failure::user(message).with_hint("give the --data that the agent was started with"));
                }
                let folder = data.display().to_string();
                super::in_actix(async move { agent::purge(&data).await.map_err(|error| super::chain(&error)) })?;
                crate::output::line(&format!("no container of {folder} is left"))
            }
            (None, Some(agent)) => {
                let config = agent.config();
                super::in_actix(
                    async move { agent::run(config, shutdown()).await.map_err(|error| super::chain(&error)) },
                )
            }
            // clap asks for the required arguments before it comes to this.
            (None, None) => Err(Failure::user("no host is named").with_hint("polder host --help says how")),
        }
    }
}

impl AgentArgs {
    fn config(self) -> HostConfig {
        let mut capacity = detect_capacity();
        capacity.cpu = self.cpu.unwrap_or(capacity.cpu);
        capacity.memory = self.memory.unwrap_or(capacity.memory);
        capacity.ports = self.ports.unwrap_or(capacity.ports);
        HostConfig {
            id: self.id,
            region: self.region,
            power_domain: self.power_domain,
            datacenter: self.datacenter,
            rack: self.rack,
            labels: self.labels.into_iter().collect::<BTreeMap<_, _>>(),
            capacity,
            address: self.address,
            data_dir: self.data,
            image_dir: self.images,
            region_addresses: self.region_addresses,
            metrics: self.metrics,
            shim: self.shim,
        }
    }
}
