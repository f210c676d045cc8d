//! The log of one task, through the restarts of the task and of whoever tells it.

use crate::{failure::Failure, output::note};
use bytes::Bytes;
use futures::StreamExt as _;
use polder_api::{
    Code,
    client::{Client, ClientError, Stream},
    dto::{LogQuery, PartState, TaskPhase},
};
use polder_types::{Epoch, TaskId};
use std::time::Duration;
use tokio::time::sleep;

/// Pause before a log that ended is asked for again.
const PAUSE: Duration = Duration::from_millis(500);

/// The log of one task.
pub(super) struct Log {
    client: Client,
    task: TaskId,
    query: LogQuery,
    pieces: Option<Stream<Bytes>>,
    /// The container whose log is, or was, being read.
    epoch: Option<Epoch>,
    /// Whether it was said that something broke, since it last went on.
    told: bool,
}

/// Whether a log goes on.
enum Next {
    /// In this container.
    Container(Epoch),
    /// Later, perhaps.
    Later,
    /// Never.
    Never,
}

impl Log {
    pub(super) async fn open(client: Client, task: TaskId, query: LogQuery) -> Result<Self, Failure> {
        let mut log = Self { client, task, query, pieces: None, epoch: None, told: false };
        if log.query.follow
            && let Next::Container(epoch) = log.look().await?
        {
            log.epoch = Some(epoch);
        }
        match log.client.logs(&log.task, &log.query).await {
            Ok(pieces) => log.pieces = Some(pieces),
            Err(error) if log.query.follow && passes(&error) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(log)
    }

    /// The next piece; none at the end.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, Failure>> {
        loop {
            let trouble = match &mut self.pieces {
                Some(pieces) => match pieces.next().await {
                    Some(Ok(piece)) => {
                        self.told = false;
                        return Some(Ok(piece));
                    }
                    Some(Err(error)) => Some(error),
                    None => None,
                },
                None => None,
            };
            self.pieces = None;
            if !self.query.follow {
                return trouble.map(|error| Err(self.broken(&error)));
            }
            if let Some(error) = trouble.filter(|_| !self.told) {
                note(&format!("{}: {error}; trying again", self.task));
                self.told = true;
            }
            match self.go_on().await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(failure) => return Some(Err(failure)),
            }
        }
    }

    /// Opens the log again once there is something to read; false when there never will be.
    async fn go_on(&mut self) -> Result<bool, Failure> {
        sleep(PAUSE).await;
        let epoch = match self.look().await {
            Ok(Next::Container(epoch)) => epoch,
            Ok(Next::Later) => return Ok(true),
            Ok(Next::Never) => return Ok(false),
            Err(failure) => return Err(failure),
        };
        let tail = match self.epoch {
            None => self.query.tail,
            // What was read of a container is not read again.
            Some(read) if read == epoch || self.told => Some(0),
            // A new one is read from its beginning.
            Some(_) => None,
        };
        let query = LogQuery { follow: true, tail };
        match self.client.logs(&self.task, &query).await {
            Ok(pieces) => {
                if self.told {
                    note(&format!("{}: goes on; what was printed meanwhile is missing here", self.task));
                }
                self.epoch = Some(epoch);
                self.pieces = Some(pieces);
                Ok(true)
            }
            Err(error) if passes(&error) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Where the task stands.
    async fn look(&self) -> Result<Next, Failure> {
        let status = match self.client.job(&self.task.job).await {
            Ok(status) => status,
            Err(error) if error.is_retryable() && self.epoch.is_some() => return Ok(Next::Later),
            Err(error) => return Err(error.into()),
        };
        let over = matches!(status.state, PartState::Stopped | PartState::Completed);
        Ok(match status.tasks.iter().find(|view| view.task == self.task) {
            None => Next::Never,
            Some(view) if over || matches!(view.phase, TaskPhase::Completed | TaskPhase::Failed) => {
                if self.epoch == Some(view.epoch) || view.epoch == Epoch::default() {
                    Next::Never
                } else {
                    Next::Container(view.epoch)
                }
            }
            Some(view) if matches!(view.phase, TaskPhase::Running | TaskPhase::Stopping) => Next::Container(view.epoch),
            Some(_) => Next::Later,
        })
    }

    fn broken(&self, error: &ClientError) -> Failure {
        Failure::system(format!("the log of {} broke off: {error}", self.task))
            .with_hint(format!("`polder why {}` shows where the task is now; ask for its log again", self.task))
    }
}

fn passes(error: &ClientError) -> bool {
    error.is_retryable() || error.problem().is_some_and(|problem| problem.code == Code::LogsNotFound)
}
