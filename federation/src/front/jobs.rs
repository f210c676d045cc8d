//! Jobs: intents, with what regions say of their parts.

use super::{FederationApi, not_ready, unread};
use polder_api::{
    Code, Problem,
    dto::{
        self, ApplyResponse, DeleteResponse, JobList, JobStatus, JobSummary, Page, PartState, RegionPart, StopResponse,
        TaskPhase, TaskView, Wait, WaitCount,
    },
    job_file::JobFile,
};
use polder_core::{
    intent_router::{self as router, Answer, Event, IntentRecord, IntentView, RegionHealth, ShareView},
    message,
};
use polder_node::page;
use polder_types::{Generation, JobId, JobSpec, RegionId, TaskId, Timestamp};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// How often, and with which pause, it is looked whether a deleted job is gone before its order is answered.
const DELETED_LOOKS_MAX: u32 = 40;
const DELETED_PAUSE: Duration = Duration::from_millis(50);

pub(super) fn refused(problem: &router::Problem) -> Problem {
    let code = match problem {
        router::Problem::UnknownRegions { .. } | router::Problem::NoRegions { .. } => Code::RegionNotFound,
        router::Problem::CountsDiffer { .. }
        | router::Problem::NoWeight { .. }
        | router::Problem::ShareOfUnnamed { .. } => Code::JobFileInvalid,
        router::Problem::NotFound { .. } => Code::JobNotFound,
        router::Problem::NotStopped { .. } => Code::JobNotStopped,
        router::Problem::NotGone { .. } => Code::JobNotGone,
        router::Problem::BeingDeleted { .. } => Code::JobBeingDeleted,
        router::Problem::TooManyJobs { .. } => Code::Overloaded,
    };
    let answer = Problem::new(code, problem.to_string());
    match problem {
        router::Problem::NotFound { .. } => answer.with_hint("`polder status` lists those there are"),
        router::Problem::NotStopped { job } => answer.with_hint(format!(
            "`polder delete {job} --stop` stops it first, and deletes it when nothing of it is left"
        )),
        router::Problem::NotGone { job, .. } => {
            answer.with_hint(format!("`polder status {job}` shows what is left; try again when nothing is"))
        }
        router::Problem::BeingDeleted { job } => {
            answer.with_hint(format!("`polder status {job}` shows which region it waits for; try again in a moment"))
        }
        router::Problem::UnknownRegions { .. } => answer.with_hint("correct `regions` in the job file"),
        _ => answer,
    }
}

pub(super) fn no_such_job(job: &JobId) -> Problem {
    refused(&router::Problem::NotFound { job: job.clone() })
}

/// How one region's part does, as far as the federation knows.
fn part(record: &IntentRecord, share: &ShareView) -> Option<RegionPart> {
    let awaited = share.awaited.count();
    if share.slots.count() + awaited + share.leaving.count() == 0 {
        return None;
    }
    let has_newest = share.acked.is_some_and(|acked| acked >= share.version);
    let status = share.status.as_ref();
    let state = match (&share.region.health, status) {
        (RegionHealth::Silent { .. }, _) => PartState::Unknown,
        _ if share.refused.is_some() && !record.stopped => PartState::Refused,
        (_, Some(status)) if has_newest && status.version >= share.version => {
            let state = PartState::of_slice(&slice(status), record.spec.kind);
            if awaited > 0 && !record.stopped { PartState::Progressing } else { state }
        }
        _ if record.stopped => PartState::Stopping,
        _ => PartState::Pending,
    };
    let older = record.generation.0.saturating_sub(1);
    Some(RegionPart {
        region: share.region.region.clone(),
        state,
        as_of: share.region.as_of.unwrap_or_default(),
        generation: if has_newest { record.generation } else { Generation(older) },
        wanted: if record.stopped { 0 } else { share.slots.count() + awaited },
        running: status.map_or(0, |status| status.running),
        ready: status.map_or(0, |status| status.ready),
        // What is newest to the region is not, as long as it has not heard of what is.
        updated: status.filter(|_| has_newest).map_or(0, |status| status.updated),
        completed: status.map_or(0, |status| status.completed),
        failed: status.map_or(0, |status| status.failed),
        detail: detail(record, share, has_newest),
    })
}

