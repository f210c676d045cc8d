//! How the federation follows a region: everything it has, then each change, and a look every second.

use super::{World, federation::FedLead};
use crate::{
    happening::{Ask, Happening, Process, Tell},
    names::{FedAt, LedgerAt, NodeAt, RouterAt},
    plan::Fault,
};
use polder_core::{intent_router, message::SliceStatus, quota_ledger, quota_ledger::AccountHeard};
use polder_types::{JobId, RegionId, Timestamp};
use std::collections::{BTreeMap, VecDeque};

const LOOK_EVERY: u64 = 1_000;
const LOOKS_PER_READING: u32 = 30;
const PAUSE_MIN: u64 = 200;
const PAUSE_MAX: u64 = 2_000;
/// How long a region may take to answer.
const ANSWER_TIMEOUT: u64 = 10_000;
/// How long a region may be unheard before it counts as silent.
const SILENT_AFTER: u64 = 5_000;

/// Slices and allotments that may wait for a region.
const PUTS_WAITING_MAX: usize = 1024;

/// What the federation knows of its link to a region.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    /// Counts its connections and requests: an answer to an earlier one is void.
    number: u32,
    node: usize,
    pub(crate) heard_at: u64,
    told_silent: bool,
    pause: u64,
    looks: u32,
    /// Whether changes are streamed, and under which number.
    stream: Option<u32>,
    newest: BTreeMap<JobId, Timestamp>,
    /// Has everything read at the next look.
    again: bool,
    /// Jobs that something under way is about, and which.
    busy: BTreeMap<JobId, u32>,
    /// What waits for them.
    waiting: VecDeque<Ask>,
    puts: u32,
}

impl World {
    fn follower(&mut self, at: FedAt, region: u8) -> Option<&mut Follower> {
        self.fed_mut(at).lead.as_mut().map(|lead: &mut FedLead| &mut lead.followers[usize::from(region)])
    }

    /// Has every link say all that its region has once more.
    pub(crate) fn say_all_again(&mut self, at: FedAt) {
        if let Some(lead) = &mut self.fed_mut(at).lead {
            lead.followers.iter_mut().for_each(|follower| follower.again = true);
        }
    }

    fn send_ask(&mut self, at: FedAt, region: u8, number: u32, ask: Ask) {
        let (now, life) = (self.now, self.fed(at).process.life);
        let nodes = self.region(region).nodes.len();
        let Some(follower) = self.follower(at, region) else { return };
        let node = u8::try_from(follower.node % nodes).unwrap_or(0);
        let to = NodeAt { region, node };
        if !ask.is_put() {
            // Whatever becomes of it, this ends the waiting.
            let refused = !self.node(to).process.up && !self.region(region).cut_down;
            let failed = now + if refused { 2 } else { ANSWER_TIMEOUT };
            self.queue.push(failed, Happening::Tell(at, life, region, number, Box::new(Tell::Failed)));
        } else if self.strikes(Fault::RequestRepeated) {
            let later = now + self.wide_delay() + self.dice.net.between(0, 20_000);
            self.queue.push(later, Happening::Ask(to, at, life, number, Box::new(ask.clone())));
        }
        let arrives = now + self.wide_delay();
        self.queue.push(arrives, Happening::Ask(to, at, life, number, Box::new(ask)));
    }

    /// Sends what changes something, or loses it: it is repeated. About one job one thing is under way at a time.
    pub(crate) fn put(&mut self, at: FedAt, region: &RegionId, ask: Ask) {
        let number = self.regions.iter().position(|known| known.id == *region);
        let Some(region) = number.and_then(|number| u8::try_from(number).ok()) else { return };
        let Some(follower) = self.follower(at, region) else { return };
        if follower.waiting.len() < PUTS_WAITING_MAX {
            follower.waiting.push_back(ask);
        }
        self.put_next(at, region);
    }

    fn put_next(&mut self, at: FedAt, region: u8) {
        let life = self.fed(at).process.life;
        loop {
            let given_up = self.now + ANSWER_TIMEOUT;
            let Some(follower) = self.follower(at, region) else { return };
            let Some(ask) = follower.waiting.front() else { return };
            let job = ask.job().cloned();
            if job.as_ref().is_some_and(|job| follower.busy.contains_key(job)) {
                return;
            }
            let Some(ask) = follower.waiting.pop_front() else { return };
            follower.puts += 1;
            let number = follower.puts;
            if let Some(job) = job {
                follower.busy.insert(job.clone(), number);
                self.queue.push(given_up, Happening::PutTimeout(at, life, region, job, number));
            }
            self.send_ask(at, region, number, ask);
        }
    }

    /// What was put about a job is answered, or not waited for any longer.
    pub(crate) fn put_answered(&mut self, at: FedAt, region: u8, job: &JobId, number: u32) {
        let Some(follower) = self.follower(at, region) else { return };
        if follower.busy.get(job) == Some(&number) {
            follower.busy.remove(job);
            self.put_next(at, region);
        }
    }

    /// The next look at a region, or the next attempt to reach it.
    pub(crate) fn look(&mut self, at: FedAt, region: u8, number: u32) {
        let Some(follower) = self.follower(at, region) else { return };
        if follower.number != number {
            return;
        }
        follower.number += 1;
        follower.looks += 1;
        let number = follower.number;
        let all = follower.again || follower.stream.is_none() || follower.looks.is_multiple_of(LOOKS_PER_READING);
        follower.again = false;
        self.send_ask(at, region, number, if all { Ask::List } else { Ask::Quotas });
    }

