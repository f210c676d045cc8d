use super::target::Target;
use crate::{
    failure::Failure,
    output::{self, Format, moment, or_dash},
};
use polder_api::client::Client;

/// Explain why a task is where it is, or what it waits for
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  polder why shop/checkout/web/3")]
pub(crate) struct Why {
    /// The task, ACCOUNT/JOB/NUMBER
    #[arg(value_name = "TASK")]
    task: Target,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Why {
    pub(super) async fn run(self, client: Client) -> Result<(), Failure> {
        let task = match &self.task {
            Target::Task(task) => task,
            Target::Job(job) => {
                let tasks = client.job(job).await?.spec.tasks;
                let hint = match tasks {
                    1 => format!("name its task: `polder why {job}/0`"),
                    many => format!("name one of its tasks, {job}/0 to {job}/{}: `polder why {job}/0`", many - 1),
                };
                return Err(Failure::user(format!("`{job}` is a job")).with_hint(hint));
            }
        };
        let why = client.why(task).await?;
        if self.output == Format::Json {
            return output::json(&why);
        }
        output::line(&format!(
            "{} in {}: {}, host {}",
            why.task,
            why.region,
            why.phase.as_str(),
            or_dash(why.host.as_ref())
        ))?;
        output::line(&why.summary)?;
        if let Some(wait) = &why.waiting {
            let until = wait.until.map_or_else(String::new, |until| format!(", until {} at the latest", moment(until)));
            output::line(&format!("waits ({}): {}{until}", wait.reason, wait.message))?;
        }
        if why.considered > 0 {
            output::line(&format!("\nlooked at {}", output::count(why.considered, "host")))?;
        }
        if why.rejected.is_empty() {
            return Ok(());
        }
        let row = |rejected: &polder_api::dto::Rejection| vec![rejected.hosts.to_string(), rejected.message.clone()];
        output::table(&["HOSTS", "RULED OUT BECAUSE"], why.rejected.iter().map(row))
    }
}
