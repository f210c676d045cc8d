use crate::{
    failure::Failure,
    output::{self, Format, ago},
};
use core::str::FromStr;
use polder_api::{
    client::Client,
    dto::{QuotaList, QuotaPart, QuotaRequest, QuotaView},
};
use polder_types::{AccountId, Amounts, Bytes, Cpu, RegionId};

/// Show, set or remove what accounts may use
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Quota {
    Get(Get),
    Set(Set),
    Remove(Remove),
}

/// Show what accounts may use, and what they do use
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  polder quota get shop")]
pub(crate) struct Get {
    /// The account; all accounts without it
    account: Option<AccountId>,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Set what an account may use
///
/// Without --region, the whole is split evenly over all regions.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  polder quota set shop --cpu 40 --memory 64GiB --tasks 200 \\\n    \
                        --region eu=cpu:30,memory:48GiB,tasks:150 --region us=cpu:10,memory:16GiB,tasks:50")]
pub(crate) struct Set {
    /// The account
    account: AccountId,
    /// CPU over all regions, in cores
    #[arg(long)]
    cpu: Cpu,
    /// Memory over all regions
    #[arg(long)]
    memory: Bytes,
    /// Tasks over all regions
    #[arg(long)]
    tasks: u32,
    /// A region's part: REGION=cpu:CPU,memory:MEMORY,tasks:TASKS
    #[arg(long, value_name = "PART")]
    region: Vec<Part>,
}

/// Let an account use what there is
///
/// What regions admit by themselves is limited no more as soon as they have heard of it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  polder quota remove shop")]
pub(crate) struct Remove {
    /// The account
    account: AccountId,
}

impl Remove {
    async fn run(self, client: Client) -> Result<(), Failure> {
        let removed = client.remove_quota(&self.account).await?;
        output::line(&format!("{} has no quota any more: it may use what there is", removed.account))
    }
}

impl Quota {
    pub(super) async fn run(self, client: Client) -> Result<(), Failure> {
        match self {
            Self::Get(get) => get.run(client).await,
            Self::Set(set) => set.run(client).await,
            Self::Remove(remove) => remove.run(client).await,
        }
    }
}

impl Get {
    async fn run(self, client: Client) -> Result<(), Failure> {
        let quotas = match &self.account {
            Some(account) => {
                let quota = client.quota(account).await?;
                if self.output == Format::Json {
                    return output::json(&quota);
                }
                vec![quota]
            }
            None => {
                let list = client.quotas().await?;
                if self.output == Format::Json {
                    return output::json(&QuotaList { quotas: list.quotas });
                }
                list.quotas
            }
        };
        table(&quotas, |part| part.allotment)?;
        quotas.iter().for_each(under_way);
        Ok(())
    }
}

impl Set {
    async fn run(self, client: Client) -> Result<(), Failure> {
        let mut request = QuotaRequest {
            limit: Amounts { cpu: self.cpu, memory: self.memory, tasks: self.tasks },
            regions: std::collections::BTreeMap::new(),
        };
        for part in self.region {
            if request.regions.insert(part.region.clone(), part.amounts).is_some() {
                return Err(Failure::user(format!("--region names `{}` twice", part.region)));
            }
        }
        let quota = client.set_quota(&self.account, &request).await?;
        table(std::slice::from_ref(&quota), |part| part.wanted.unwrap_or(part.allotment))?;
        under_way(&quota);
        Ok(())
    }
}

/// Says which parts are not yet as they are to be.
fn under_way(quota: &QuotaView) {
    for part in &quota.regions {
        let Some(wanted) = part.wanted.filter(|wanted| *wanted != part.allotment) else { continue };
        output::note(&format!(
            "{} in {}: {} now, {} as soon as regions have agreed",
            quota.account,
            part.region,
            amounts(part.allotment),
            amounts(wanted)
        ));
    }
}

fn amounts(of: Amounts) -> String {
    format!("{} CPU, {}, {}", of.cpu, of.memory, output::count(of.tasks, "task"))
}

/// A row for each whole and each part, of which `limit` picks what is shown as its limit.
fn table(quotas: &[QuotaView], limit: impl Fn(&QuotaPart) -> Amounts) -> Result<(), Failure> {
    let row = |account: String, region: String, used: Amounts, limit: Amounts, as_of: String| {
        vec![
            account,
            region,
            format!("{}/{}", used.cpu, limit.cpu),
            format!("{}/{}", used.memory, limit.memory),
            format!("{}/{}", used.tasks, limit.tasks),
            as_of,
        ]
    };
    let rows = quotas.iter().flat_map(|quota| {
        let whole = row(quota.account.to_string(), "all".to_owned(), quota.used, quota.limit, "-".to_owned());
        let part = |part: &QuotaPart| {
            let as_of = ago(part.as_of);
            row(quota.account.to_string(), part.region.to_string(), part.used, limit(part), as_of)
        };
        std::iter::once(whole).chain(quota.regions.iter().map(part).collect::<Vec<_>>())
    });
    output::table(&["ACCOUNT", "REGION", "CPU", "MEMORY", "TASKS", "AS OF"], rows)
}

/// One region's part, as it is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    region: RegionId,
    amounts: Amounts,
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected REGION=cpu:CPU,memory:MEMORY,tasks:TASKS";
        let (region, amounts) = text.split_once('=').ok_or(EXPECTED)?;
        let region = region.parse().map_err(|error| format!("{error}"))?;
        let (mut cpu, mut memory, mut tasks) = (None, None, None);
        for amount in amounts.split(',') {
            let (name, value) = amount.split_once(':').ok_or(EXPECTED)?;
            match name {
                "cpu" => cpu = Some(value.parse().map_err(|error| format!("{error}"))?),
                "memory" => memory = Some(value.parse().map_err(|error| format!("{error}"))?),
                "tasks" => tasks = Some(value.parse().map_err(|_| format!("`{value}` is not a number of tasks"))?),
                other => return Err(format!("`{other}` is not an amount; {EXPECTED}")),
            }
        }
        let (Some(cpu), Some(memory), Some(tasks)) = (cpu, memory, tasks) else { return Err(EXPECTED.to_owned()) };
        Ok(Self { region, amounts: Amounts { cpu, memory, tasks } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read() {
        let part: Part = "eu=cpu:1.5,memory:2GiB,tasks:7".parse().unwrap();
        assert_eq!((part.region.as_str(), part.amounts.cpu.centi_cores(), part.amounts.tasks), ("eu", 150, 7));
        for bad in
            ["", "eu", "eu=", "eu=cpu:1", "eu=cpu:x,memory:1GiB,tasks:1", "EU=cpu:1,memory:1GiB,tasks:1", "eu=gpu:1"]
        {
            assert!(bad.parse::<Part>().is_err(), "{bad}");
        }
    }
}