    /// A region has answered, or can't be reached.
    pub(crate) fn told(&mut self, at: FedAt, region: u8, number: u32, tell: Tell) {
        let id = self.region(region).id.clone();
        match tell {
            Tell::Dropped { job, asked, problem } => {
                let event = match problem {
                    None => intent_router::Event::SliceDropped { region: id, job: job.clone() },
                    Some(problem) => {
                        let job = job.clone();
                        intent_router::Event::SliceRefused { region: id, job, version: asked, problem }
                    }
                };
                self.deliver(RouterAt(at), event);
                return self.put_answered(at, region, &job, number);
            }
            Tell::Slice { job, asked, status } => {
                let of = job.clone();
                let event = match status {
                    Ok(version) => intent_router::Event::SliceAcked { region: id, job, version },
                    Err(problem) => intent_router::Event::SliceRefused { region: id, job, version: asked, problem },
                };
                self.deliver(RouterAt(at), event);
                return self.put_answered(at, region, &of, number);
            }
            Tell::Allotment(allotment) => {
                let held = quota_ledger::Event::AllotmentHeld { region: id, allotment };
                return self.deliver(LedgerAt(at), held);
            }
            Tell::Changes(statuses) => return self.take_changes(at, region, number, statuses),
            Tell::WatchEnded => {
                if let Some(follower) = self.follower(at, region).filter(|it| it.stream == Some(number)) {
                    follower.stream = None;
                }
                return;
            }
            Tell::List(_) | Tell::Quotas(_) | Tell::Failed => {}
        }
        let Some(follower) = self.follower(at, region).filter(|follower| follower.number == number) else { return };
        follower.number += 1;
        match tell {
            Tell::List(statuses) => {
                follower.newest = statuses.iter().map(|(status, as_of)| (status.job.clone(), *as_of)).collect();
                self.heard(at, region);
                self.say(at, region, statuses.into_iter().map(|(status, _)| status).collect(), true);
                let Some(follower) = self.follower(at, region) else { return };
                let next = follower.number;
                if follower.stream.is_none() {
                    follower.stream = Some(next);
                    self.send_watch(at, region, next);
                }
                self.send_ask(at, region, next, Ask::Quotas);
            }
            Tell::Quotas(accounts) => {
                self.heard(at, region);
                let now = self.clock(Process::Federation(at));
                let accounts = accounts.into_iter();
                let accounts =
                    accounts.map(|(account, used)| AccountHeard { account, used, allotment: None }).collect();
                let heard = quota_ledger::Event::RegionHeard { region: id, at: now, accounts };
                self.deliver(LedgerAt(at), heard);
                self.look_later(at, region, LOOK_EVERY);
            }
            _ => {
                let nodes = self.region(region).nodes.len();
                let Some(follower) = self.follower(at, region) else { return };
                follower.stream = None;
                follower.node = (follower.node + 1) % nodes;
                follower.pause = (follower.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
                let pause = follower.pause;
                self.tell_silence(at, region);
                self.look_later(at, region, pause);
            }
        }
    }

    fn send_watch(&mut self, at: FedAt, region: u8, number: u32) {
        let (arrives, life) = (self.now + self.wide_delay(), self.fed(at).process.life);
        let nodes = self.region(region).nodes.len();
        let Some(follower) = self.follower(at, region) else { return };
        let to = NodeAt { region, node: u8::try_from(follower.node % nodes).unwrap_or(0) };
        self.queue.push(arrives, Happening::Ask(to, at, life, number, Box::new(Ask::Watch)));
    }

    fn look_later(&mut self, at: FedAt, region: u8, wait: u64) {
        let (when, life) = (self.now + wait, self.fed(at).process.life);
        let Some(number) = self.follower(at, region).map(|follower| follower.number) else { return };
        self.queue.push(when, Happening::Look(at, life, region, number));
    }

    fn heard(&mut self, at: FedAt, region: u8) {
        let now = self.now;
        let Some(follower) = self.follower(at, region) else { return };
        (follower.heard_at, follower.told_silent, follower.pause) = (now, false, 0);
    }

    fn take_changes(&mut self, at: FedAt, region: u8, number: u32, changes: Vec<(SliceStatus, Timestamp)>) {
        let Some(follower) = self.follower(at, region).filter(|it| it.stream == Some(number)) else { return };
        let mut statuses = Vec::new();
        for (status, as_of) in changes {
            let newest = follower.newest.entry(status.job.clone()).or_default();
            if as_of >= *newest {
                *newest = as_of;
                statuses.push(status);
            }
        }
        self.heard(at, region);
        self.say(at, region, statuses, false);
    }

    fn say(&mut self, at: FedAt, region: u8, statuses: Vec<SliceStatus>, complete: bool) {
        let now = self.clock(Process::Federation(at));
        let region = self.region(region).id.clone();
        self.deliver(RouterAt(at), intent_router::Event::RegionHeard { region, at: now, statuses, complete });
    }

    fn tell_silence(&mut self, at: FedAt, region: u8) {
        let now = self.now;
        let Some(follower) = self.follower(at, region) else { return };
        if now.saturating_sub(follower.heard_at) < SILENT_AFTER || std::mem::replace(&mut follower.told_silent, true) {
            return;
        }
        let region = self.region(region).id.clone();
        self.deliver(RouterAt(at), intent_router::Event::RegionSilent { region: region.clone() });
        self.deliver(LedgerAt(at), quota_ledger::Event::RegionSilent { region });
    }
}
