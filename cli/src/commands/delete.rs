use super::{
    stop::stopped,
    wait::{self, Deadline},
};
use crate::{
    failure::Failure,
    output::{line, note},
};
use polder_api::{
    Code,
    client::{Client, ClientError},
};
use polder_types::{JobId, Millis};

/// Forget a stopped job, so that its name is free again
///
/// Refused while anything of it is left: with --stop it is stopped first, and deleted once nothing of it is left.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  polder delete shop/checkout/web --stop")]
pub(crate) struct Delete {
    /// The job, ACCOUNT/NAME
    job: JobId,
    /// Stop it first, and wait until nothing of it is left
    #[arg(long)]
    stop: bool,
    /// How long to wait for that
    #[arg(long, value_name = "TIME", default_value = "5m", requires = "stop")]
    timeout: Millis,
}

impl Delete {
    pub(super) async fn run(self, client: Client) -> Result<(), Failure> {
        let deadline = Deadline::after(self.timeout);
        if self.stop {
            if client.stop_job(&self.job).await?.changed {
                note(&format!("{} is being stopped", self.job));
            }
            wait::for_job(&client, &self.job, &deadline, "stopped", stopped).await?;
        }
        let answer = loop {
            match client.delete_job(&self.job).await {
                Ok(answer) => break answer,
                // Nothing runs any more, but not every region has said so yet.
                Err(error) if self.stop && passes(&error) => {
                    if !deadline.next_look().await {
                        return Err(error.into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        };
        if answer.gone {
            return line(&format!("{} is deleted", answer.job));
        }
        line(&format!("{} is being deleted", answer.job))?;
        note(&format!(
            "not every region has said yet that it has forgotten it; `polder status {}` shows which, until it is gone",
            answer.job
        ));
        Ok(())
    }
}

fn passes(error: &ClientError) -> bool {
    error.is_retryable() || error.problem().is_some_and(|problem| problem.code == Code::JobNotGone)
}