fn slice(status: &message::SliceStatus) -> dto::SliceStatus {
    let waiting = status.waiting.iter();
    dto::SliceStatus {
        job: status.job.clone(),
        version: status.version,
        stopped: status.stopped,
        as_of: Timestamp::default(),
        wanted: status.wanted,
        running: status.running,
        ready: status.ready,
        updated: status.updated,
        completed: status.completed,
        failed: status.failed,
        leaving: status.leaving,
        stuck: status.stuck,
        waiting: waiting.map(|(reason, tasks)| WaitCount { reason: reason.clone(), tasks: *tasks }).collect(),
    }
}

fn detail(record: &IntentRecord, share: &ShareView, has_newest: bool) -> Option<String> {
    let region = &share.region.region;
    let mut parts = Vec::new();
    if record.deleting {
        parts.push("being deleted: the region has not said yet that it has forgotten it".to_owned());
    }
    if let Some(problem) = &share.refused {
        parts.push(format!("the region refuses it: {problem}"));
    } else if let RegionHealth::Silent { .. } = share.region.health {
        parts.push(format!("region {region} is not heard; what it runs goes on, and it keeps its share"));
    } else if !has_newest && !record.deleting {
        parts.push("the region has not said yet that it has the newest version".to_owned());
    }
    let status = share.status.iter().flat_map(|status| &status.waiting);
    parts.extend(status.map(|(reason, tasks)| format!("{tasks} waiting: {reason}")));
    if share.awaited.count() > 0 {
        let awaited = share.awaited.count();
        parts.push(format!("{awaited} waiting until the region that had them says that nothing of them is left"));
    }
    if share.leaving.count() > 0 {
        parts.push(format!("{} on their way to other regions or gone", share.leaving.count()));
    }
    if parts.is_empty() { None } else { Some(parts.join("; ")) }
}

fn parts(view: &IntentView<'_>) -> Vec<RegionPart> {
    view.regions.iter().filter_map(|share| part(view.record, share)).collect()
}

fn state(record: &IntentRecord, parts: &[RegionPart]) -> PartState {
    match (parts, record.stopped) {
        ([], true) => PartState::Stopped,
        _ => PartState::of_parts(parts.iter().map(|part| part.state)),
    }
}

/// The state of a job, of whose parts some turned out to be unknown.
fn state_of(state: PartState, parts: &[RegionPart]) -> PartState {
    if parts.is_empty() { state } else { PartState::of_parts(parts.iter().map(|part| part.state)) }
}

/// A generation that a region counted, in the federation's count: both count specs, but a region only those that it has
/// seen. `newest` is the region's newest, which stands for the federation's newest or one that is older.
fn counted_here(of_region: Generation, newest: Generation, here: Generation) -> Generation {
    let older = newest.0.saturating_sub(of_region.0);
    Generation(here.0.saturating_sub(older).max(1))
}

fn summary(view: &IntentView<'_>) -> JobSummary {
    let parts = parts(view);
    JobSummary {
        job: view.record.spec.id.clone(),
        kind: view.record.spec.kind,
        state: state(view.record, &parts),
        generation: view.record.generation,
        wanted: parts.iter().map(|part| part.wanted).sum(),
        running: parts.iter().map(|part| part.running).sum(),
        ready: parts.iter().map(|part| part.ready).sum(),
        updated: parts.iter().map(|part| part.updated).sum(),
        regions: parts,
    }
}

/// A job's record with its parts.
struct Found {
    record: IntentRecord,
    parts: Vec<RegionPart>,
    shares: Vec<ShareView>,
}

