//! Runs machines as their shell does: steps, effects in their order, commits, restores, the one timer.

use super::World;
use crate::{
    cell::{Cell, Phase},
    happening::{Commit, Happening},
    names::{ActorId, AllocatorAt, BrokerAt, HostAt, LedgerAt, RouterAt, ShardAt},
};
use polder_core::machine::{Durable, Effects, Machine};
use polder_types::Timestamp;
use std::fmt::Debug;

/// What a step wants done, taken apart.
#[derive(Debug)]
pub(crate) struct Step<M: Machine> {
    pub(crate) now: Vec<M::Effect>,
    pub(crate) persist: Vec<M::Delta>,
    pub(crate) after: Vec<M::Effect>,
}

/// One actor of a world: its machine, and what its surroundings do.
pub(crate) trait Part: Copy {
    type Machine: Machine<Event: Debug, Effect: Debug, Delta: Debug>;

    fn id(self) -> ActorId;
    /// Its cell; none while its process does not run it.
    fn cell(self, world: &mut World) -> Option<&mut Cell<Self::Machine>>;
    /// What its process takes for the time.
    fn clock(self, world: &World) -> Timestamp;
    /// Carries out an effect.
    fn execute(self, world: &mut World, effect: <Self::Machine as Machine>::Effect);
    /// Puts changes on their way to where they become durable.
    fn commit(self, world: &mut World, life: u32, steps: Vec<Vec<<Self::Machine as Machine>::Delta>>);
    /// Goes on with its restore.
    fn read(self, world: &mut World, life: u32, stage: u16);
    /// Watches a step, and spoils it if a bug is planted.
    fn watch(self, world: &mut World, step: &mut Step<Self::Machine>);
    /// Spoils an event on its way in if a bug is planted. None drops it.
    fn let_in(
        self,
        _world: &mut World,
        event: <Self::Machine as Machine>::Event,
    ) -> Option<<Self::Machine as Machine>::Event> {
        Some(event)
    }
}

/// Does the same for whichever kind of actor is meant.
macro_rules! each_part {
    ($actor:expr, $part:ident => $body:expr) => {
        match $actor {
            ActorId::Router($part) => $body,
            ActorId::Ledger($part) => $body,
            ActorId::Allocator($part) => $body,
            ActorId::Shard($part) => $body,
            ActorId::Broker($part) => $body,
            ActorId::Host($part) => $body,
        }
    };
}

impl World {
    /// Gives an actor an event; it waits in the inbox if the actor can't take it now.
    pub(crate) fn deliver<P: Part>(&mut self, part: P, event: <P::Machine as Machine>::Event) {
        let now = self.now;
        let Some(cell) = part.cell(self) else { return };
        if cell.phase == Phase::Running && cell.stalled_until <= now && cell.inbox.is_empty() {
            self.step(part, event);
        } else {
            cell.inbox.push_back(event);
        }
    }

    /// The same, unless its inbox is full. Whether it was taken; one that was stopped hears nothing any more.
    pub(crate) fn try_deliver<P: Part>(&mut self, part: P, event: <P::Machine as Machine>::Event) -> bool {
        let most = self.plan.inbox_max;
        let Some(cell) = part.cell(self) else { return true };
        if cell.inbox.len() >= most {
            self.counts.refused += 1;
            return false;
        }
        self.deliver(part, event);
        true
    }

    fn step<P: Part>(&mut self, part: P, event: <P::Machine as Machine>::Event) {
        let now = part.clock(self);
        let Some(event) = part.let_in(self, event) else { return };
        self.trace.step(part.id(), &event);
        let Some(machine) = part.cell(self).and_then(|cell| cell.machine.as_mut()) else { return };
        let effects = machine.step(now, event);
        self.finish(part, effects);
    }

    fn finish<P: Part>(&mut self, part: P, effects: Effects<P::Machine>) {
        self.counts.steps += 1;
        self.check_machine(part);
        let (now, persist, gated) = effects.split();
        // The proof is not needed here: the cell holds these back itself.
        let after = gated.open(Durable::committed());
        let mut step = Step { now, persist, after };
        part.watch(self, &mut step);
        let Step { now, persist, after } = step;
        self.trace.number(((now.len() << 40) | (persist.len() << 20) | after.len()) as u64);
        if self.trace.is_full() {
            let id = part.id();
            now.iter().for_each(|effect| self.trace.effect(id, "now    ", effect));
            persist.iter().for_each(|delta| self.trace.effect(id, "persist", delta));
            after.iter().for_each(|effect| self.trace.effect(id, "after  ", effect));
        }
        self.execute(part, now);
        let Some(cell) = part.cell(self) else { return };
        let released = cell.push(persist, after);
        self.execute(part, released);
        self.submit(part);
        self.arm(part);
    }

