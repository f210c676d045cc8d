//! Finds the best host for each of equal tasks of one job.
//!
//! One look at all hosts builds a heap of hosts for each rack. A pick compares the racks' best hosts only, because
//! the tasks of a job in a datacenter and in a rack count the same for each host in it. A task that has containers
//! already, or a host to stay away from, sees other figures than its siblings and looks at all hosts by itself.
//!
//! Nothing here changes the books: what a search has given away it remembers by itself, so that a plan that is not
//! carried out leaves no trace.

use super::{
    books::{Books, Host},
    filter::{self, Ports},
    score::{self, Score},
};
use crate::message::{PlacementReport, RejectReason, TaskShape, TaskToPlace};
use alloc::{
    collections::{BTreeMap, BTreeSet, BinaryHeap},
    vec::Vec,
};
use core::cmp::Reverse;
use polder_types::{DatacenterId, HostId, HostInfo, JobId, PortBinding, RackId, TaskId, Usage};

/// A host in one search.
#[derive(Debug)]
struct Candidate<'a> {
    info: &'a HostInfo,
    host: &'a Host,
    rack: usize,
    /// What rules it out whatever this search gives away.
    closed: Option<RejectReason>,
    /// What is charged and given away.
    used: Usage,
    /// Ports that this search has given away.
    given: Vec<u16>,
    next_port: u16,
    /// Tasks of the job on it.
    tasks: u32,
    /// Counts what was given away here: entries of the heap that are older are void.
    stamp: u32,
}

#[derive(Debug)]
struct Rack {
    datacenter: usize,
    tasks: u32,
    heap: BinaryHeap<Reverse<Entry>>,
}

/// A host in its rack's heap, in the order of [`Score`]; the position breaks ties as the name does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    on_host: u32,
    stranding: u64,
    candidate: usize,
    stamp: u32,
}

/// Where a task has containers already: they don't count against itself.
#[derive(Debug, Default)]
struct Own {
    hosts: BTreeSet<HostId>,
    racks: BTreeSet<usize>,
    datacenters: BTreeSet<usize>,
}

/// A host that was picked.
#[derive(Debug)]
pub(super) struct Pick {
    pub(super) host: HostId,
    pub(super) ports: Vec<PortBinding>,
    /// Its score.
    pub(super) score: Score,
    /// The next best host's.
    pub(super) next: Option<Score>,
}

/// A host with its score.
type Ranked = (usize, Score);

/// One search.
#[derive(Debug)]
pub(super) struct Search<'a> {
    books: &'a Books,
    job: &'a JobId,
    shape: &'a TaskShape,
    candidates: Vec<Candidate<'a>>,
    racks: Vec<Rack>,
    /// Tasks of the job in each datacenter.
    datacenters: Vec<u32>,
    /// Looks taken at hosts so far.
    pub(super) looks: usize,
}

impl<'a> Search<'a> {
    pub(super) fn new(books: &'a Books, job: &'a JobId, shape: &'a TaskShape) -> Self {
        let mut search =
            Self { books, job, shape, candidates: Vec::new(), racks: Vec::new(), datacenters: Vec::new(), looks: 0 };
        search.gather();
        search.count_tasks();
        for at in 0..search.candidates.len() {
            search.offer(at);
        }
        search
    }

    /// Takes in every host that was told of.
    fn gather(&mut self) {
        let mut racks: BTreeMap<(&DatacenterId, &RackId), usize> = BTreeMap::new();
        let mut datacenters: BTreeMap<&DatacenterId, usize> = BTreeMap::new();
        // Hosts of a rack mostly have names that follow each other.
        let mut last: Option<(&HostInfo, usize)> = None;
        self.candidates.reserve(self.books.hosts.len());
        for host in self.books.hosts.values() {
            let Some(known) = &host.known else { continue };
            let info = &*known.info;
            let same = last.filter(|(last, _)| last.rack == info.rack && last.datacenter == info.datacenter);
            let rack = match same {
                Some((_, rack)) => rack,
                None => *racks.entry((&info.datacenter, &info.rack)).or_insert_with(|| {
                    let datacenter = *datacenters.entry(&info.datacenter).or_insert(self.datacenters.len());
                    if datacenter == self.datacenters.len() {
                        self.datacenters.push(0);
                    }
                    self.racks.push(Rack { datacenter, tasks: 0, heap: BinaryHeap::new() });
                    self.racks.len() - 1
                }),
            };
            last = Some((info, rack));
            self.candidates.push(Candidate {
                info,
                host,
                rack,
                closed: filter::closed(info, &known.condition, self.shape),
                used: host.used,
                given: Vec::new(),
                next_port: host.next_port,
                tasks: 0,
                stamp: 0,
            });
        }
    }