impl FederationApi {
    pub(super) async fn job_list(&self, wanted: &Page) -> Result<JobList, Problem> {
        let actors = self.federation.actors().ok_or_else(not_ready)?;
        let all = |router: &router::IntentRouter| router.intents().map(|view| summary(&view)).collect::<Vec<_>>();
        let mut jobs = actors.router.query(all).await.map_err(unread)?;
        for job in &mut jobs {
            self.look_at_links(&mut job.regions);
            job.state = state_of(job.state, &job.regions);
        }
        let (jobs, next) = page(jobs, wanted, |job| job.job.to_string());
        Ok(JobList { jobs, next })
    }

    async fn find_job(&self, job: &JobId) -> Result<Found, Problem> {
        let actors = self.federation.actors().ok_or_else(not_ready)?;
        let wanted = job.clone();
        let pick = move |router: &router::IntentRouter| {
            router.intent(&wanted).map(|view| Found {
                parts: parts(&view),
                record: view.record.clone(),
                shares: view.regions,
            })
        };
        actors.router.query(pick).await.map_err(unread)?.ok_or_else(|| no_such_job(job))
    }

    pub(super) async fn job_status(&self, job: JobId) -> Result<JobStatus, Problem> {
        let Found { record, mut parts, shares } = self.find_job(&job).await?;
        self.look_at_links(&mut parts);
        let regions: BTreeSet<&RegionId> = parts.iter().map(|part| &part.region).collect();
        let links: Vec<_> = regions.iter().filter_map(|region| self.link(region)).collect();
        let ask = |client: polder_api::client::Client| {
            let job = job.clone();
            async move { client.job(&job).await }
        };
        let answers = self.ask_regions(links, ask).await;
        let mut tasks: Vec<TaskView> = Vec::new();
        for (link, answer) in answers {
            let share = shares.iter().find(|share| share.region.region == link.region);
            match answer {
                Ok(status) => {
                    if let Some(part) = parts.iter_mut().find(|part| part.region == link.region) {
                        refine(part, status.regions.into_iter().next());
                    }
                    let newest = status.generation;
                    let counted = |mut task: TaskView| {
                        task.generation = counted_here(task.generation, newest, record.generation);
                        task
                    };
                    tasks.extend(status.tasks.into_iter().map(counted));
                }
                // The region may not have it yet, which is no trouble.
                Err(error) if error.problem().is_some_and(|problem| problem.code == Code::JobNotFound) => {
                    tasks.extend(share.into_iter().flat_map(|share| unseen(&record, share, TaskPhase::Waiting)));
                }
                Err(error) => {
                    tracing::debug!(region = %link.region, %error, "its tasks are not known now");
                    tasks.extend(share.into_iter().flat_map(|share| unseen(&record, share, TaskPhase::Unknown)));
                }
            }
        }
        for part in parts.iter().filter(|part| self.link(&part.region).is_none()) {
            let share = shares.iter().find(|share| share.region.region == part.region);
            tasks.extend(share.into_iter().flat_map(|share| unseen(&record, share, TaskPhase::Unknown)));
        }
        tasks.sort_by(|one, other| (&one.task, &one.region).cmp(&(&other.task, &other.region)));
        Ok(JobStatus {
            state: state(&record, &parts),
            job,
            generation: record.generation,
            spec: JobFile::from(&record.spec),
            regions: parts,
            tasks,
        })
    }

    /// Adds what links know: a region that is heard says each change at once, so what is known of it is as old as its
    /// last word, whatever that was about; and a region may not be the federation's any more.
    fn look_at_links(&self, parts: &mut [RegionPart]) {
        for part in parts {
            let Some(link) = self.link(&part.region) else {
                part.state = PartState::Unknown;
                part.detail = Some(format!(
                    "region {} is not one of the federation's any more: what it runs goes on, if it does, and it keeps \
                     its share; start the federation with it again, or apply the job with other regions",
                    part.region
                ));
                continue;
            };
            if part.state != PartState::Unknown {
                part.as_of = part.as_of.max(link.reach().as_of.unwrap_or_default());
            }
        }
    }

