//! What a task has printed. One that is followed is followed through its starts, on whatever hosts: between two of its
//! containers, and where a log breaks off, a line says so.

use super::{Read as _, RegionApi, not_ready};
use crate::links::{LogError, LogStream};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use polder_api::{Code, Problem, dto::LogQuery, server::Stream};
use polder_core::job_shard::{TaskState, TaskView};
use polder_types::{ContainerPhase, Epoch, HostId, TaskId};
use std::{sync::Arc, time::Duration};

/// How long a log that is followed may take to begin before its reader is answered without knowing how it begins.
const FIRST_CHUNK_TIMEOUT: Duration = Duration::from_secs(2);
/// How long any piece of a log may take that is not followed: it is there, so a host that is heard sends it at once.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(10);
/// How often is looked whether a task that is followed has another container.
const NEXT_EVERY: Duration = Duration::from_millis(500);

type Piece = Result<Bytes, Problem>;

fn unreachable(host: &HostId, what: &str) -> Problem {
    Problem::new(Code::HostUnreachable, format!("host {host} {what}")).with_hint(
        "what it runs goes on running, and its logs are kept there; try again when it is back (`polder hosts`)",
    )
}

fn marker(text: &str) -> Bytes {
    Bytes::from(format!("--- {text} ---\n"))
}

/// A container whose log is read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    host: HostId,
    epoch: Epoch,
}

/// The container whose log is the newest that there can be.
fn newest(view: &TaskView) -> Option<Source> {
    let begun = view.current.as_ref().filter(|at| {
        matches!(at.phase, Some(ContainerPhase::Running { .. } | ContainerPhase::Stopping { .. }))
            // Not heard since this node took over: it may well run.
            || (at.phase.is_none() && view.state == TaskState::Unknown)
    });
    let current = begun.map(|at| Source { host: at.host.clone(), epoch: at.container.epoch });
    current.or_else(|| {
        let exit = view.last_exit.as_ref()?;
        Some(Source { host: exit.host.clone(), epoch: exit.epoch })
    })
}

/// Whether a task will never print anything again, as things are.
const fn is_over(view: &TaskView) -> bool {
    view.current.is_none() && (view.outcome.is_some() || !view.wanted)
}

/// A task that is followed.
struct Follow {
    api: RegionApi,
    task: TaskId,
    /// The container that was read last.
    source: Source,
    log: Option<LogStream>,
    /// Whether its log broke off before its end.
    broken: bool,
    first: Option<Piece>,
}

impl Follow {
    async fn next(&mut self) -> Option<Piece> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if let Some(log) = &mut self.log {
            match log.next().await {
                Some(Ok(bytes)) => return Some(Ok(bytes)),
                Some(Err(why)) => {
                    (self.broken, self.log) = (log.is_lost(), None);
                    let Source { host, epoch } = &self.source;
                    let text = format!("the log of {}@{epoch} on host {host} breaks off: {why}", self.task);
                    return Some(Ok(marker(&text)));
                }
                None => self.log = None,
            }
        }
        if self.broken {
            tokio::time::sleep(NEXT_EVERY).await;
        }
        loop {
            let view = match self.api.find_task(&self.task).await {
                Ok(Some(view)) => view,
                // Deleted, or this node is not the owner any more.
                Ok(None) => return None,
                Err(problem) => return Some(Err(problem)),
            };
            let next =
                newest(&view).filter(|next| next.epoch > self.source.epoch || (self.broken && *next == self.source));
            if let Some(next) = next.filter(|_| view.state != TaskState::Unknown) {
                let again = next == self.source;
                let tail = again.then_some(0);
                // One that has no link now is tried again.
                if let Ok(log) =
                    self.api.region.links.read_log(&next.host, self.task.clone(), Some(next.epoch), true, tail)
                {
                    let what = if again { "goes on; what it printed meanwhile is not shown" } else { "begins" };
                    let text = format!("{}@{} on host {} {what}", self.task, next.epoch, next.host);
                    (self.log, self.broken, self.source) = (Some(log), false, next);
                    return Some(Ok(marker(&text)));
                }
            } else if is_over(&view) {
                return None;
            }
            tokio::time::sleep(NEXT_EVERY).await;
        }
    }
}

