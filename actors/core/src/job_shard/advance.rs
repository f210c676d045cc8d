//! One task, brought one step nearer to what is wanted. Looks only at what is, never at what just happened, so it may
//! be called at any time and any number of times.

use alloc::{format, sync::Arc, vec::Vec};
use polder_types::{ContainerPhase, ContainerSpec, HostId, JobId, Timestamp};

use super::{
    JobShard,
    limits::{ORDER_REPEAT, ORDER_REPEAT_MAX, REQUEST_REPEAT},
    prepare::Preparing,
    shard::{Ask, AskGroup, Due, Job, Live, Task, doubled},
    state::{Placement, StopOrdered, StopReason},
    turn::Turn,
};
use crate::message::{HostOrder, OrderOwner, RequestId};

/// What a container's host is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    Start,
    Stop,
}

fn pending(placement: &Placement, live: &Live) -> Option<Pending> {
    match (&placement.stop, &live.phase) {
        (Some(_), _) => Some(Pending::Stop),
        (None, None) if !live.refused => Some(Pending::Start),
        (None, _) => None,
    }
}

/// What a container is started from.
fn container_spec(job: &Job, placement: &Placement) -> Option<ContainerSpec> {
    let template = job.template_of(placement.generation)?;
    Some(ContainerSpec {
        generation: placement.generation,
        image: template.image.clone(),
        command: template.process.command.clone(),
        args: template.process.args.clone(),
        env: template.process.env.clone(),
        user: template.process.user.clone(),
        workdir: template.process.workdir.clone(),
        cpu: template.resources.cpu,
        memory: template.resources.memory,
        pids: template.resources.pids,
        ports: placement.ports.clone(),
        stop: template.stop,
        health: template.health.clone(),
    })
}

impl JobShard {
    pub(super) fn advance(&mut self, turn: &mut Turn, id: &JobId, index: u32) {
        let Some(job) = self.jobs.get(id) else { return };
        if job.record.quarantine.is_some() {
            self.drop_ask(turn, id, index);
            self.set_task_due(id, index, None);
            return;
        }
        self.drop_idle_room(turn, id, index);
        self.stop_unwanted(turn, id, index);
        self.promote(turn, id, index);
        self.seek_room(turn, id, index);
        self.send_orders(turn, id, index);
        self.arm(turn.now, id, index);
    }

    /// When a task need not wait any longer for a container to be gone: never, as long as its host is heard.
    fn yields_at(&self, job: &Job, placement: &Placement) -> Option<Timestamp> {
        let since = self.hosts.get(&placement.host)?.silent_since()?;
        Some(since + job.record.slice.spec.replace_after)
    }

    /// When the silent host of a task's container has had its time.
    pub(super) fn replace_at(&self, job: &Job, task: &Task) -> Option<Timestamp> {
        self.yields_at(job, task.record.current.as_ref()?)
    }

    /// Gives back granted room that no container will use.
    fn drop_idle_room(&mut self, turn: &mut Turn, id: &JobId, index: u32) {
        let Some(job) = self.jobs.get(id) else { return };
        let Some(task) = job.tasks.get(&index) else { return };
        let Some(next) = &task.record.next else { return };
        let unfit =
            self.hosts.get(&next.host).is_some_and(|host| host.drain().is_some() || host.silent_since().is_some());
        let stays = task.record.current.as_ref().is_some_and(|current| {
            // Before its host was heard of, nobody knows whether the reason for the move still stands.
            let host = self.hosts.get(&current.host).filter(|host| host.condition.is_some());
            let heard = host.is_some_and(|host| host.silent_since().is_none());
            current.stop.is_none() && heard && job.move_reason(task, &self.hosts).is_none()
        });
        if task.startable() && job.same(next.generation, task.record.want) && !unfit && !stays {
            return;
        }
        self.give_up_room(turn, id, index);
    }

