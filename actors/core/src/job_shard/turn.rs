//! One step under way: what it has touched so far, and at its end the effects in the order in which they must reach
//! others.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    string::{String, ToString as _},
    vec::Vec,
};
use core::fmt;
use polder_types::{ContainerId, Generation, HostId, JobId, OwnerEpoch, Timestamp};

use super::{
    JobShard,
    event::{Applied, Delta, Effect, Refused},
    state::TASKS_PER_CHUNK,
};
use crate::{
    machine::Effects,
    message::{Charge, HostOrder, Notice, PlacementNote, PlacementRequest, ReplyId, RequestId, TaskToPlace},
};

#[derive(Debug)]
pub(super) struct Turn {
    pub(super) now: Timestamp,
    /// Tasks to look at.
    pub(super) touched: BTreeMap<JobId, BTreeSet<u32>>,
    pub(super) fence: Option<OwnerEpoch>,
    jobs: BTreeSet<JobId>,
    chunks: BTreeSet<(JobId, u32)>,
    deletes: Vec<Delta>,
    /// Requests made in this step, by what they ask for.
    pub(super) made: BTreeMap<(JobId, Generation), RequestId>,
    /// Requests to send: new ones and repeats.
    pub(super) send: BTreeSet<RequestId>,
    withdrawn: BTreeMap<RequestId, Vec<u32>>,
    placed: BTreeMap<RequestId, Vec<Charge>>,
    released: Vec<ContainerId>,
    orders: Vec<(HostId, HostOrder)>,
    inventories: BTreeSet<HostId>,
    changed: BTreeSet<JobId>,
    notices: Vec<Notice>,
    replies: Vec<(ReplyId, Result<Applied, Refused>)>,
}

impl Turn {
    pub(super) const fn new(now: Timestamp) -> Self {
        Self {
            now,
            touched: BTreeMap::new(),
            fence: None,
            jobs: BTreeSet::new(),
            chunks: BTreeSet::new(),
            deletes: Vec::new(),
            made: BTreeMap::new(),
            send: BTreeSet::new(),
            withdrawn: BTreeMap::new(),
            placed: BTreeMap::new(),
            released: Vec::new(),
            orders: Vec::new(),
            inventories: BTreeSet::new(),
            changed: BTreeSet::new(),
            notices: Vec::new(),
            replies: Vec::new(),
        }
    }

    pub(super) fn touch(&mut self, job: &JobId, index: u32) {
        if let Some(tasks) = self.touched.get_mut(job) {
            tasks.insert(index);
        } else {
            self.touched.insert(job.clone(), BTreeSet::from([index]));
        }
    }

    pub(super) fn save_job(&mut self, job: &JobId) {
        self.jobs.insert(job.clone());
        self.changed(job);
    }

    pub(super) fn save_task(&mut self, job: &JobId, index: u32) {
        self.chunks.insert((job.clone(), index / TASKS_PER_CHUNK));
        self.changed(job);
    }

    pub(super) fn delete_job(&mut self, job: &JobId, chunks: impl IntoIterator<Item = u32>) {
        self.deletes.extend(chunks.into_iter().map(|number| Delta::DeleteChunk { job: job.clone(), number }));
        self.deletes.push(Delta::DeleteJob(job.clone()));
        self.changed(job);
    }

    pub(super) fn changed(&mut self, job: &JobId) {
        if !self.changed.contains(job) {
            self.changed.insert(job.clone());
        }
    }

    pub(super) fn withdraw(&mut self, request: RequestId, index: u32) {
        // What was asked for in this very step was never sent.
        if !self.made.values().any(|made| *made == request) {
            self.withdrawn.entry(request).or_default().push(index);
        }
    }

    pub(super) fn placed(&mut self, request: RequestId, charge: Charge) {
        self.placed.entry(request).or_default().push(charge);
    }

    pub(super) fn released(&mut self, container: ContainerId) {
        self.released.push(container);
    }

    pub(super) fn order(&mut self, host: &HostId, order: HostOrder) {
        self.orders.push((host.clone(), order));
    }

    pub(super) fn ask_inventory(&mut self, host: &HostId) {
        self.inventories.insert(host.clone());
    }

    pub(super) fn notice(&mut self, kind: &'static str, subject: &impl fmt::Display, message: String) {
        self.notices.push(Notice { kind, subject: subject.to_string(), message });
    }

    pub(super) fn reply(&mut self, reply: ReplyId, result: Result<Applied, Refused>) {
        self.replies.push((reply, result));
    }

    /// Everything waits for this step's changes, so that whoever hears of them can rely on them. The allocator hears
    /// first what takes and frees room and then what wants it.
    pub(super) fn finish(self, shard: &mut JobShard) -> Effects<JobShard> {
        let mut out = Effects::none();
        if let Some(fence) = self.fence {
            out.persist(Delta::FenceAllocator(fence));
        }
        for id in &self.jobs {
            if let Some(job) = shard.jobs.get(id) {
                out.persist(Delta::PutJob(Box::new(job.record.clone())));
            }
        }
        for (id, number) in &self.chunks {
            if let Some(job) = shard.jobs.get_mut(id) {
                let chunk = job.chunk(*number);
                // Tasks that say nothing are made up again from the job's record.
                if !chunk.tasks.is_empty() {
                    job.chunks.insert(*number);
                    out.persist(Delta::PutChunk(chunk));
                }
            }
        }
        for delta in self.deletes {
            out.persist(delta);
        }
        let mut notes = Vec::new();
        for (request, tasks) in self.withdrawn {
            notes.push(PlacementNote::Withdraw { request, tasks });
        }
        for (request, charges) in self.placed {
            notes.push(PlacementNote::Placed { request, charges });
        }
        if !self.released.is_empty() {
            notes.push(PlacementNote::Released { containers: self.released });
        }
        for id in self.send {
            notes.extend(shard.request(id).map(PlacementNote::Request));
        }
        for note in notes {
            out.after(Effect::Allocator(note));
        }
        for (host, order) in self.orders {
            out.after(Effect::Order { host, order });
        }
        for host in self.inventories {
            out.after(Effect::AskInventory { host });
        }
        for job in self.changed {
            out.after(Effect::SliceChanged(job));
        }
        for notice in self.notices {
            out.after(Effect::Notice(notice));
        }
        for (reply, result) in self.replies {
            out.after(Effect::Reply { reply, result });
        }
        out
    }
}

impl JobShard {
    /// A request as it stands: with the tasks that were not granted.
    fn request(&self, id: RequestId) -> Option<PlacementRequest> {
        let group = self.asks.get(&id)?;
        let job = self.jobs.get(&group.job)?;
        let tasks: Vec<TaskToPlace> = group
            .tasks
            .iter()
            .filter_map(|(index, avoid)| {
                let epoch = job.tasks.get(index)?.ask.as_ref()?.epoch;
                Some(TaskToPlace { index: *index, epoch, avoid: avoid.clone() })
            })
            .collect();
        (!tasks.is_empty()).then(|| PlacementRequest {
            id,
            job: group.job.clone(),
            shape: alloc::sync::Arc::clone(&group.shape),
            tasks,
        })
    }
}
