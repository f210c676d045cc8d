use super::wait::{self, Deadline, Look};
use crate::{
    failure::Failure,
    job_source::{self, JobSource},
    output::line,
};
use polder_api::{
    client::Client,
    dto::{JobStatus, PartState},
};
use polder_types::{Generation, JobKind, Millis};
use std::path::Path;

/// Make what a job file says so
///
/// Creates the job, or changes the one that is there. Applying the same file again changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  polder apply -f web.toml --wait --timeout 2m")]
pub(crate) struct Apply {
    #[command(flatten)]
    source: JobSource,
    /// Use this image instead of the file's
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Wait until every task runs the new spec and is ready, or, of a batch, has done its work; exit 1 when a region
    /// refuses the job, 2 when tasks fail for good or it does not happen in time
    #[arg(long)]
    wait: bool,
    /// How long to wait
    #[arg(long, value_name = "TIME", default_value = "5m", requires = "wait")]
    timeout: Millis,
}

impl Apply {
    pub(super) async fn run(self, client: Client) -> Result<(), Failure> {
        let mut file = self.source.read()?.file;
        match &self.image {
            Some(image) => {
                file.image = job_source::absolute(image, Path::new(""))?;
                // The file itself is in order: what is wrong now is the image.
                if let Some(issue) = file.to_spec().err().and_then(|error| error.issues.into_iter().next()) {
                    let failure = Failure::user(format!("--image `{image}`: {}", issue.message));
                    return Err(match issue.hint {
                        Some(hint) => failure.with_hint(hint),
                        None => failure,
                    });
                }
            }
            None => self.source.absolute_image(&mut file)?,
        }
        let applied = client.apply(&file).await?;
        let verb = if applied.changed { "applied" } else { "unchanged" };
        line(&format!("{} {verb}, generation {}", applied.job, applied.generation))?;
        if self.wait {
            let deadline = Deadline::after(self.timeout);
            let (batch, end) =
                (file.kind == JobKind::Batch, if file.kind == JobKind::Batch { "completed" } else { "healthy" });
            let judge = |status| judge(status, applied.generation, batch);
            wait::for_job(&client, &applied.job, &deadline, end, judge).await?;
            line(&format!("{} is {end}", applied.job))?;
        }
        Ok(())
    }
}

/// A part counts only once it is about the spec that was applied.
fn judge(status: JobStatus, generation: Generation, batch: bool) -> Look<JobStatus> {
    if status.regions.iter().any(|part| part.state == PartState::Refused) {
        return Look::Refused(status);
    }
    let done = if batch { PartState::Completed } else { PartState::Healthy };
    let current = status.generation >= generation && status.regions.iter().all(|part| part.generation >= generation);
    let parts = || status.regions.iter().map(|part| part.state);
    if !current || status.regions.is_empty() {
        Look::NotYet(status)
    } else if parts().all(|state| state == done) {
        Look::Done(status)
    } else if parts().any(|state| state == PartState::Failed) {
        Look::Never(status)
    } else {
        Look::NotYet(status)
    }
}