impl RegionApi {
    async fn find_task(&self, task: &TaskId) -> Result<Option<TaskView>, Problem> {
        let shard = self.region.owner_of(&task.job).ok_or_else(not_ready)?;
        let wanted = task.clone();
        shard.read(move |shard| shard.task_view(&wanted)).await
    }

    pub(super) async fn read_logs(&self, task: TaskId, query: LogQuery) -> Result<Stream<Piece>, Problem> {
        let view = self.find_task(&task).await?.ok_or_else(|| super::jobs::no_such_task(&task))?;
        let Some(source) = newest(&view) else {
            return Err(Problem::new(Code::LogsNotFound, format!("task {task} has had no container yet"))
                .with_hint(format!("`polder why {task}` says what it waits for")));
        };
        let runs = view.current.as_ref().is_some_and(|at| at.container.epoch == source.epoch);
        let host = &source.host;
        if view.state == TaskState::Unknown && runs {
            return Err(unreachable(host, "is not heard"));
        }
        let log = self.region.links.read_log(host, task.clone(), Some(source.epoch), query.follow, query.tail);
        let mut log = log.map_err(|error| match error {
            LogError::NotLinked => unreachable(host, "has no open link"),
            LogError::Busy => Problem::new(Code::Overloaded, format!("too many logs are being read from host {host}")),
        })?;
        // What is wrong from the start is an answer, not a stream that breaks off. A task that prints nothing is not wrong.
        let patience = if query.follow { FIRST_CHUNK_TIMEOUT } else { CHUNK_TIMEOUT };
        let first = match tokio::time::timeout(patience, log.next()).await {
            Ok(Some(Err(why))) if self.region.links.get(host).is_none() => {
                return Err(unreachable(host, &format!("was lost: {why}")));
            }
            Ok(Some(Err(why))) => return Err(Problem::new(Code::LogsNotFound, format!("host {host}: {why}"))),
            Ok(first) => first.map(|piece| piece.map_err(|why| Problem::new(Code::LogsNotFound, why))),
            Err(_) if query.follow => None,
            Err(_) => return Err(unreachable(host, "does not answer")),
        };
        if query.follow {
            let api = Self { region: Arc::clone(&self.region) };
            let follow = Follow { api, task, source, log: Some(log), broken: false, first };
            return Ok(stream::unfold(follow, |mut follow| async move {
                let piece = follow.next().await?;
                Some((piece, follow))
            })
            .boxed_local());
        }
        Ok(stream::iter(first).chain(rest(log, task, source)).boxed_local())
    }
}

/// The rest of a log that is not followed. Where it breaks off a line says why, before the connection breaks off.
fn rest(log: LogStream, task: TaskId, source: Source) -> Stream<Piece> {
    let breaks_off = move |why: &str| {
        let Source { host, epoch } = &source;
        let text = format!("the log of {task}@{epoch} on host {host} breaks off: {why}");
        (Ok(marker(&text)), Err(unreachable(host, &format!("does not go on with its log: {why}"))))
    };
    stream::unfold((Some(log), None, breaks_off), |(log, error, breaks_off)| async move {
        if let Some(error) = error {
            return Some((error, (None, None, breaks_off)));
        }
        let mut log = log?;
        let why = match tokio::time::timeout(CHUNK_TIMEOUT, log.next()).await {
            Ok(Some(Ok(bytes))) => return Some((Ok(bytes), (Some(log), None, breaks_off))),
            Ok(None) => return None,
            Ok(Some(Err(why))) => why,
            Err(_) => "it does not answer".to_owned(),
        };
        let (line, error) = breaks_off(&why);
        Some((line, (None, Some(error), breaks_off)))
    })
    .boxed_local()
}