    /// Gives back the room that was granted for a task's next container.
    pub(super) fn give_up_room(&mut self, turn: &mut Turn, id: &JobId, index: u32) {
        let Some(next) = self.task_mut(id, index).and_then(|task| task.record.next.take()) else { return };
        let (container, host, epoch) = (next.container(id, index), next.host.clone(), next.epoch);
        if let Some(task) = self.task_mut(id, index) {
            task.live.retain(|live| live.epoch != epoch);
        }
        turn.released(container);
        turn.save_task(id, index);
        self.reindex(&host, id, index);
    }

    fn stop_unwanted(&mut self, turn: &mut Turn, id: &JobId, index: u32) {
        let Some(job) = self.jobs.get(id) else { return };
        let why = if job.record.slice.stopped { StopReason::JobStopped } else { StopReason::SlotRemoved };
        if job.tasks.get(&index).is_some_and(|task| !task.wanted) {
            self.order_stop(turn, id, index, why);
        }
    }

    /// Puts on record that a task's container is to stop, unless it is already.
    pub(super) fn order_stop(&mut self, turn: &mut Turn, id: &JobId, index: u32, why: StopReason) {
        let now = turn.now;
        let Some(task) = self.task_mut(id, index) else { return };
        let Some(current) = task.record.current.as_mut().filter(|current| current.stop.is_none()) else { return };
        current.stop = Some(StopOrdered { at: now, why });
        let epoch = current.epoch;
        if let Some(live) = task.live_mut(epoch) {
            live.tries = 0;
            live.order_at = Some(now);
        }
        turn.save_task(id, index);
        turn.touch(id, index);
    }

    /// Makes granted room the task's container, once nothing stands before it.
    fn promote(&mut self, turn: &mut Turn, id: &JobId, index: u32) {
        let now = turn.now;
        let Some(job) = self.jobs.get(id) else { return };
        let Some(task) = job.tasks.get(&index) else { return };
        if task.record.next.is_none() || task.record.restart_at.is_some_and(|at| at > now) {
            return;
        }
        let holders = || task.record.current.iter().chain(&task.record.lingering);
        if holders().any(|holder| self.yields_at(job, holder).is_none_or(|at| at > now)) {
            return;
        }
        let Some(task) = self.task_mut(id, index) else { return };
        if let Some(mut old) = task.record.current.take() {
            old.stop.get_or_insert(StopOrdered { at: now, why: StopReason::Replaced });
            let (container, host) = (old.container(id, index), old.host.clone());
            if let Some(live) = task.live_mut(old.epoch) {
                live.order_at = None;
            }
            task.record.lingering.push(old);
            turn.notice(
                "task_replaced",
                &container.task,
                format!("host {host} has been silent for longer than the job allows: the task starts elsewhere; {container} is stopped when the host is heard"),
            );
        }
        let Some(task) = self.task_mut(id, index) else { return };
        task.record.current = task.record.next.take();
        task.record.restart_at = None;
        if let Some(epoch) = task.record.current.as_ref().map(|current| current.epoch)
            && let Some(live) = task.live_mut(epoch)
        {
            live.order_at = Some(now);
        }
        turn.save_task(id, index);
    }

