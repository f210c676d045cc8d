//! One truth: the fold of durable task records, kept by this oracle itself, fits each host at every moment; and whatever
//! really runs is in it.

use super::{ONE_TRUTH, World};
use crate::names::{HostAt, host_number};
use polder_core::job_shard::{Placement, StopReason, TaskRecord};
use polder_types::{AccountId, Amounts, ContainerId, JobId, Resources, TaskId};
use std::collections::BTreeMap;

/// One container as its record says.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) host: u32,
    pub(crate) resources: Resources,
    pub(crate) stop: Option<StopReason>,
    pub(crate) lingering: bool,
    ports: Vec<u16>,
}

#[derive(Debug, Default)]
struct OnHost {
    cpu: u64,
    memory: u64,
    ports: BTreeMap<u16, ContainerId>,
}

/// The fold of one region's task records.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(crate) placed: BTreeMap<ContainerId, Placed>,
    hosts: BTreeMap<u32, OnHost>,
    pub(crate) accounts: BTreeMap<AccountId, Amounts>,
}

impl Books {
    /// What a task is charged: once, with the largest of each amount.
    pub(crate) fn task(&self, task: &TaskId) -> Amounts {
        let id = |epoch| ContainerId { task: task.clone(), epoch: polder_types::Epoch(epoch) };
        self.placed.range(id(0)..=id(u64::MAX)).fold(Amounts::default(), |most, (_, placed)| Amounts {
            cpu: most.cpu.max(placed.resources.cpu),
            memory: most.memory.max(placed.resources.memory),
            tasks: 1,
        })
    }

    /// What is charged on a host: CPU in hundredths, memory in bytes, containers.
    pub(crate) fn on_host(&self, host: u32) -> (u64, u64, usize) {
        let containers = self.placed.values().filter(|placed| placed.host == host).count();
        self.hosts.get(&host).map_or((0, 0, 0), |on| (on.cpu, on.memory, containers))
    }

    /// Charges a task to its accounts; by how much that is more.
    fn change_account(&mut self, task: &TaskId, before: Amounts, after: Amounts) -> Amounts {
        let mut account = task.job.account.as_str();
        loop {
            if let Ok(id) = AccountId::new(account) {
                let used = self.accounts.entry(id).or_default();
                *used = used.plus(after).minus(before);
            }
            match account.rfind('/') {
                Some(at) => account = &account[..at],
                None => break,
            }
        }
        after.minus(before)
    }
}

fn placements(task: Option<&TaskRecord>) -> impl Iterator<Item = (&Placement, bool)> {
    task.into_iter().flat_map(|task| {
        let lingering = task.lingering.iter().map(|placement| (placement, true));
        task.current.iter().chain(&task.next).map(|placement| (placement, false)).chain(lingering)
    })
}

impl World {
    /// A task's record changes.
    pub(crate) fn see_task(
        &mut self,
        region: u8,
        shard: u16,
        job: &JobId,
        was: Option<&TaskRecord>,
        is: Option<&TaskRecord>,
    ) {
        self.counts.look(ONE_TRUTH);
        let Some(index) = was.or(is).map(|task| task.index) else { return };
        let task = TaskId { job: job.clone(), index };
        if let (Some(was), Some(is)) = (was, is)
            && is.epoch < was.epoch
        {
            self.violated(ONE_TRUTH, format!("the epoch of {task} falls from {} to {}", was.epoch, is.epoch));
        }
        let before = self.oracles.books[usize::from(region)].task(&task);
        for (placement, _) in placements(was) {
            let stays = placements(is).any(|(other, _)| other.epoch == placement.epoch);
            if !stays {
                self.released(region, &placement.container(job, index));
            }
        }
        let mut added = Vec::new();
        for (placement, lingering) in placements(is) {
            let id = placement.container(job, index);
            let known = placements(was).find(|(other, _)| other.epoch == placement.epoch);
            self.see_placement(region, shard, &id, placement, known.map(|(known, _)| known));
            if known.is_none() {
                added.push(id.clone());
            }
            self.charge(region, id, placement, lingering);
        }
        let books = &mut self.oracles.books[usize::from(region)];
        let after = books.task(&task);
        let grows = books.change_account(&task, before, after);
        if grows != Amounts::default() {
            self.see_admitted(region, &task, grows, after, &added);
        }
    }

    fn charge(&mut self, region: u8, id: ContainerId, placement: &Placement, lingering: bool) {
        let Some(host) = host_number(&placement.host) else { return };
        let books = &mut self.oracles.books[usize::from(region)];
        let ports = placement.ports.iter().map(|binding| binding.port).collect();
        let stop = placement.stop.map(|stop| stop.why);
        let placed = Placed { host, resources: placement.resources, stop, lingering, ports };
        if let Some(known) = books.placed.get_mut(&id) {
            if known.host != host {
                let what = format!("{id} moves from host {} to host {host} without a new epoch", known.host);
                return self.violated(ONE_TRUTH, what);
            }
            (known.stop, known.lingering) = (stop, lingering);
            return;
        }
        let on = books.hosts.entry(host).or_default();
        on.cpu += u64::from(placed.resources.cpu.centi_cores());
        on.memory += placed.resources.memory.get();
        let mut clash = None;
        for port in &placed.ports {
            if let Some(other) = on.ports.insert(*port, id.clone()) {
                clash = Some(format!("port {port} of host {host} is given to {id} and to {other}"));
            }
        }
        let (cpu, memory) = (on.cpu, on.memory);
        books.placed.insert(id.clone(), placed);
        let capacity = self.host(HostAt { region, host }).info.capacity;
        let (most_cpu, most_memory) = (u64::from(capacity.cpu.centi_cores()), capacity.memory.get());
        if let Some(clash) = clash {
            self.violated(ONE_TRUTH, clash);
        }
        if cpu > most_cpu || memory > most_memory {
            let what = format!(
                "host r{region}-h{host} is charged {cpu} of {most_cpu} hundredths of a core and {memory} of {most_memory} bytes with {id}"
            );
            self.violated(ONE_TRUTH, what);
        }
    }

    /// A container's room is given back: nothing of it may run.
    fn released(&mut self, region: u8, id: &ContainerId) {
        let books = &mut self.oracles.books[usize::from(region)];
        let Some(placed) = books.placed.remove(id) else { return };
        if let Some(on) = books.hosts.get_mut(&placed.host) {
            on.cpu = on.cpu.saturating_sub(u64::from(placed.resources.cpu.centi_cores()));
            on.memory = on.memory.saturating_sub(placed.resources.memory.get());
            for port in &placed.ports {
                if on.ports.get(port) == Some(id) {
                    on.ports.remove(port);
                }
            }
        }
        let at = HostAt { region, host: placed.host };
        if self.host(at).running().any(|(running, _)| running == id) {
            self.violated(ONE_TRUTH, format!("the room of {id} is given back while it runs on {at}"));
        }
    }

    /// A container's process begins.
    pub(crate) fn see_started(&mut self, at: HostAt, id: &ContainerId) {
        let books = &self.oracles.books[usize::from(at.region)];
        let placed = books.placed.get(id).is_some_and(|placed| placed.host == at.host);
        if !placed {
            self.violated(ONE_TRUTH, format!("{id} starts on {at}, and no record charges it there"));
        }
        self.see_first_start(at, id);
        self.see_alone(at, id);
        self.see_start_while_drained(at, id);
    }
}