    fn check_machine<P: Part>(&mut self, part: P) {
        self.until_check = self.until_check.saturating_sub(1);
        if self.until_check > 0 {
            return;
        }
        self.until_check = self.plan.check_every;
        self.counts.checks += 1;
        let Some(machine) = part.cell(self).and_then(|cell| cell.machine.as_ref()) else { return };
        if let Err(violation) = machine.check() {
            self.violated("machine", format!("{}: {violation}", part.id()));
        }
    }

    fn execute<P: Part>(&mut self, part: P, effects: Vec<<P::Machine as Machine>::Effect>) {
        for effect in effects {
            part.execute(self, effect);
        }
    }

    fn submit<P: Part>(&mut self, part: P) {
        let Some(cell) = part.cell(self) else { return };
        let life = cell.life;
        if let Some(steps) = cell.submit() {
            part.commit(self, life, steps);
        }
    }

    /// Sets the actor's timer.
    pub(crate) fn arm<P: Part>(&mut self, part: P) {
        let (now, local) = (self.now, part.clock(self).0);
        let token = self.tokens.wrapping_add(1);
        let Some(cell) = part.cell(self) else { return };
        let Some(deadline) = cell.running().and_then(Machine::next_deadline) else { return };
        let at = (now + deadline.0.saturating_sub(local)).max(cell.wake_not_before);
        // One that rings too early looks again.
        if cell.wake_at.is_some_and(|wake| wake <= at) {
            return;
        }
        (cell.wake_at, cell.wake_token) = (Some(at), token);
        self.tokens = token;
        self.queue.push(at, Happening::Wake(part.id(), token));
    }

    fn woken<P: Part>(&mut self, part: P, token: u32) {
        let (now, local) = (self.now, part.clock(self));
        let Some(cell) = part.cell(self) else { return };
        if cell.wake_token != token || cell.wake_at.is_none() {
            return;
        }
        cell.wake_at = None;
        if self.sleeps(part.id()) {
            return;
        }
        let Some(cell) = part.cell(self) else { return };
        if cell.phase != Phase::Running || cell.stalled_until > now {
            return;
        }
        let Some(machine) = cell.machine.as_mut() else { return };
        if machine.next_deadline().is_none_or(|at| at > local) {
            return self.arm(part);
        }
        let effects = machine.wake(local);
        cell.wake_not_before = now + 1;
        self.trace.step(part.id(), &"wake");
        self.finish(part, effects);
    }

    fn answered<P: Part>(&mut self, part: P, life: u32, answer: Commit) {
        let now = self.now;
        let Some(cell) = part.cell(self).filter(|cell| cell.life == life) else { return };
        match answer {
            Commit::Committed => {
                let released = cell.committed();
                self.execute(part, released);
                self.submit(part);
                let Some(cell) = part.cell(self) else { return };
                if cell.phase == Phase::Settling && cell.is_settled() {
                    self.pause(part);
                }
            }
            Commit::Conflict | Commit::Unknown => {
                cell.failed();
                let pause = cell.pause(now);
                self.counts.restores += 1;
                self.trace.note(&part.id(), format_args!("commit {answer:?}: restored in {pause} ms"));
                self.queue.push(now + pause, Happening::Restore(part.id(), life));
            }
        }
    }

    fn pause<P: Part>(&mut self, part: P) {
        let now = self.now;
        let Some(cell) = part.cell(self) else { return };
        cell.phase = Phase::Restoring;
        let (pause, life) = (cell.pause(now), cell.life);
        self.counts.restores += 1;
        self.queue.push(now + pause, Happening::Restore(part.id(), life));
    }

