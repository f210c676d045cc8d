use super::wait::{self, Deadline, Look};
use crate::{failure::Failure, output::line};
use polder_api::{
    client::Client,
    dto::{JobStatus, PartState},
};
use polder_types::{JobId, Millis};

/// Stop a job
///
/// Each task gets its stop signal, then SIGKILL after its grace. Applying the job again starts it again; `polder delete`
/// forgets it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  polder stop shop/checkout/web --wait")]
pub(crate) struct Stop {
    /// The job, ACCOUNT/NAME
    job: JobId,
    /// Wait until nothing of it is left; exit 2 when that does not happen in time
    #[arg(long)]
    wait: bool,
    /// How long to wait
    #[arg(long, value_name = "TIME", default_value = "5m", requires = "wait")]
    timeout: Millis,
}

impl Stop {
    pub(super) async fn run(self, client: Client) -> Result<(), Failure> {
        let answer = client.stop_job(&self.job).await?;
        let text = if answer.changed { "is being stopped" } else { "was stopped already" };
        line(&format!("{} {text}", answer.job))?;
        if self.wait {
            let deadline = Deadline::after(self.timeout);
            wait::for_job(&client, &self.job, &deadline, "stopped", stopped).await?;
            line(&format!("{} is stopped", self.job))?;
        }
        Ok(())
    }
}

/// Whether nothing of a job is left.
pub(super) fn stopped(status: JobStatus) -> Look<JobStatus> {
    let stopped = status.regions.iter().all(|part| part.state == PartState::Stopped);
    if stopped { Look::Done(status) } else { Look::NotYet(status) }
}
