//! Where the tasks of a request would go. Placement is a plan that is carried out; a dry run is one that is not.

use super::{quota::Admission, score, search::Search, state::Allocator};
use crate::message::{Grant, PlacementReport, TaskShape, TaskToPlace};
use alloc::{collections::BTreeMap, vec, vec::Vec};
use polder_types::{JobId, TaskId};

/// Where tasks would go, and why others would wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Tasks with a host.
    pub grants: Vec<Grant>,
    /// Tasks without one, by why.
    pub waiting: Vec<(PlacementReport, Vec<u32>)>,
}

/// A plan that may have been cut short.
#[derive(Debug, Default)]
pub(super) struct Cut {
    pub(super) plan: Plan,
    /// The first slot that was not looked at any more.
    pub(super) rest: Option<u32>,
    /// Looks taken at hosts.
    pub(super) looks: usize,
}

impl Allocator {
    /// Where these tasks of a job would go now.
    #[must_use]
    pub fn plan(&self, job: &JobId, shape: &TaskShape, tasks: &[TaskToPlace]) -> Plan {
        let tasks: BTreeMap<u32, &TaskToPlace> = tasks.iter().map(|task| (task.index, task)).collect();
        self.plan_some(job, shape, tasks.into_values(), usize::MAX).plan
    }

    /// The same, but for as many tasks as `looks` allow: at least one.
    pub(super) fn plan_some<'t>(
        &self,
        job: &JobId,
        shape: &TaskShape,
        tasks: impl Iterator<Item = &'t TaskToPlace>,
        looks: usize,
    ) -> Cut {
        let mut search = Search::new(&self.books, job, shape);
        let mut admission = Admission::new(&self.books, &self.allotments, &job.account, shape.resources);
        let mut cut = Cut::default();
        // Siblings that see the same hosts wait for the same reason.
        let mut no_room: Option<PlacementReport> = None;
        for (count, task) in tasks.enumerate() {
            if count > 0 && search.looks > looks {
                cut.rest = Some(task.index);
                break;
            }
            let id = TaskId { job: job.clone(), index: task.index };
            let plain = task.avoid.is_none() && self.books.containers_of(&id).next().is_none();
            let asked = match admission.look(&id) {
                Ok(asked) => asked,
                Err(shortfall) => {
                    let last = cut.plan.waiting.last().map(|(report, _)| report);
                    let same = last.filter(|last| last.quota.as_ref() == Some(&shortfall)).cloned();
                    let report = match same {
                        Some(report) => report,
                        None => PlacementReport { quota: Some(shortfall), ..search.report(Some(task)) },
                    };
                    wait(&mut cut.plan.waiting, report, task.index);
                    continue;
                }
            };
            if plain && let Some(report) = &no_room {
                wait(&mut cut.plan.waiting, report.clone(), task.index);
                continue;
            }
            match search.pick(task) {
                Some(pick) => {
                    admission.take(asked);
                    cut.plan.grants.push(Grant {
                        index: task.index,
                        epoch: task.epoch,
                        why: score::why(&pick.score, pick.next.as_ref()),
                        host: pick.host,
                        ports: pick.ports,
                    });
                }
                None => {
                    let report = search.report(Some(task));
                    if plain {
                        no_room = Some(report.clone());
                    }
                    wait(&mut cut.plan.waiting, report, task.index);
                }
            }
        }
        cut.looks = search.looks;
        cut
    }
}

fn wait(waiting: &mut Vec<(PlacementReport, Vec<u32>)>, report: PlacementReport, task: u32) {
    match waiting.last_mut() {
        Some((last, tasks)) if *last == report => tasks.push(task),
        _ => waiting.push((report, vec![task])),
    }
}