    /// A step of the machine panicked: what it had whole stays.
    pub(crate) fn panic<P: Part>(&mut self, part: P) {
        let Some(cell) = part.cell(self).filter(|cell| cell.phase == Phase::Running) else { return };
        cell.drop_machine();
        let settled = cell.is_settled();
        self.trace.note(&part.id(), format_args!("panics"));
        if settled {
            self.pause(part);
        }
    }

    /// Begins a restore.
    pub(crate) fn begin_restore<P: Part>(&mut self, part: P) {
        let life = self.new_life();
        let Some(cell) = part.cell(self) else { return };
        cell.life = life;
        cell.phase = Phase::Restoring;
        part.read(self, life, 0);
    }

    /// A machine is restored: what it wants done at once, its wake, and what waited for it.
    pub(crate) fn restored<P: Part>(&mut self, part: P, machine: P::Machine, effects: Effects<P::Machine>) {
        let (now, local) = (self.now, part.clock(self));
        let Some(cell) = part.cell(self) else { return };
        cell.begin(machine);
        cell.began_at = now;
        self.trace.step(part.id(), &"restored");
        self.finish(part, effects);
        let Some(machine) = part.cell(self).and_then(|cell| cell.machine.as_mut()) else { return };
        let effects = machine.wake(local);
        self.finish(part, effects);
        self.go_on(part);
    }

    /// Takes what waits in the inbox.
    pub(crate) fn go_on<P: Part>(&mut self, part: P) {
        let now = self.now;
        loop {
            let Some(cell) = part.cell(self) else { return };
            if cell.phase != Phase::Running || cell.stalled_until > now {
                return;
            }
            let Some(event) = cell.inbox.pop_front() else { break };
            self.step(part, event);
        }
        self.arm(part);
    }

    /// Gives the actor no turn for a while.
    pub(crate) fn stall<P: Part>(&mut self, part: P, until: u64) {
        let Some(cell) = part.cell(self) else { return };
        cell.stalled_until = until;
        self.trace.note(&part.id(), format_args!("stalls until {until}"));
        self.queue.push(until, Happening::GoOn(part.id()));
    }

    /// What concerns actors of any kind.
    pub(crate) fn of_actor(&mut self, happening: Happening) {
        match happening {
            Happening::Wake(actor, token) => each_part!(actor, part => self.woken(part, token)),
            Happening::GoOn(actor) => each_part!(actor, part => self.go_on(part)),
            Happening::Answer(actor, life, answer) => each_part!(actor, part => self.answered(part, life, answer)),
            Happening::Restore(actor, life) => each_part!(actor, part => {
                if part.cell(self).is_some_and(|cell| cell.life == life) {
                    self.begin_restore(part);
                }
            }),
            Happening::Reading(actor, life, stage) => each_part!(actor, part => {
                if part.cell(self).is_some_and(|cell| cell.life == life) {
                    part.read(self, life, stage);
                }
            }),
            _ => {}
        }
    }

    /// Has a step of an actor panic.
    pub(crate) fn panic_any(&mut self, actor: ActorId) {
        each_part!(actor, part => self.panic(part));
    }

    /// Gives an actor no turn for a while.
    pub(crate) fn stall_any(&mut self, actor: ActorId, until: u64) {
        each_part!(actor, part => self.stall(part, until));
    }

    /// Every actor that there is now.
    pub(crate) fn actors(&self) -> Vec<ActorId> {
        let mut actors = Vec::new();
        for (at, node) in self.federation_nodes() {
            if node.lead.is_some() {
                actors.extend([ActorId::Router(RouterAt(at)), ActorId::Ledger(LedgerAt(at))]);
            }
        }
        for (at, node) in self.nodes() {
            let Some(lead) = &node.lead else { continue };
            actors.push(ActorId::Allocator(AllocatorAt(at)));
            let shards = (0..).zip(&lead.shards).map(|(shard, _)| ActorId::Shard(ShardAt { node: at, shard }));
            actors.extend(shards);
            let brokers = (0..).zip(&lead.brokers).map(|(datacenter, _)| BrokerAt { node: at, datacenter });
            actors.extend(brokers.map(ActorId::Broker));
        }
        for (at, host) in self.hosts() {
            if host.agent.up {
                actors.push(ActorId::Host(at));
            }
        }
        actors
    }
}

/// A host is named as its machine is.
impl From<HostAt> for ActorId {
    fn from(at: HostAt) -> Self {
        Self::Host(at)
    }
}
