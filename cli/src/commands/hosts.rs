use crate::{
    failure::Failure,
    output::{self, Format, ago},
};
use polder_api::{
    client::Client,
    dto::{HostHealth, HostView},
};
use polder_types::HostId;

/// Show hosts, what they offer and what is used
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  polder hosts -o wide")]
pub(crate) struct Hosts {
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Hosts {
    pub(super) async fn run(self, client: Client) -> Result<(), Failure> {
        let list = client.all_hosts().await?;
        if self.output == Format::Json {
            return output::json(&list);
        }
        for part in list.parts.iter().filter(|part| !part.reached) {
            output::note(&format!("the region {} is not heard: its hosts are as of {}", part.region, ago(part.as_of)));
        }
        table(&list.hosts, self.output)
    }
}

fn table(hosts: &[HostView], format: Format) -> Result<(), Failure> {
    let wide = format == Format::Wide;
    let mut headings = vec!["HOST", "REGION", "DATACENTER", "RACK", "HEALTH", "TASKS", "CPU", "MEMORY"];
    if wide {
        headings.extend(["POWER DOMAIN", "ADDRESS", "HEARD", "AGENT", "LABELS"]);
    }
    let row = |host: &HostView| {
        let mut row = vec![
            host.id.to_string(),
            host.region.to_string(),
            host.datacenter.to_string(),
            host.rack.to_string(),
            health(host),
            host.tasks.to_string(),
            format!("{}/{}", host.used.cpu, host.capacity.cpu),
            format!("{}/{}", host.used.memory, host.capacity.memory),
        ];
        if wide {
            let labels: Vec<String> = host.labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
            row.push(host.power_domain.to_string());
            row.push(host.address.clone());
            row.push(ago(host.last_heard));
            row.push(host.agent.clone());
            row.push(labels.join(" "));
        }
        row
    };
    output::table(&headings, hosts.iter().map(row))
}

/// Everything that keeps tasks away, in a word each.
fn health(host: &HostView) -> String {
    let mut words = vec![match host.health {
        HostHealth::Ready => "ready",
        HostHealth::Unknown => "silent",
    }];
    if host.cordoned {
        words.push("cordoned");
    }
    if let Some(drain) = &host.drain {
        words.push(drain.state.as_str());
    }
    words.join(",")
}

/// Keep new tasks away from a host
///
/// What runs there goes on running.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  polder cordon eu-host-1")]
pub(crate) struct Cordon {
    /// The host
    host: HostId,
}

impl Cordon {
    pub(super) async fn run(self, client: Client) -> Result<(), Failure> {
        let host = client.cordon(&self.host).await?;
        output::line(&format!(
            "{} is cordoned; what runs there goes on: {}",
            host.id,
            output::count(host.tasks, "task")
        ))
    }
}

/// Let new tasks come to a host again
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  polder uncordon eu-host-1")]
pub(crate) struct Uncordon {
    /// The host
    host: HostId,
}

impl Uncordon {
    pub(super) async fn run(self, client: Client) -> Result<(), Failure> {
        let host = client.uncordon(&self.host).await?;
        let text = match host.health {
            HostHealth::Ready => "takes new tasks again",
            HostHealth::Unknown => "is not cordoned any more, but not heard: it takes new tasks when it is",
        };
        output::line(&format!("{} {text}", host.id))
    }
}
