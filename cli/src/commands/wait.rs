//! Waits until a job or a drain is where it should be.

use crate::{
    failure::{Failure, SYSTEM, USER},
    output::note,
    progress::Progress,
};
use polder_api::{
    client::{Client, ClientError},
    dto::{JobStatus, PartState, RegionPart, TaskView},
};
use polder_types::{JobId, Millis};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Tasks whose reasons are listed when waiting was in vain.
const REASONS_MAX: usize = 10;

/// How long to wait.
pub(super) struct Deadline {
    at: Instant,
    length: Millis,
}

impl Deadline {
    pub(super) fn after(length: Millis) -> Self {
        // A wait longer than a clock can tell is one without an end.
        let now = Instant::now();
        let at = now.checked_add(length.to_duration()).unwrap_or_else(|| now + Duration::from_secs(86_400 * 365));
        Self { at, length }
    }

    /// Waits until it is time for another look. False when there is no time for one.
    pub(super) async fn next_look(&self) -> bool {
        if Instant::now() + LOOK_EVERY > self.at {
            return false;
        }
        sleep(LOOK_EVERY).await;
        true
    }
}

/// What one look said.
pub(super) enum Look<T> {
    /// It is there.
    Done(T),
    /// It never will be: tasks have failed for good.
    Never(T),
    /// It never will be: a region refuses it as it is.
    Refused(T),
    /// Not yet.
    NotYet(T),
}

/// Looks at a job until `judge` is content with it. Errors that pass by themselves are waited out.
pub(super) async fn for_job(
    client: &Client,
    job: &JobId,
    deadline: &Deadline,
    what: &str,
    judge: impl Fn(JobStatus) -> Look<JobStatus>,
) -> Result<JobStatus, Failure> {
    let mut progress = Progress::new();
    let mut last: Option<JobStatus> = None;
    let mut trouble: Option<ClientError>;
    let (code, vain, hint) = loop {
        match client.job(job).await {
            Ok(status) => {
                trouble = None;
                for part in &status.regions {
                    show(&mut progress, part);
                }
                match judge(status) {
                    Look::Done(status) => {
                        progress.finish();
                        return Ok(status);
                    }
                    Look::Never(status) => {
                        last = Some(status);
                        let hint = format!("`polder logs {job}` may show why; correct the job and apply it again");
                        break (SYSTEM, format!("`{job}` will not be {what}: tasks have failed for good"), hint);
                    }
                    Look::Refused(status) => {
                        let parts = status.regions.iter().filter(|part| part.state == PartState::Refused);
                        let why: Vec<String> =
                            parts.map(|part| format!("{}: {}", part.region, reason_of(part))).collect();
                        last = None;
                        let hint =
                            "correct what is refused and apply it again; the other regions go on with their parts";
                        break (USER, format!("`{job}` will not be {what}: {}", why.join("; ")), hint.to_owned());
                    }
                    Look::NotYet(status) => last = Some(status),
                }
            }
            Err(error) if error.is_retryable() => trouble = Some(error),
            Err(error) => return Err(error.into()),
        }
        if !deadline.next_look().await {
            let hint = format!("it goes on by itself: `polder status {job}` shows how");
            break (SYSTEM, format!("`{job}` is not {what} after {}", deadline.length), hint);
        }
    };
    progress.finish();
    explain(last.as_ref());
    let message = match trouble {
        Some(trouble) => format!("{vain}: {trouble}"),
        None => vain,
    };
    Err(Failure::Plain { code, message, hint: Some(hint) })
}

fn show(progress: &mut Progress, part: &RegionPart) {
    let mut text = format!("{}, {} of {} ready", part.state.as_str(), part.ready, part.wanted);
    // During an update those of the older spec are ready, too.
    if part.updated < part.ready {
        text.push_str(&format!(", {} updated", part.updated));
    }
    if part.completed > 0 {
        text.push_str(&format!(", {} completed", part.completed));
    }
    if let Some(detail) = &part.detail {
        text.push_str(&format!(" ({detail})"));
    }
    let done = part.ready.min(part.updated).saturating_add(part.completed);
    progress.show(part.region.as_str(), done, part.wanted, &text);
}

/// Says for each region, and some tasks, what is in the way.
fn explain(status: Option<&JobStatus>) {
    let Some(status) = status else { return };
    for part in status.regions.iter().filter(|part| !matches!(part.state, PartState::Healthy | PartState::Completed)) {
        let detail = reason_of(part);
        note(&format!("{}: {}, {} of {} ready: {detail}", part.region, part.state.as_str(), part.ready, part.wanted));
    }
    let waiting: Vec<&TaskView> = status.tasks.iter().filter(|task| !task.ready && reason(task).is_some()).collect();
    for task in waiting.iter().take(REASONS_MAX) {
        note(&format!("  {}: {}", task.task, reason(task).unwrap_or_default()));
    }
    if waiting.len() > REASONS_MAX {
        note(&format!("  and {} more", waiting.len() - REASONS_MAX));
    }
}

fn reason_of(part: &RegionPart) -> &str {
    part.detail.as_deref().unwrap_or("no reason given")
}

fn reason(task: &TaskView) -> Option<String> {
    let waits = task.waiting.as_ref().map(|wait| wait.message.clone());
    let ended = task.last_exit.as_ref().map(|exit| format!("last ended with {}", exit.status));
    match (waits, ended) {
        (Some(waits), Some(ended)) => Some(format!("{waits}; {ended}")),
        (waits, ended) => waits.or(ended),
    }
}
