//! What the region counts, from what its roles carry out and its hosts report; and gauges from what its machines say
//! when somebody asks.

mod gauges;

pub(crate) use gauges::refresh;

use polder_core::message::{PlacementAnswer, PlacementNote, RequestId};
use polder_node::scrape::Scrapes;
use polder_observability as observability;
use polder_types::{ContainerId, ContainerPhase, ContainerStatus, Epoch, JobId, Timestamp};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Starts that are timed at once. What is beyond is counted and not timed.
const STARTS_TIMED_MAX: usize = 1 << 18;
/// A start that has taken longer than this is not waited for any more when room for others is needed.
const START_FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);

/// Room that was asked for.
#[derive(Debug)]
struct Request {
    job: JobId,
    at: Timestamp,
    /// Tasks that have no room yet.
    waiting: BTreeMap<u32, Epoch>,
    /// Whether the first refusal was counted.
    refused: bool,
}

#[derive(Debug, Default)]
struct Asked {
    requests: BTreeMap<RequestId, Request>,
    /// Containers that do not run yet, and when room for them was asked for.
    starts: HashMap<ContainerId, Timestamp>,
}

/// Counts and times placements and starts, and keeps scrapes from asking machines too often.
#[derive(Debug)]
pub(crate) struct RegionMeter {
    asked: Mutex<Asked>,
    scrapes: Scrapes,
    granted: (observability::Counter, observability::Timing),
    refused: (observability::Counter, observability::Timing),
    running: observability::Counter,
    failed: observability::Counter,
    start: observability::Timing,
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    to.since(from).to_duration()
}

impl RegionMeter {
    pub(crate) fn new() -> Self {
        let region = observability::Region::shared();
        let placements = |outcome| (region.placements.of([outcome]), region.placement_seconds.of([outcome]));
        for outcome in ["drained", "forced", "unattested", "aborted"] {
            // Known from the start, so that the first one is seen to happen.
            let _ = region.drains_ended.of([outcome]);
        }
        Self {
            asked: Mutex::default(),
            scrapes: Scrapes::default(),
            granted: placements("granted"),
            refused: placements("refused"),
            running: region.task_starts.of(["running"]),
            failed: region.task_starts.of(["failed"]),
            start: region.task_start_seconds.of([]),
        }
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A shard says something to the allocator.
    pub(crate) fn noted(&self, now: Timestamp, note: &PlacementNote) {
        match note {
            PlacementNote::Request(request) => {
                let mut asked = self.asked();
                // It is said again until it is granted; the first time counts.
                if asked.requests.contains_key(&request.id) {
                    return;
                }
                if asked.starts.len() + request.tasks.len() > STARTS_TIMED_MAX {
                    asked.starts.retain(|_, at| between(*at, now) < START_FORGOTTEN_AFTER);
                }
                if asked.starts.len() + request.tasks.len() > STARTS_TIMED_MAX {
                    return;
                }
                let waiting: BTreeMap<u32, Epoch> = request.tasks.iter().map(|task| (task.index, task.epoch)).collect();
                for (index, epoch) in &waiting {
                    asked.starts.insert(container(&request.job, *index, *epoch), now);
                }
                let request_of = Request { job: request.job.clone(), at: now, waiting, refused: false };
                asked.requests.insert(request.id, request_of);
            }
            PlacementNote::Withdraw { request, tasks } => {
                let mut asked = self.asked();
                let Asked { requests, starts } = &mut *asked;
                let Some(of) = requests.get_mut(request) else { return };
                let withdrawn: Vec<u32> =
                    if tasks.is_empty() { of.waiting.keys().copied().collect() } else { tasks.clone() };
                for index in withdrawn {
                    if let Some(epoch) = of.waiting.remove(&index) {
                        starts.remove(&container(&of.job, index, epoch));
                    }
                }
                if of.waiting.is_empty() {
                    requests.remove(request);
                }
            }
            PlacementNote::Restored { shard, owner, .. } => {
                self.asked().requests.retain(|id, _| id.shard != *shard || id.owner >= *owner);
            }
            PlacementNote::Placed { .. } | PlacementNote::Released { .. } => {}
        }
    }

    /// The allocator answers a shard.
    pub(crate) fn answered(&self, now: Timestamp, answer: &PlacementAnswer) {
        match answer {
            PlacementAnswer::Granted { request, grants, .. } => {
                let mut asked = self.asked();
                let Asked { requests, starts } = &mut *asked;
                let Some(of) = requests.get_mut(request) else { return };
                for grant in grants {
                    // A grant is said again until it is placed.
                    if of.waiting.remove(&grant.index).is_none() {
                        continue;
                    }
                    self.granted.0.count();
                    if of.refused {
                        // It had to wait until there was room: that says nothing of how fast room is found, or tasks start.
                        starts.insert(container(&of.job, grant.index, grant.epoch), now);
                    } else {
                        self.granted.1.took(between(of.at, now));
                    }
                }
                if of.waiting.is_empty() {
                    requests.remove(request);
                }
            }
            PlacementAnswer::Waiting { request, tasks, .. } => {
                let mut asked = self.asked();
                let Some(of) = asked.requests.get_mut(request).filter(|of| !of.refused) else { return };
                of.refused = true;
                for _ in tasks.iter().filter(|index| of.waiting.contains_key(index)) {
                    self.refused.0.count();
                    self.refused.1.took(between(of.at, now));
                }
            }
            PlacementAnswer::Started { .. } => {}
        }
    }

    /// A host reports containers.
    pub(crate) fn reported(&self, now: Timestamp, containers: &[ContainerStatus]) {
        for status in containers {
            match status.phase {
                ContainerPhase::Running { .. } => {
                    if let Some(at) = self.asked().starts.remove(&status.id) {
                        self.running.count();
                        self.start.took(between(at, now));
                    }
                }
                ContainerPhase::Ended { .. } => {
                    if self.asked().starts.remove(&status.id).is_some() {
                        self.failed.count();
                    }
                }
                ContainerPhase::Preparing | ContainerPhase::Stopping { .. } => {}
            }
        }
    }

    /// A broker tells people something.
    pub(crate) fn noticed(kind: &str) {
        let outcome = match kind {
            "drain_ended" => "drained",
            "drain_forced" => "forced",
            "drain_unattested" => "unattested",
            "drain_aborted" => "aborted",
            _ => return,
        };
        observability::Region::shared().drains_ended.count([outcome]);
    }
}

fn container(job: &JobId, index: u32, epoch: Epoch) -> ContainerId {
    ContainerId { task: polder_types::TaskId { job: job.clone(), index }, epoch }
}