    /// Counts the job's tasks in each failure domain: a task counts once in each that holds a container of it.
    fn count_tasks(&mut self) {
        let mut held = self.books.containers_of_job(self.job).peekable();
        let mut hosts: Vec<&HostId> = Vec::new();
        while let Some(one) = held.next() {
            hosts.push(&one.charge.host);
            let index = one.charge.container.task.index;
            if held.peek().is_none_or(|next| next.charge.container.task.index != index) {
                let own = self.places(hosts.drain(..));
                self.count(&own);
            }
        }
    }

    fn candidate_of(&self, host: &HostId) -> Option<usize> {
        // They are in the order of their names.
        self.candidates.binary_search_by(|candidate| candidate.info.id.cmp(host)).ok()
    }

    fn places<'h>(&self, hosts: impl Iterator<Item = &'h HostId>) -> Own {
        let mut own = Own::default();
        for host in hosts {
            own.hosts.insert(host.clone());
            if let Some(at) = self.candidate_of(host) {
                let rack = self.candidates[at].rack;
                own.racks.insert(rack);
                own.datacenters.insert(self.racks[rack].datacenter);
            }
        }
        own
    }

    fn count(&mut self, own: &Own) {
        for host in &own.hosts {
            if let Some(at) = self.candidate_of(host) {
                self.candidates[at].tasks += 1;
            }
        }
        for &rack in &own.racks {
            self.racks[rack].tasks += 1;
        }
        for &datacenter in &own.datacenters {
            self.datacenters[datacenter] += 1;
        }
    }

    /// The score of a host for a task, or what rules it out.
    fn evaluate(&self, at: usize, own: &Own, avoid: Option<&HostId>) -> Result<Score, RejectReason> {
        let candidate = &self.candidates[at];
        if let Some(reason) = candidate.closed {
            return Err(reason);
        }
        let rack = &self.racks[candidate.rack];
        let in_datacenter = self.datacenters[rack.datacenter] - u32::from(own.datacenters.contains(&rack.datacenter));
        let in_rack = rack.tasks - u32::from(own.racks.contains(&candidate.rack));
        let on_host = candidate.tasks - u32::from(own.hosts.contains(&candidate.info.id));
        let spread = &self.shape.spread;
        let full = |max: Option<u32>, tasks: u32| max.is_some_and(|max| tasks >= max);
        if full(spread.max_per_datacenter, in_datacenter)
            || full(spread.max_per_rack, in_rack)
            || full(spread.max_per_host, on_host)
        {
            return Err(RejectReason::Spread);
        }
        let capacity = &candidate.info.capacity;
        if let Some(reason) = filter::room(capacity, &candidate.used, &self.shape.resources) {
            return Err(reason);
        }
        if !self.ports(candidate).suffice(&self.shape.ports) {
            return Err(RejectReason::Ports);
        }
        Ok(Score {
            avoided: avoid == Some(&candidate.info.id),
            in_datacenter,
            in_rack,
            on_host,
            stranding: score::stranding(capacity, &candidate.used, &self.shape.resources),
            host: candidate.info.id.clone(),
        })
    }

    fn ports<'c>(&self, candidate: &'c Candidate<'_>) -> Ports<'c> {
        Ports { capacity: &candidate.info.capacity, charged: &candidate.host.ports, given: &candidate.given }
    }

    /// Puts a host into its rack's heap if it can take a task.
    fn offer(&mut self, at: usize) {
        self.looks += 1;
        if let Ok(score) = self.evaluate(at, &Own::default(), None) {
            let candidate = &self.candidates[at];
            let entry =
                Entry { on_host: score.on_host, stranding: score.stranding, candidate: at, stamp: candidate.stamp };
            self.racks[candidate.rack].heap.push(Reverse(entry));
        }
    }

    /// Picks the best host for a task and gives it away; none if there is none.
    pub(super) fn pick(&mut self, task: &TaskToPlace) -> Option<Pick> {
        let own = self.own(task);
        let (at, score, next) = if own.hosts.is_empty() && task.avoid.is_none() {
            let (best, next) = self.best_two();
            let (at, score) = best?;
            (at, score, next.map(|(_, score)| score))
        } else {
            let mut best = self.scan(&own, task.avoid.as_ref(), 2).into_iter();
            let (score, at) = best.next()?;
            (at, score, best.next().map(|(score, _)| score))
        };
        let candidate = &self.candidates[at];
        let mut next_port = candidate.next_port;
        let ports = self.ports(candidate).pick(&self.shape.ports, &mut next_port)?;
        let host = candidate.info.id.clone();
        self.give(at, &own, &ports, next_port);
        Some(Pick { host, ports, score, next })
    }

    fn own(&self, task: &TaskToPlace) -> Own {
        let id = TaskId { job: self.job.clone(), index: task.index };
        self.places(self.books.containers_of(&id).map(|held| &held.charge.host))
    }

    /// The best hosts for a task, best first, by a look at each.
    fn scan(&mut self, own: &Own, avoid: Option<&HostId>, most: usize) -> Vec<(Score, usize)> {
        self.looks += self.candidates.len();
        let mut best: Vec<(Score, usize)> = Vec::with_capacity(most + 1);
        for at in 0..self.candidates.len() {
            let Ok(score) = self.evaluate(at, own, avoid) else { continue };
            if best.len() < most || best.last().is_some_and(|(worst, _)| score < *worst) {
                let position = best.partition_point(|(other, _)| *other < score);
                best.insert(position, (score, at));
                best.truncate(most);
            }
        }
        best
    }

    /// The best two hosts for a task that sees what its siblings see.
    fn best_two(&mut self) -> (Option<Ranked>, Option<Ranked>) {
        self.looks += self.racks.len();
        let spread = self.shape.spread;
        let full = |max: Option<u32>, tasks: u32| max.is_some_and(|max| tasks >= max);
        // The heaps' order is the score's from `on_host` on; before it come the tasks of the datacenter and the rack.
        let mut best: Option<(u32, u32, Entry)> = None;
        let mut next: Option<(u32, u32, Entry)> = None;
        for rack in &mut self.racks {
            let in_datacenter = self.datacenters[rack.datacenter];
            if full(spread.max_per_datacenter, in_datacenter) || full(spread.max_per_rack, rack.tasks) {
                continue;
            }
            let Some(top) = fresh_top(&mut rack.heap, &self.candidates) else { continue };
            let key = (in_datacenter, rack.tasks, top);
            let challenger = if best.is_none_or(|best| key < best) {
                // The second of the rack that leads may be second overall.
                let Some(Reverse(entry)) = rack.heap.pop() else { continue };
                let second = fresh_top(&mut rack.heap, &self.candidates);
                rack.heap.push(Reverse(entry));
                let second = second.map(|second| (in_datacenter, rack.tasks, second));
                let beaten = best.replace(key);
                match (beaten, second) {
                    (Some(beaten), Some(second)) => Some(beaten.min(second)),
                    (beaten, second) => beaten.or(second),
                }
            } else {
                Some(key)
            };
            if let Some(challenger) = challenger {
                next = Some(next.map_or(challenger, |next| next.min(challenger)));
            }
        }
        let score = |(in_datacenter, in_rack, entry): (u32, u32, Entry)| {
            let host = self.candidates[entry.candidate].info.id.clone();
            let Entry { on_host, stranding, candidate, .. } = entry;
            (candidate, Score { avoided: false, in_datacenter, in_rack, on_host, stranding, host })
        };
        (best.map(score), next.map(score))
    }

    fn give(&mut self, at: usize, own: &Own, ports: &[PortBinding], next_port: u16) {
        let candidate = &mut self.candidates[at];
        candidate.used.cpu += self.shape.resources.cpu;
        candidate.used.memory += self.shape.resources.memory;
        candidate.used.containers += 1;
        candidate.given.extend(ports.iter().map(|binding| binding.port));
        candidate.next_port = next_port;
        candidate.stamp += 1;
        let rack_at = candidate.rack;
        candidate.tasks += u32::from(!own.hosts.contains(&candidate.info.id));
        let rack = &mut self.racks[rack_at];
        rack.tasks += u32::from(!own.racks.contains(&rack_at));
        self.datacenters[rack.datacenter] += u32::from(!own.datacenters.contains(&rack.datacenter));
        self.offer(at);
    }

    /// Why there is no host for a task, by a look at each.
    pub(super) fn report(&mut self, task: Option<&TaskToPlace>) -> PlacementReport {
        self.looks += self.candidates.len();
        let own = task.map(|task| self.own(task)).unwrap_or_default();
        let mut report = PlacementReport::default();
        for at in 0..self.candidates.len() {
            report.hosts = report.hosts.saturating_add(1);
            if let Err(reason) = self.evaluate(at, &own, None) {
                *report.rejected.entry(reason).or_default() += 1;
            }
        }
        report
    }

    /// The best hosts for one more task, best first.
    pub(super) fn choices(&mut self, most: usize) -> Vec<Score> {
        self.scan(&Own::default(), None, most).into_iter().map(|(score, _)| score).collect()
    }
}

/// The least entry of a heap that is not void.
fn fresh_top(heap: &mut BinaryHeap<Reverse<Entry>>, candidates: &[Candidate<'_>]) -> Option<Entry> {
    while let Some(Reverse(top)) = heap.peek().copied() {
        if candidates[top.candidate].stamp == top.stamp {
            return Some(top);
        }
        heap.pop();
    }
    None
}
