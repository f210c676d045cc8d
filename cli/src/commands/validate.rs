use crate::{failure::Failure, job_source::JobSource, output};
use polder_api::job_file::{self, JobFile};
use polder_types::JobKind;

/// Check a job file without running it
///
/// Asks no server: what a region has room for, or an account may use, shows when the job is applied.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  polder validate -f web.toml --defaults")]
pub(crate) struct Validate {
    #[command(flatten)]
    source: JobSource,
    /// Print the job as TOML, with all defaults filled in
    #[arg(long)]
    defaults: bool,
}

impl Validate {
    pub(super) fn run(self) -> Result<(), Failure> {
        let spec = self.source.read()?.spec;
        if self.defaults {
            let text = JobFile::from(&spec).to_toml().map_err(|error| Failure::system(error.to_string()))?;
            return output::bytes(text.as_bytes());
        }
        let kind = match spec.kind {
            JobKind::Service => "service",
            JobKind::Batch => "batch",
        };
        let tasks = output::count(spec.tasks, "task");
        output::line(&format!("{}: {} is a valid job: {kind}, {tasks}", self.source.name(), spec.id))
    }
}

/// Print the JSON Schema of the job file, for editors
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  polder schema > job-file.schema.json")]
pub(crate) struct Schema {}

impl Schema {
    pub(super) fn run(self) -> Result<(), Failure> {
        output::json(&job_file::schema())
    }
}
