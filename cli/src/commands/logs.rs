use super::{follow::Log, target::Target};
use crate::{failure::Failure, output};
use futures::{StreamExt as _, stream};
use polder_api::{
    client::Client,
    dto::{JobStatus, LogQuery, PartState, TaskView},
};
use polder_types::{JobId, TaskId};

/// Most tasks whose logs are read at once.
const TASKS_MAX: usize = 64;
/// Longest line that is kept together; a longer one is cut into several.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Print what a job's tasks, or one task, have printed
///
/// With several tasks, each line begins with the number of its task. With --follow, a task that is started again is
/// followed into its next container, until it is done or its job is stopped.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  polder logs shop/checkout/web/3 -f --tail 20")]
pub(crate) struct Logs {
    /// The job, ACCOUNT/NAME, or one task of it, ACCOUNT/NAME/NUMBER
    #[arg(value_name = "JOB[/TASK]")]
    target: Target,
    /// Go on with what is printed from now on
    #[arg(short, long)]
    follow: bool,
    /// Begin with so many last lines of each task
    #[arg(long, value_name = "LINES")]
    tail: Option<u32>,
}

impl Logs {
    pub(super) async fn run(self, client: Client) -> Result<(), Failure> {
        let query = LogQuery { follow: self.follow, tail: self.tail };
        match self.target {
            Target::Task(task) => {
                let mut log = Log::open(client, task, query).await?;
                while let Some(piece) = log.next().await {
                    output::bytes(&piece?)?;
                }
                Ok(())
            }
            Target::Job(job) => all(&client, &job, &query).await,
        }
    }
}

async fn all(client: &Client, job: &JobId, query: &LogQuery) -> Result<(), Failure> {
    let status = client.job(job).await?;
    tell_what_is_missing(&status, query.follow);
    let tasks: Vec<TaskId> =
        status.tasks.into_iter().filter(|task| has_log(task) || query.follow).map(|task| task.task).collect();
    if tasks.len() > TASKS_MAX {
        let message = format!("`{job}` has {} tasks; the logs of {TASKS_MAX} at most are read at once", tasks.len());
        return Err(Failure::user(message).with_hint(format!("name one: `polder logs {job}/0`")));
    }
    let mut logs = Vec::new();
    for task in tasks {
        let index = task.index;
        match Log::open(client.clone(), task.clone(), query.clone()).await {
            Ok(log) => logs.push(lines(index, log)),
            Err(failure) => output::note(&format!("{task}: {failure}")),
        }
    }
    let mut lines = stream::select_all(logs);
    while let Some(line) = lines.next().await {
        match line {
            (_, Ok(line)) => output::bytes(&line)?,
            // The others go on.
            (index, Err(failure)) => output::note(&format!("{job}/{index}: {failure}")),
        }
    }
    Ok(())
}

fn has_log(task: &TaskView) -> bool {
    task.host.is_some() || task.last_exit.is_some()
}

/// Says, one line each, which regions and tasks print nothing here.
fn tell_what_is_missing(status: &JobStatus, follow: bool) {
    let silent = |task: &TaskView| {
        status.regions.iter().any(|part| part.region == task.region && part.state == PartState::Unknown)
    };
    for part in status.regions.iter().filter(|part| part.state == PartState::Unknown) {
        let tasks = u32::try_from(status.tasks.iter().filter(|task| task.region == part.region).count());
        let tasks = output::count(tasks.unwrap_or(u32::MAX), "task");
        output::note(&format!("region {}: not heard, so the logs of its {tasks} are missing here", part.region));
    }
    for task in status.tasks.iter().filter(|task| !has_log(task) && !silent(task)) {
        let why = task.waiting.as_ref().map_or("it has had no container yet", |wait| wait.message.as_str());
        let until = if follow { "; it is followed once it starts" } else { "" };
        output::note(&format!("{}: no log yet: {}, {why}{until}", task.task, task.phase.as_str()));
    }
    if status.tasks.is_empty() {
        output::note(&format!("`{}` has no tasks now: there are no logs", status.job));
    }
}

type Line = (u32, Result<Vec<u8>, Failure>);

/// The lines of a task's log, each with its task's number in front.
fn lines(index: u32, log: Log) -> stream::LocalBoxStream<'static, Line> {
    let state = (log, Vec::new(), false);
    stream::unfold(state, move |(mut log, mut rest, ended): (_, Vec<u8>, bool)| async move {
        let mut ended = ended;
        loop {
            let end = rest.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
            let end =
                end.or_else(|| (rest.len() > LINE_BYTES_MAX || (ended && !rest.is_empty())).then_some(rest.len()));
            if let Some(end) = end {
                let mut line = format!("[{index}] ").into_bytes();
                line.extend(rest.drain(..end));
                if !line.ends_with(b"\n") {
                    line.push(b'\n');
                }
                return Some(((index, Ok(line)), (log, rest, ended)));
            }
            if ended {
                return None;
            }
            match log.next().await {
                Some(Ok(piece)) => rest.extend_from_slice(&piece),
                Some(Err(failure)) => return Some(((index, Err(failure)), (log, rest, true))),
                None => ended = true,
            }
        }
    })
    .boxed_local()
}
