//! `polder dev`: a federation, its regions and their hosts as child processes of one parent, on embedded stores.
//!
//! The parent decides names, addresses and folders, starts each role as its own process (the same binary), starts
//! again what dies, and writes down who is who in `dev.json`. It holds no state that matters: killing it stops the
//! children, and the next `polder dev` on the same folder goes on where they were.

mod children;
mod last;
mod layout;

use crate::failure::Failure;
use children::{Children, Stop};
use layout::Layout;
use polder_types::{Bytes, Cpu};
use std::path::PathBuf;

/// Most regions and hosts per region that one machine is asked to carry.
const REGIONS_MAX: u16 = 9;
const HOSTS_MAX: u16 = 20;

/// Runs a whole federation on this machine, for trying and developing.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  polder dev --regions 2 --hosts 3\n\nCtrl-C stops everything, containers included; what was applied is kept in the data folder and runs again next time. With --keep the containers go on running and are found again."
)]
pub(crate) struct DevArgs {
    /// Number of regions
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(REGIONS_MAX)))]
    regions: u16,
    /// Number of hosts in each region
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(HOSTS_MAX)))]
    hosts: u16,
    /// Folder for all state
    #[arg(long, value_name = "DIR", default_value = "/var/lib/polder/dev")]
    data: PathBuf,
    /// Port of the federation on 127.0.0.1; region k gets this port + k, and the metrics of the hosts those from this port + 10
    #[arg(long, default_value_t = 7000)]
    port: u16,
    /// First port handed out to tasks; each host gets a range of 100
    #[arg(long, default_value_t = 21000)]
    task_ports: u16,
    /// CPU that each host offers, whatever the machine has
    #[arg(long, default_value = "4")]
    host_cpu: Cpu,
    /// Memory that each host offers, whatever the machine has
    #[arg(long, default_value = "4GiB")]
    host_memory: Bytes,
    /// Use this etcd (comma-separated endpoints) instead of embedded stores
    #[arg(long, value_name = "URLS")]
    etcd: Option<String>,
    /// How long a host may be silent before it counts as unknown
    #[arg(long, default_value = "10s", value_name = "TIME")]
    silent_after: polder_types::Millis,
    /// Leave containers running at the end
    #[arg(long)]
    keep: bool,
}

impl DevArgs {
    /// Runs until Ctrl-C or SIGTERM.
    pub(crate) fn run(self) -> Result<(), Failure> {
        // One thread: children end with the thread that started them.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::system(format!("can't start: {error}")))?;
        runtime.block_on(self.live())
    }

    async fn live(self) -> Result<(), Failure> {
        let layout = Layout::plan(&self).map_err(Failure::user)?;
        let _lock = layout.lock().map_err(Failure::user)?;
        last::wait_until_gone(&layout).await.map_err(Failure::system)?;
        layout.check_ports().map_err(Failure::user)?;
        let mut children = Children::start(&layout).await.map_err(Failure::system)?;
        layout.announce();
        let stop = children.watch(&layout).await;
        eprintln!("stopping: {}", if self.keep { "containers go on running" } else { "containers are stopped too" });
        children.stop().await;
        if !self.keep {
            for host in &layout.hosts {
                if let Err(error) = polder_runtime::agent::purge(&host.data).await {
                    eprintln!("warning: host {} left something behind: {}", host.id, super::chain(&error));
                }
            }
        }
        layout.forget();
        match stop {
            Stop::Asked => Ok(()),
            Stop::Failed(problem) => Err(Failure::system(problem)),
        }
    }
}