    /// Asks for room if the task needs it, and takes back what was asked for otherwise.
    fn seek_room(&mut self, turn: &mut Turn, id: &JobId, index: u32) {
        let now = turn.now;
        let Some(job) = self.jobs.get(id) else { return };
        let Some(task) = job.tasks.get(&index) else { return };
        let moving = job.move_reason(task, &self.hosts);
        let silent = self.replace_at(job, task);
        let needs = task.startable()
            && task.record.next.is_none()
            && match &task.record.current {
                None => task.record.restart_at.is_none_or(|at| at <= now),
                Some(current) => current.stop.is_some() || moving.is_some() || silent.is_some_and(|at| at <= now),
            };
        if !needs {
            self.drop_ask(turn, id, index);
            return;
        }
        let epoch = task.record.epoch.next();
        let want = task.record.want;
        let avoid = match &task.record.current {
            Some(current) if silent.is_some() || moving == Some(StopReason::Drained) => Some(current.host.clone()),
            _ => task.avoid.clone(),
        };
        let asked = task.ask.as_ref().map(|ask| (ask.id, ask.epoch));
        let Some(shape) = self.jobs.get_mut(id).and_then(|job| {
            // A template that is not kept any more can't be started from: the task comes under the newest.
            job.shape(want).or_else(|| {
                let newest = job.record.generation;
                if let Some(task) = job.tasks.get_mut(&index) {
                    task.record.want = newest;
                    turn.save_task(id, index);
                }
                job.shape(newest)
            })
        }) else {
            return;
        };
        let generation = self.jobs.get(id).and_then(|job| job.tasks.get(&index)).map_or(want, |task| task.record.want);
        if let Some((request, asked_epoch)) = asked {
            let group = self.asks.get(&request);
            if asked_epoch == epoch && group.is_some_and(|group| group.shape == shape && group.generation == generation)
            {
                return;
            }
            self.drop_ask(turn, id, index);
        }
        if self.task_mut(id, index).is_some_and(|task| task.ask_after.is_some_and(|at| at > now)) {
            return;
        }
        let request = self.open_request(turn, id, generation, shape);
        if let Some(group) = self.asks.get_mut(&request) {
            group.tasks.insert(index, avoid);
        }
        turn.send.insert(request);
        if let Some(task) = self.task_mut(id, index) {
            task.ask = Some(Ask { id: request, epoch, since: now, report: None });
            task.ask_after = None;
        }
        turn.changed(id);
    }

    /// The request of this step for one generation of a job: equal tasks share one search.
    fn open_request(
        &mut self,
        turn: &mut Turn,
        id: &JobId,
        generation: polder_types::Generation,
        shape: Arc<crate::message::TaskShape>,
    ) -> RequestId {
        let key = (id.clone(), generation);
        if let Some(request) = turn.made.get(&key)
            && self.asks.get(request).is_some_and(|group| group.shape == shape)
        {
            return *request;
        }
        self.requests_made += 1;
        let request = RequestId { shard: self.config.shard, owner: self.config.owner, number: self.requests_made };
        let repeat_at = turn.now + REQUEST_REPEAT;
        let group = AskGroup {
            job: id.clone(),
            generation,
            shape,
            tasks: alloc::collections::BTreeMap::new(),
            tries: 0,
            repeat_at,
        };
        self.asks.insert(request, group);
        self.due.insert((repeat_at, Due::Request(request)));
        turn.made.insert(key, request);
        request
    }

    /// Takes back what a task asked for.
    pub(super) fn drop_ask(&mut self, turn: &mut Turn, id: &JobId, index: u32) {
        let Some(ask) = self.task_mut(id, index).and_then(|task| task.ask.take()) else { return };
        self.leave_request(ask.id, index);
        turn.withdraw(ask.id, index);
        turn.changed(id);
    }

    /// Takes a task out of a request that still waits for others, and closes it when it was the last.
    pub(super) fn leave_request(&mut self, request: RequestId, index: u32) {
        let Some(group) = self.asks.get_mut(&request) else { return };
        group.tasks.remove(&index);
        if group.tasks.is_empty() {
            let at = group.repeat_at;
            self.due.remove(&(at, Due::Request(request)));
            self.asks.remove(&request);
        }
    }

