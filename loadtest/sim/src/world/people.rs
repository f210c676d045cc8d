//! People: what they want, what they order, and what they were told.

use super::World;
use crate::{
    happening::{Happening, Order},
    names::HostAt,
};
use polder_types::{
    AccountId, Amounts, Bytes, Cpu, Entrypoint, HealthCheck, JobId, JobKind, JobSpec, Millis, Name, PortSpec, Priority,
    RegionId, RegionSplit, Regions, Resources, RestartPolicy, RestartSpec, Spread, StopSignal, StopSpec, UpdateSpec,
};
use std::collections::BTreeMap;

/// How long a person waits before trying again what was not answered.
const PATIENCE: u64 = 15_000;

/// What people have in mind.
#[derive(Debug, Default)]
pub(crate) struct People {
    /// Every job that was ever applied, as it was applied last.
    pub(crate) jobs: BTreeMap<JobId, JobSpec>,
    names: Vec<(JobId, JobKind)>,
    accounts: Vec<AccountId>,
    /// Counts changes, so that each is another.
    changes: u64,
}

impl People {
    /// What kind of job this is.
    pub(crate) fn kind(&self, job: &JobId) -> Option<JobKind> {
        self.jobs.get(job).map(|spec| spec.kind)
    }
}

impl World {
    /// Names of jobs and accounts, and the first thing that somebody wants.
    pub(super) fn make_people(&mut self) {
        let texts = ["shop", "shop/pay", "bank", "lab"];
        self.people.accounts = texts.iter().filter_map(|text| AccountId::new(text).ok()).collect();
        for number in 0..self.plan.jobs {
            let account = self.people.accounts[self.dice.people.index(self.people.accounts.len())].clone();
            let Ok(name) = Name::new(&format!("job{number}")) else { continue };
            let kind = if self.dice.people.chance(200) { JobKind::Batch } else { JobKind::Service };
            self.people.names.push((JobId { account, name }, kind));
        }
        let first = self.now + 3_000 + self.dice.people.gap(self.plan.person_gap);
        self.queue.push(first, Happening::Person);
    }

    /// Somebody orders something, and somebody else will some time later.
    pub(crate) fn person(&mut self) {
        if self.healed {
            return;
        }
        let again = self.now + 1 + self.dice.people.gap(self.plan.person_gap);
        self.queue.push(again, Happening::Person);
        self.counts.orders += 1;
        let order = self.wish();
        if let Order::Apply(spec) = &order {
            self.people.jobs.insert(spec.id.clone(), (**spec).clone());
        }
        self.ask_for(order);
    }

    /// What somebody orders next.
    fn wish(&mut self) -> Order {
        let number = self.dice.people.index(self.people.names.len());
        let (job, kind) = self.people.names[number].clone();
        let known = self.people.jobs.contains_key(&job);
        let host = self.some_host();
        match self.dice.people.below(100) {
            _ if !known => Order::Apply(Box::new(self.new_spec(job, kind))),
            0..=39 => Order::Apply(Box::new(self.changed_spec(&job))),
            40..=47 => Order::Stop(job),
            48..=51 => Order::Delete(job),
            52..=59 => self.new_quota(),
            60..=67 => Order::Cordon(host),
            68..=79 => Order::Uncordon(host),
            80..=94 => Order::Drain(host, self.dice.people.between(3_000, 120_000)),
            _ => Order::Abort(host),
        }
    }

    fn some_host(&mut self) -> HostAt {
        let region = self.dice.people.index(self.regions.len());
        let host = self.dice.people.index(self.regions[region].hosts.len());
        HostAt { region: u8::try_from(region).unwrap_or(0), host: u32::try_from(host).unwrap_or(0) }
    }

    fn number(&mut self, low: u64, high: u64) -> u32 {
        u32::try_from(self.dice.people.between(low, high)).unwrap_or(u32::MAX)
    }

    fn new_quota(&mut self) -> Order {
        let account = self.people.accounts[self.dice.people.index(self.people.accounts.len())].clone();
        if self.dice.people.chance(150) {
            return Order::RemoveQuota(account);
        }
        let tasks = if self.plan.tight { self.number(0, 40) } else { self.number(200, 4_000) };
        let limit = Amounts { cpu: Cpu::from_centi_cores(tasks * 60), memory: Bytes::from_mib(tasks * 256), tasks };
        Order::Quota(account, limit)
    }

    fn new_spec(&mut self, id: JobId, kind: JobKind) -> JobSpec {
        let tasks = self.number(1, u64::from(self.plan.tasks_max));
        let ports = match (Name::new("http"), self.dice.people.chance(500)) {
            (Ok(name), true) => vec![PortSpec { name, fixed: None }],
            _ => Vec::new(),
        };
        let health = match ports.first() {
            Some(port) if self.dice.people.chance(500) => Some(HealthCheck {
                port: port.name.clone(),
                path: "/".to_owned(),
                interval: Millis(self.dice.people.between(1_000, 10_000)),
                timeout: Millis(1_000),
                failures: 3,
            }),
            _ => None,
        };
        let max_per_host = if self.dice.people.chance(200) { Some(self.number(1, 4)) } else { None };
        let max_failures = if self.dice.people.chance(150) { Some(5) } else { None };
        JobSpec {
            id,
            kind,
            tasks,
            priority: Priority::default(),
            image: "oci:web:v1".to_owned(),
            entrypoints: BTreeMap::new(),
            entrypoint: None,
            process: Entrypoint::default(),
            resources: self.resources(),
            ports,
            constraints: Vec::new(),
            spread: Spread { max_per_host, ..Spread::default() },
            update: UpdateSpec {
                max_unavailable: self.number(1, 3),
                min_healthy: Millis(self.dice.people.between(0, 5_000)),
            },
            stop: StopSpec { signal: StopSignal::Sigterm, grace: Millis(self.dice.people.between(500, 10_000)) },
            restart: RestartSpec {
                policy: RestartPolicy::Always,
                backoff: Millis(self.dice.people.between(200, 2_000)),
                backoff_max: Millis(self.dice.people.between(4_000, 20_000)),
                reset_after: Millis(self.dice.people.between(5_000, 60_000)),
                max_failures,
            },
            replace_after: Millis(self.dice.people.between(2_000, 60_000)),
            health,
            regions: self.some_regions(tasks),
        }
    }

