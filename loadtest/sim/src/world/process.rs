//! Processes: start, crash, standstill; and the leases under which nodes lead.

use super::{World, federation::FedLead, region::Lead};
use crate::{
    happening::{Happening, Process},
    store::{Holder, Seat, Store},
};

/// How long a process that ended takes to be started again, at least and at most.
const RESTART: (u64, u64) = (500, 5_000);
/// Share of a lease's time that its holder does not trust.
const DRIFT_DIVISOR: u64 = 20;

/// A process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Proc {
    pub(crate) up: bool,
    /// Counts its starts, over the whole world.
    pub(crate) life: u32,
    /// It does nothing before.
    pub(crate) frozen_until: u64,
    /// How far its clock is ahead, in milliseconds.
    pub(crate) offset: i64,
    /// Set while it can't reach its store: which cut.
    pub(crate) store_cut: Option<u32>,
    /// Until when its lease surely holds.
    pub(crate) sure_until: u64,
}

impl World {
    pub(crate) fn is_life(&self, process: Process, life: u32) -> bool {
        let proc = self.proc(process);
        proc.up && proc.life == life
    }

    pub(crate) fn store_of(&mut self, process: Process) -> Option<&mut Store> {
        match process {
            Process::Federation(_) => Some(&mut self.federation),
            Process::Node(at) => Some(&mut self.region_mut(at.region).store),
            Process::Agent(_) => None,
        }
    }

    /// When something that is sent to a store now is there.
    pub(crate) fn reaches_store(&mut self, process: Process) -> u64 {
        let at = self.now + self.store_delay();
        self.store_of(process).map_or(at, |store| at.max(store.stalled_until))
    }

    pub(crate) fn start(&mut self, process: Process) {
        if self.proc(process).up {
            return;
        }
        if let Process::Agent(at) = process {
            return self.start_agent(at);
        }
        let now = self.now;
        if self.proc(process).store_cut.is_some() {
            // It can't get a lease, and is started again.
            let wait = Self::between(&mut self.dice.faults, RESTART);
            return self.queue.push(now + wait, Happening::Start(process));
        }
        let (life, ttl) = (self.new_life(), self.plan.lease_ttl);
        let proc = self.proc_mut(process);
        (proc.up, proc.life, proc.frozen_until) = (true, life, 0);
        proc.sure_until = now + ttl - ttl / DRIFT_DIVISOR;
        let sure_until = proc.sure_until;
        if let Some(store) = self.store_of(process) {
            store.leases.insert(Holder { process, life }, now + ttl);
        }
        self.trace.note(&Name(process), format_args!("starts"));
        self.queue.push(now + ttl, Happening::LeaseEnd(process, life));
        self.queue.push(now + ttl / 3, Happening::Renew(process, life));
        self.queue.push(sure_until, Happening::LeaseCheck(process, life));
        let at = self.reaches_store(process);
        self.queue.push(at, Happening::Acquire(process, life));
    }

    /// A process ends, and is started again some time later.
    pub(crate) fn crash(&mut self, process: Process, why: &str) {
        if !self.proc(process).up {
            return;
        }
        self.trace.note(&Name(process), format_args!("ends: {why}"));
        let proc = self.proc_mut(process);
        proc.up = false;
        // What came for it while it stood still is lost with it, but for what is said over links: that is answered.
        for happening in self.held.remove(&process).unwrap_or_default() {
            self.happens(happening);
        }
        match process {
            Process::Federation(at) => self.fed_mut(at).lead = None,
            Process::Node(at) => self.node_ends(at),
            Process::Agent(at) => self.agent_ends(at),
        }
        let wait = Self::between(&mut self.dice.faults, RESTART);
        self.queue.push(self.now + wait, Happening::Start(process));
    }

    /// A process that is stopped in order gives its lease back.
    pub(crate) fn give_back(&mut self, process: Process) {
        let life = self.proc(process).life;
        let holder = Holder { process, life };
        if let Some(store) = self.store_of(process) {
            store.end_lease(holder);
        }
        self.call_standbys(process);
    }

    pub(crate) fn freeze(&mut self, process: Process, until: u64) {
        self.trace.note(&Name(process), format_args!("stands still until {until}"));
        let life = self.proc(process).life;
        self.proc_mut(process).frozen_until = until;
        self.queue.push(until, Happening::Thaw(process, life));
    }