    /// Tells hosts what is due about the task's containers.
    fn send_orders(&mut self, turn: &mut Turn, id: &JobId, index: u32) {
        let now = turn.now;
        let owner = OrderOwner { shard: self.config.shard, epoch: self.config.owner };
        let Some(job) = self.jobs.get(id) else { return };
        let Some(task) = job.tasks.get(&index) else { return };
        // An older container that is heard again is to be gone first, however far its successor has come.
        let blocked = task.record.lingering.iter().any(|old| self.yields_at(job, old).is_none_or(|at| at > now));
        let mut sent: Vec<(HostId, polder_types::Epoch, HostOrder)> = Vec::new();
        let mut quiet: Vec<polder_types::Epoch> = Vec::new();
        let mut unstartable = false;
        for placement in task.record.current.iter().chain(&task.record.lingering) {
            let Some(live) = task.live(placement.epoch) else { continue };
            let silent = self.hosts.get(&placement.host).is_some_and(|host| host.silent_since().is_some());
            let Some(kind) = pending(placement, live).filter(|_| !silent) else {
                quiet.push(placement.epoch);
                continue;
            };
            if live.order_at.is_none_or(|at| at > now) || (blocked && kind == Pending::Start) {
                continue;
            }
            let container = placement.container(id, index);
            let order = match kind {
                Pending::Stop => HostOrder::Stop { owner, container },
                Pending::Start => match container_spec(job, placement) {
                    Some(spec) => HostOrder::Start { owner, container, spec: Arc::new(spec) },
                    None => {
                        unstartable = true;
                        continue;
                    }
                },
            };
            sent.push((placement.host.clone(), placement.epoch, order));
        }
        if let Some(task) = self.task_mut(id, index) {
            for live in &mut task.live {
                if quiet.contains(&live.epoch) {
                    (live.order_at, live.tries) = (None, 0);
                }
            }
        }
        for (host, epoch, order) in sent {
            turn.order(&host, order);
            let Some(live) = self.task_mut(id, index).and_then(|task| task.live_mut(epoch)) else { continue };
            let mut next = now + doubled(ORDER_REPEAT, live.tries, ORDER_REPEAT_MAX);
            // A host that is stopping it needs no reminder before it is to kill it.
            if let Some(ContainerPhase::Stopping { kill_at }) = live.phase {
                next = next.max(kill_at + ORDER_REPEAT);
            }
            live.tries = live.tries.saturating_add(1);
            live.order_at = Some(next);
            // An order that has to be repeated may have been carried out and its report lost.
            if live.tries > 1 {
                turn.ask_inventory(&host);
            }
        }
        if unstartable {
            // Its template is not kept any more and its host does not have it: it gives way to the newest.
            self.order_stop(turn, id, index, StopReason::Updated);
        }
    }

    /// Sets the task's deadline, and whether a release or a drain has yet to deal with it.
    pub(super) fn arm(&mut self, now: Timestamp, id: &JobId, index: u32) {
        let Some(job) = self.jobs.get(id) else { return };
        let Some(task) = job.tasks.get(&index) else { return };
        let staying = task.record.current.as_ref().is_some_and(|current| current.stop.is_none());
        if task.preparing.is_some() && !(task.startable() && staying && job.move_reason(task, &self.hosts).is_some()) {
            if let Some(task) = self.task_mut(id, index) {
                task.preparing = None;
            }
            return self.arm(now, id, index);
        }
        let min_healthy = job.record.slice.spec.update.min_healthy;
        let mut times: Vec<Timestamp> = Vec::new();
        if task.startable() {
            times.extend(task.record.restart_at);
            times.extend(task.ask_after);
            let holders = task.record.current.iter().chain(&task.record.lingering);
            times.extend(holders.filter_map(|holder| self.yields_at(job, holder)));
            if let Some(live) = task.current_live() {
                times.extend(live.ready_since.map(|since| since + min_healthy));
            }
        }
        times.extend(task.live.iter().filter_map(|live| live.order_at));
        times.extend(task.preparing.as_ref().and_then(Preparing::due));
        let due = times.into_iter().filter(|at| *at > now).min();
        let restless =
            task.startable() && (job.is_behind(task) || (staying && job.move_reason(task, &self.hosts).is_some()));
        self.set_task_due(id, index, due);
        if let Some(job) = self.jobs.get_mut(id) {
            if restless {
                job.restless.insert(index);
            } else {
                job.restless.remove(&index);
            }
        }
    }
}