    fn resources(&mut self) -> Resources {
        Resources {
            cpu: Cpu::from_centi_cores(self.number(5, 60)),
            memory: Bytes::from_mib(self.number(16, 256)),
            pids: 64,
        }
    }

    fn some_regions(&mut self, tasks: u32) -> Regions {
        let mut names: Vec<RegionId> = self.regions.iter().map(|region| region.id.clone()).collect();
        match self.dice.people.below(4) {
            0 => Regions::default(),
            1 => {
                let one = names.swap_remove(self.dice.people.index(names.len()));
                Regions { names: vec![one], split: RegionSplit::Even }
            }
            2 => {
                let weights = names.iter().map(|name| (name.clone(), self.number(1, 5))).collect();
                Regions { names, split: RegionSplit::Weights { weights } }
            }
            _ => {
                let first = self.number(0, u64::from(tasks));
                let last = names.len() - 1;
                let mut counts: BTreeMap<RegionId, u32> = names.iter().map(|name| (name.clone(), 0)).collect();
                *counts.entry(names[0].clone()).or_default() += first;
                *counts.entry(names[last].clone()).or_default() += tasks - first;
                Regions { names, split: RegionSplit::Counts { counts } }
            }
        }
    }

    /// The job as it is, with something else.
    fn changed_spec(&mut self, job: &JobId) -> JobSpec {
        let Some(mut spec) = self.people.jobs.get(job).cloned() else {
            return self.new_spec(job.clone(), JobKind::Service);
        };
        self.people.changes += 1;
        match self.dice.people.below(10) {
            // The same again.
            0 => {}
            1..=4 => {
                spec.process.env.insert("V".to_owned(), self.people.changes.to_string());
            }
            5..=7 => {
                spec.tasks = self.number(1, u64::from(self.plan.tasks_max));
                spec.regions = self.some_regions(spec.tasks);
            }
            8 => spec.regions = self.some_regions(spec.tasks),
            _ => spec.resources = self.resources(),
        }
        spec
    }

    /// Takes an order to whoever is in charge, or gives it up for now.
    pub(crate) fn ask_for(&mut self, order: Order) {
        self.trace.note(&"person", format_args!("orders {order:?}"));
        match &order {
            Order::Apply(_) | Order::Stop(_) | Order::Delete(_) | Order::Quota(..) | Order::RemoveQuota(_) => {
                self.see_order(&order);
                if let Some(at) = self.fed_leader() {
                    self.order_to_federation(at, order);
                } else {
                    self.try_again(order);
                }
            }
            Order::Cordon(host) | Order::Uncordon(host) | Order::Drain(host, _) | Order::Abort(host) => {
                if let Some(node) = self.leader(host.region) {
                    self.order_about_host(node, order);
                } else {
                    self.try_again(order);
                }
            }
        }
    }

    fn try_again(&mut self, order: Order) {
        if self.dice.people.chance(700) {
            let at = self.now + self.dice.people.between(1_000, PATIENCE);
            self.queue.push(at, Happening::PersonAgain(Box::new(order)));
        }
    }

    /// Opens every host that is still closed; whether there was none.
    pub(crate) fn open_all_hosts(&mut self) -> bool {
        let closed: Vec<HostAt> = self
            .hosts()
            .filter(|(at, host)| {
                let record = self.region(at.region).store.hosts.get(&host.id);
                record.is_some_and(|record| record.cordon.is_some() || record.closing_drain().is_some())
            })
            .map(|(at, _)| at)
            .collect();
        let none = closed.is_empty();
        for at in closed {
            if let Some(node) = self.leader(at.region) {
                self.order_about_host(node, Order::Uncordon(at));
            }
        }
        none
    }

    /// Breaks a host's link, and both sides see it.
    pub(crate) fn reset_link(&mut self, at: HostAt) -> bool {
        let super::link::Linker::Open(node, session) = self.host(at).linker else { return false };
        self.node_link_over(node, at.host, session, false);
        self.link_lost(at);
        true
    }

    /// A node's machine is gone, and says nothing: hosts notice by and by.
    pub(crate) fn vanish(&mut self, node: crate::names::NodeAt, links: Vec<(u32, u64)>) {
        for (host, session) in links {
            let at = HostAt { region: node.region, host };
            let noticed = self.now + 20_000 + self.dice.net.between(0, 5_000);
            let life = self.host(at).agent.life;
            let closed = crate::happening::Down::Closed;
            self.queue.push(noticed, Happening::Down(at, life, node, session, closed));
        }
    }
}
