use crate::{failure::Failure, output};
use core::str::FromStr;
use futures::{StreamExt as _, stream};
use polder_api::{
    client::{Client, ClientError, Stream},
    dto::LogQuery,
};
use polder_types::{JobId, NameError, TaskId};

/// Most tasks whose logs are read at once.
const TASKS_MAX: usize = 64;
/// Longest line that is kept together; a longer one is cut into several.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Print what a job's tasks, or one task, have printed
///
/// With several tasks, each line begins with the number of its task.
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

#[derive(Clone, Debug)]
enum Target {
    Job(JobId),
    Task(TaskId),
}

impl FromStr for Target {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match text.parse() {
            Ok(task) => Ok(Self::Task(task)),
            Err(_) => text.parse().map(Self::Job),
        }
    }
}

impl Logs {
    pub(super) async fn run(self, client: Client) -> Result<(), Failure> {
        let query = LogQuery { follow: self.follow, tail: self.tail };
        match &self.target {
            Target::Task(task) => {
                let mut pieces = client.logs(task, &query).await?;
                while let Some(piece) = pieces.next().await {
                    output::bytes(&piece?)?;
                }
                Ok(())
            }
            Target::Job(job) => all(&client, job, &query).await,
        }
    }
}

async fn all(client: &Client, job: &JobId, query: &LogQuery) -> Result<(), Failure> {
    let status = client.job(job).await?;
    let tasks: Vec<TaskId> =
        status.tasks.into_iter().filter(|task| task.host.is_some()).map(|task| task.task).collect();
    if tasks.is_empty() {
        output::note(&format!("no task of `{job}` has a host yet: there are no logs"));
    }
    if tasks.len() > TASKS_MAX {
        let message = format!("`{job}` has {} tasks; the logs of {TASKS_MAX} at most are read at once", tasks.len());
        return Err(Failure::user(message).with_hint(format!("name one: `polder logs {job}/0`")));
    }
    let mut logs = Vec::new();
    for task in tasks {
        match client.logs(&task, query).await {
            Ok(pieces) => logs.push(lines(task.index, pieces)),
            Err(error) => output::note(&format!("{task}: {error}")),
        }
    }
    let mut lines = stream::select_all(logs);
    while let Some(line) = lines.next().await {
        match line {
            (_, Ok(line)) => output::bytes(&line)?,
            // The others go on.
            (index, Err(error)) => output::note(&format!("{job}/{index}: {error}")),
        }
    }
    Ok(())
}

type Line = (u32, Result<Vec<u8>, ClientError>);

/// The lines of a task's log, each with its task's number in front.
fn lines(index: u32, pieces: Stream<impl AsRef<[u8]> + Send + 'static>) -> stream::BoxStream<'static, Line> {
    let state = (pieces, Vec::new(), false);
    stream::unfold(state, move |(mut pieces, mut rest, ended): (_, Vec<u8>, bool)| async move {
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
                return Some(((index, Ok(line)), (pieces, rest, ended)));
            }
            if ended {
                return None;
            }
            match pieces.next().await {
                Some(Ok(piece)) => rest.extend_from_slice(piece.as_ref()),
                Some(Err(error)) => return Some(((index, Err(error)), (pieces, rest, true))),
                None => ended = true,
            }
        }
    })
    .boxed()
}
