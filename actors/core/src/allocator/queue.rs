//! Requests of which tasks wait, in the order in which they are tried: priority, then age.

use crate::message::{PlacementReport, PlacementRequest, RequestId, TaskShape, TaskToPlace};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};
use core::cmp::Reverse;
use polder_types::{JobId, Priority, ShardId, Timestamp};

/// The place of a request in the order.
pub(super) type Place = (Reverse<Priority>, u64, RequestId);

/// A request of which tasks wait.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) job: JobId,
    pub(super) shape: Arc<TaskShape>,
    pub(super) tasks: BTreeMap<u32, TaskToPlace>,
    pub(super) since: Timestamp,
    /// Counts requests as they came.
    pub(super) order: u64,
    /// Slots from here on were not looked at in this pass.
    pub(super) from: u32,
    /// What the shard was told last of each task, and when.
    pub(super) told: BTreeMap<u32, (Arc<PlacementReport>, Timestamp)>,
}

/// All requests of which tasks wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    pub(super) requests: BTreeMap<RequestId, Waiting>,
    /// Those to be tried in this pass.
    pub(super) untried: BTreeSet<Place>,
    /// Whether anything changed that may help, so that another pass is due.
    pub(super) stale: bool,
    /// When the last pass began.
    pub(super) pass_began: Option<Timestamp>,
    orders: u64,
}

impl Queue {
    /// Takes tasks in, to be tried at once. Those that waited already are as the newer request says.
    pub(super) fn add(&mut self, request: &PlacementRequest, tasks: Vec<TaskToPlace>, now: Timestamp) {
        if tasks.is_empty() {
            return;
        }
        let order = self.orders;
        let waiting = self.requests.entry(request.id).or_insert_with(|| Waiting {
            job: request.job.clone(),
            shape: Arc::clone(&request.shape),
            tasks: BTreeMap::new(),
            since: now,
            order,
            from: 0,
            told: BTreeMap::new(),
        });
        if waiting.order == order {
            self.orders += 1;
        }
        waiting.tasks.extend(tasks.into_iter().map(|task| (task.index, task)));
        waiting.from = 0;
        // Whoever repeats a request wants to hear.
        waiting.told.clear();
        let place = place(request.id, waiting);
        self.untried.insert(place);
    }

    /// Drops tasks of a request; an empty list means all.
    pub(super) fn remove(&mut self, id: RequestId, tasks: &[u32]) {
        let Some(waiting) = self.requests.get_mut(&id) else { return };
        if tasks.is_empty() {
            waiting.tasks.clear();
        }
        for index in tasks {
            waiting.tasks.remove(index);
            waiting.told.remove(index);
        }
        if waiting.tasks.is_empty() {
            let place = place(id, waiting);
            self.untried.remove(&place);
            self.requests.remove(&id);
        }
    }

    /// Drops every request of a shard for which `void` holds.
    pub(super) fn remove_of(&mut self, shard: ShardId, void: impl Fn(&RequestId) -> bool) {
        let gone: Vec<RequestId> = self.requests.keys().filter(|id| id.shard == shard && void(id)).copied().collect();
        for id in gone {
            self.remove(id, &[]);
        }
    }

    /// Begins a pass over everything that waits.
    pub(super) fn begin_pass(&mut self, now: Timestamp) {
        self.stale = false;
        self.pass_began = Some(now);
        for (id, waiting) in &mut self.requests {
            waiting.from = 0;
            self.untried.insert(place(*id, waiting));
        }
    }
}

/// The place of a request in the order.
pub(super) fn place(id: RequestId, waiting: &Waiting) -> Place {
    (Reverse(waiting.shape.priority), waiting.order, id)
}