    pub(super) async fn apply_intent(&self, spec: JobSpec) -> Result<ApplyResponse, Problem> {
        self.federation.actors().ok_or_else(not_ready)?;
        let spec = Box::new(spec);
        match self.federation.ask_router(|reply| Event::Apply { reply, spec }).await? {
            Answer::Done { job, generation, changed } => Ok(ApplyResponse { job, generation, changed }),
            Answer::Refused(problem) => Err(refused(&problem)),
        }
    }

    pub(super) async fn stop_intent(&self, job: JobId) -> Result<StopResponse, Problem> {
        self.federation.actors().ok_or_else(not_ready)?;
        match self.federation.ask_router(|reply| Event::Stop { reply, job }).await? {
            Answer::Done { job, changed, .. } => Ok(StopResponse { job, changed }),
            Answer::Refused(problem) => Err(refused(&problem)),
        }
    }

    /// Deletes a job, and waits for a moment until every region has forgotten it.
    pub(super) async fn delete_intent(&self, job: JobId) -> Result<DeleteResponse, Problem> {
        let actors = self.federation.actors().ok_or_else(not_ready)?;
        let ordered = job.clone();
        match self.federation.ask_router(|reply| Event::Delete { reply, job: ordered }).await? {
            Answer::Done { .. } => {}
            Answer::Refused(problem) => return Err(refused(&problem)),
        }
        let mut gone = false;
        for _ in 0..DELETED_LOOKS_MAX {
            let wanted = job.clone();
            let there =
                move |router: &router::IntentRouter| router.intent(&wanted).is_some_and(|view| view.record.deleting);
            gone = !actors.router.query(there).await.map_err(unread)?;
            if gone {
                break;
            }
            tokio::time::sleep(DELETED_PAUSE).await;
        }
        Ok(DeleteResponse { job, gone })
    }

    /// The region that has a task, or may still have it.
    pub(super) async fn region_of(&self, task: &TaskId) -> Result<Arc<crate::link::RegionLink>, Problem> {
        let Found { shares, record, .. } = self.find_job(&task.job).await?;
        let has = |share: &&ShareView| share.slots.contains(task.index);
        let had = |share: &&ShareView| share.leaving.contains(task.index);
        let share = shares.iter().find(has).or_else(|| shares.iter().find(had));
        let link = share.and_then(|share| self.link(&share.region.region));
        link.cloned().ok_or_else(|| {
            let detail = format!(
                "there is no task {task}: job {} has tasks 0 to {}",
                task.job,
                record.spec.tasks.saturating_sub(1)
            );
            Problem::new(Code::TaskNotFound, detail).with_hint(format!("`polder status {}` lists its tasks", task.job))
        })
    }
}

/// Takes over what the region itself knows better: whether a release is through, and why not.
fn refine(part: &mut RegionPart, own: Option<RegionPart>) {
    let Some(own) = own else { return };
    let settled = matches!(part.state, PartState::Healthy | PartState::Degraded | PartState::Stopped);
    if settled && matches!(own.state, PartState::Progressing | PartState::Stopping) {
        part.state = own.state;
    }
    if part.detail.is_none() {
        part.detail = own.detail;
    }
}

/// Tasks of which the region says nothing.
fn unseen(record: &IntentRecord, share: &ShareView, phase: TaskPhase) -> Vec<TaskView> {
    let region = &share.region.region;
    let (reason, message) = match phase {
        TaskPhase::Unknown => ("silent_region", format!("region {region} is not heard; what it runs goes on running")),
        _ => ("region", format!("region {region} has not said yet that it has the task")),
    };
    let view = |index| TaskView {
        task: TaskId { job: record.spec.id.clone(), index },
        region: region.clone(),
        host: None,
        epoch: polder_types::Epoch::default(),
        generation: record.generation,
        phase,
        ready: false,
        since: share.region.as_of.unwrap_or_default(),
        restarts: 0,
        pid: None,
        ports: Vec::new(),
        waiting: Some(Wait { reason: reason.to_owned(), message: message.clone(), until: None }),
        last_exit: None,
    };
    share.slots.iter().map(view).collect()
}
