//! An allocator with room for a few containers on each host.

use std::collections::BTreeMap;

use polder_core::{
    job_shard::Event,
    message::{PlacementAnswer, PlacementNote, PlacementReport, RejectReason},
};
use polder_types::{ContainerId, HostId, OwnerEpoch, TaskId};

use super::{ROOM, SimAllocator, World};
use crate::script::grant;

impl World {
    pub(crate) fn allocator_reads(&mut self) {
        while let Some(note) = self.notes.pop_front() {
            let allocator = &mut self.allocator;
            match note {
                PlacementNote::Request(request) => {
                    for task in &request.tasks {
                        if let Some((container, host)) = allocator.granted.get(&(request.id, task.index)) {
                            assert_eq!(container.epoch, task.epoch);
                            let again = PlacementAnswer::Granted {
                                request: request.id,
                                allocator: OwnerEpoch(allocator.epoch),
                                grants: vec![grant(&request, task.index, host)],
                            };
                            self.answers.push_back(again);
                        }
                    }
                    let mut request = request;
                    request.tasks.retain(|task| !allocator.granted.contains_key(&(request.id, task.index)));
                    allocator.pending.insert(request.id, request);
                }
                PlacementNote::Withdraw { request, tasks } => {
                    for index in tasks {
                        allocator.granted.remove(&(request, index));
                        if let Some(pending) = allocator.pending.get_mut(&request) {
                            pending.tasks.retain(|task| task.index != index);
                        }
                    }
                }
                PlacementNote::Placed { request, charges } => {
                    for charge in charges {
                        allocator.granted.remove(&(request, charge.container.task.index));
                        allocator.charged.insert(charge.container, charge.host);
                    }
                }
                PlacementNote::Released { containers } => {
                    for container in containers {
                        allocator.charged.remove(&container);
                    }
                }
                PlacementNote::Restored { charges, .. } => {
                    allocator.pending.clear();
                    allocator.granted.clear();
                    allocator.charged = charges.into_iter().map(|charge| (charge.container, charge.host)).collect();
                }
            }
        }
        let charged: BTreeMap<ContainerId, HostId> =
            self.shard.charges().map(|charge| (charge.container, charge.host)).collect();
        assert_eq!(self.allocator.charged, charged, "what the allocator was told is what the records charge");
    }

    pub(crate) fn allocator_grants(&mut self) {
        let pending = std::mem::take(&mut self.allocator.pending);
        for (id, mut request) in pending {
            let mut grants = Vec::new();
            let mut waiting = Vec::new();
            for task in std::mem::take(&mut request.tasks) {
                let open = |host: &&HostId| {
                    let used = self.allocator.charged.values().filter(|at| *at == *host).count()
                        + self.allocator.granted.values().filter(|(_, at)| at == *host).count();
                    self.condition(host).closed().is_none() && used < ROOM
                };
                let fits: Vec<&HostId> = self.hosts.keys().filter(open).collect();
                let best = fits.iter().find(|host| Some(**host) != task.avoid.as_ref()).or_else(|| fits.first());
                let Some(host) = best.map(|host| (*host).clone()) else {
                    waiting.push(task);
                    continue;
                };
                let container =
                    ContainerId { task: TaskId { job: request.job.clone(), index: task.index }, epoch: task.epoch };
                self.allocator.granted.insert((id, task.index), (container, host.clone()));
                request.tasks = vec![task];
                grants.push(grant(&request, request.tasks[0].index, &host));
            }
            let allocator = OwnerEpoch(self.allocator.epoch);
            if !grants.is_empty() {
                self.answers.push_back(PlacementAnswer::Granted { request: id, allocator, grants });
            }
            if !waiting.is_empty() {
                let tasks = waiting.iter().map(|task| task.index).collect();
                let rejected = BTreeMap::from([(RejectReason::Cpu, 1)]);
                let report = PlacementReport { hosts: 1, rejected, quota: None };
                self.answers.push_back(PlacementAnswer::Waiting { request: id, tasks, report });
                request.tasks = waiting;
                self.allocator.pending.insert(id, request);
            }
        }
    }

    pub(crate) fn hear_allocator(&mut self) {
        while let Some(answer) = self.answers.pop_front() {
            self.event(Event::Placement(answer));
        }
    }

    pub(crate) fn lose_answers(&mut self) {
        self.answers.clear();
    }

    /// Another allocator takes over: it knows what is stored, and nothing of what was asked.
    pub(crate) fn restart_allocator(&mut self) {
        let charged = self.stored.chunks.values().flat_map(|chunk| {
            chunk.tasks.iter().flat_map(|task| task.charges(&chunk.job)).map(|charge| (charge.container, charge.host))
        });
        self.allocator =
            SimAllocator { epoch: self.allocator.epoch + 1, charged: charged.collect(), ..Default::default() };
        self.answers.push_back(PlacementAnswer::Started { allocator: OwnerEpoch(self.allocator.epoch) });
        // Requests on their way reach the new one and are void for it only if the shard asks anew.
        self.notes.retain(|note| !matches!(note, PlacementNote::Request(_)));
    }
}