    pub(crate) fn renew(&mut self, process: Process, life: u32) {
        let (now, ttl) = (self.now, self.plan.lease_ttl);
        if self.proc(process).store_cut.is_some() {
            return self.queue.push(now + ttl / 20, Happening::Renew(process, life));
        }
        let at = self.reaches_store(process);
        self.queue.push(at, Happening::Renewed(process, life, now));
    }

    pub(crate) fn renewed(&mut self, process: Process, life: u32, asked: u64) {
        let (now, ttl) = (self.now, self.plan.lease_ttl);
        let holder = Holder { process, life };
        let holds = self.store_of(process).is_some_and(|store| match store.leases.get_mut(&holder) {
            Some(until) if *until > now => {
                *until = now + ttl;
                true
            }
            _ => false,
        });
        let proc = self.proc_mut(process);
        if !holds || now >= proc.sure_until {
            return self.lose_lease(process);
        }
        proc.sure_until = proc.sure_until.max(asked + ttl - ttl / DRIFT_DIVISOR);
        self.queue.push(now + ttl / 3, Happening::Renew(process, life));
    }

    pub(crate) fn lease_check(&mut self, process: Process, life: u32) {
        let sure_until = self.proc(process).sure_until;
        if sure_until <= self.now {
            self.lose_lease(process);
        } else {
            self.queue.push(sure_until, Happening::LeaseCheck(process, life));
        }
    }

    fn lose_lease(&mut self, process: Process) {
        self.counts.leases_lost += 1;
        self.crash(process, "its lease is not sure any more");
    }

    /// The store looks whether a lease has ended. One that can't answer ends none.
    pub(crate) fn lease_end(&mut self, process: Process, life: u32) {
        let (now, ttl) = (self.now, self.plan.lease_ttl);
        let holder = Holder { process, life };
        let Some(store) = self.store_of(process) else { return };
        let Some(until) = store.leases.get_mut(&holder) else { return };
        if store.stalled_until > now {
            *until = (*until).max(store.stalled_until + ttl);
        }
        let until = *until;
        if until > now {
            return self.queue.push(until, Happening::LeaseEnd(process, life));
        }
        store.end_lease(holder);
        self.trace.note(&Name(process), format_args!("its lease has ended in the store"));
        self.call_standbys(process);
    }

    /// Everyone who waits for the lead tries to take it.
    fn call_standbys(&mut self, process: Process) {
        let all: Vec<Process> = match process {
            Process::Federation(_) => self.federation_nodes().map(|(at, _)| Process::Federation(at)).collect(),
            Process::Node(gone) => {
                self.nodes().filter(|(at, _)| at.region == gone.region).map(|(at, _)| Process::Node(at)).collect()
            }
            Process::Agent(_) => return,
        };
        for process in all {
            let proc = *self.proc(process);
            if proc.up {
                let at = self.reaches_store(process);
                self.queue.push(at, Happening::Acquire(process, proc.life));
            }
        }
    }

    pub(crate) fn acquire(&mut self, process: Process, life: u32) {
        let now = self.now;
        let leads = match process {
            Process::Federation(at) => self.fed(at).lead.is_some(),
            Process::Node(at) => self.node(at).lead.is_some(),
            Process::Agent(_) => return,
        };
        if leads {
            return;
        }
        if self.proc(process).store_cut.is_some() {
            return self.queue.push(now + 1_000, Happening::Acquire(process, life));
        }
        let seat = if matches!(process, Process::Federation(_)) { Seat::Federation } else { Seat::Allocator };
        let holder = Holder { process, life };
        if self.store_of(process).and_then(|store| store.take(seat, holder, now)).is_none() {
            return;
        }
        self.counts.takeovers += 1;
        self.trace.note(&Name(process), format_args!("leads"));
        match process {
            Process::Federation(at) => {
                let regions = self.regions.len();
                self.fed_mut(at).lead = Some(FedLead::new(regions));
                self.fed_begins(at);
            }
            Process::Node(at) => {
                let region = self.region(at.region);
                let lead = Lead::new(region.shards, region.datacenters.len());
                self.node_mut(at).lead = Some(lead);
                self.lead_begins(at);
            }
            Process::Agent(_) => {}
        }
    }
}

/// A process, for people.
pub(crate) struct Name(pub(crate) Process);

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Process::Federation(at) => write!(f, "{at}"),
            Process::Node(at) => write!(f, "{at}"),
            Process::Agent(at) => write!(f, "{at}"),
        }
    }
}
