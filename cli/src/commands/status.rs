use crate::{
    failure::Failure,
    output::{self, Format, age, ago, or_dash},
};
use polder_api::{
    Code,
    client::{Client, ClientError},
    dto::{JobList, JobStatus, JobSummary, RegionPart, TaskView},
};
use polder_types::{JobId, TaskId};

/// Show jobs, or one job with its regions and tasks
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  polder status\n  polder status shop/checkout/web -o wide")]
pub(crate) struct Status {
    /// The job, ACCOUNT/NAME; all jobs without it
    job: Option<JobId>,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Status {
    pub(super) async fn run(self, client: Client) -> Result<(), Failure> {
        match &self.job {
            Some(job) => {
                let status = match client.job(job).await {
                    Ok(status) => status,
                    Err(error) => return Err(not_there(&client, job, error).await),
                };
                if self.output == Format::Json { output::json(&status) } else { one(&status, self.output) }
            }
            None => {
                let jobs = client.all_jobs().await?;
                if self.output == Format::Json {
                    return output::json(&JobList { jobs, next: None });
                }
                all(&jobs, self.output)
            }
        }
    }
}

/// A task that was taken for a job is told from a job that is not there.
async fn not_there(client: &Client, job: &JobId, error: ClientError) -> Failure {
    let unknown = error.problem().is_some_and(|problem| problem.code == Code::JobNotFound);
    if let Some(task) = job.to_string().parse::<TaskId>().ok().filter(|_| unknown)
        && client.job(&task.job).await.is_ok()
    {
        return Failure::user(format!("`{task}` is a task of the job `{}`", task.job)).with_hint(format!(
            "`polder why {task}` says how it does; `polder status {}` lists all of its tasks",
            task.job
        ));
    }
    error.into()
}

fn all(jobs: &[JobSummary], format: Format) -> Result<(), Failure> {
    let wide = format == Format::Wide;
    let mut headings = vec!["JOB", "KIND", "STATE", "READY", "UPDATED", "GENERATION"];
    if wide {
        headings.extend(["RUNNING", "REGIONS"]);
    }
    let row = |job: &JobSummary| {
        let kind = serde_json::to_value(job.kind).ok().and_then(|kind| kind.as_str().map(str::to_owned));
        let mut row = vec![
            job.job.to_string(),
            or_dash(kind),
            job.state.as_str().to_owned(),
            format!("{}/{}", job.ready, job.wanted),
            format!("{}/{}", job.updated, job.wanted),
            job.generation.to_string(),
        ];
        if wide {
            let part =
                |part: &RegionPart| format!("{}={}:{}/{}", part.region, part.state.as_str(), part.ready, part.wanted);
            row.push(job.running.to_string());
            row.push(job.regions.iter().map(part).collect::<Vec<_>>().join(" "));
        }
        row
    };
    output::table(&headings, jobs.iter().map(row))
}

fn one(status: &JobStatus, format: Format) -> Result<(), Failure> {
    output::line(&format!(
        "{} is {}, generation {}\nimage {}\n",
        status.job,
        status.state.as_str(),
        status.generation,
        status.spec.image
    ))?;
    let part = |part: &RegionPart| {
        vec![
            part.region.to_string(),
            part.state.as_str().to_owned(),
            format!("{}/{}", part.ready, part.wanted),
            format!("{}/{}", part.updated, part.wanted),
            part.running.to_string(),
            part.generation.to_string(),
            ago(part.as_of),
            or_dash(part.detail.as_ref()),
        ]
    };
    let headings = ["REGION", "STATE", "READY", "UPDATED", "RUNNING", "GENERATION", "AS OF", "DETAIL"];
    output::table(&headings, status.regions.iter().map(part))?;
    if status.tasks.is_empty() {
        return Ok(());
    }
    output::line("")?;
    tasks(&status.tasks, format == Format::Wide)
}

fn tasks(tasks: &[TaskView], wide: bool) -> Result<(), Failure> {
    let mut headings = vec!["TASK", "REGION", "HOST", "PHASE", "READY", "SINCE", "RESTARTS", "PORTS"];
    if wide {
        headings.extend(["EPOCH", "GENERATION", "PID", "LAST EXIT"]);
    }
    headings.push("WAITS FOR");
    let row = |task: &TaskView| {
        let ports: Vec<String> = task.ports.iter().map(|port| format!("{}={}", port.name, port.address)).collect();
        let mut row = vec![
            task.task.index.to_string(),
            task.region.to_string(),
            or_dash(task.host.as_ref()),
            task.phase.as_str().to_owned(),
            if task.ready { "yes" } else { "no" }.to_owned(),
            age(task.since),
            task.restarts.to_string(),
            or_dash((!ports.is_empty()).then(|| ports.join(" "))),
        ];
        if wide {
            row.push(task.epoch.to_string());
            row.push(task.generation.to_string());
            row.push(or_dash(task.pid));
            row.push(or_dash(task.last_exit.as_ref().map(|exit| &exit.status)));
        }
        row.push(or_dash(task.waiting.as_ref().map(|wait| &wait.message)));
        row
    };
    output::table(&headings, tasks.iter().map(row))
}
