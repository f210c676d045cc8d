//! What hosts and brokers say.

use alloc::{collections::BTreeMap, format, vec::Vec};
use polder_types::{BootId, ContainerId, ContainerPhase, ContainerStatus, ExitStatus, HostId, JobId, Timestamp};

use super::{
    JobShard,
    limits::{MISSING_CONFIRM, ORDER_REPEAT, RELIST_EVERY, RELIST_REPEAT, STRANGERS_MAX},
    shard::doubled,
    state::StopReason,
    turn::Turn,
};
use crate::message::{HostNotice, HostOrder, OrderOwner, Refusal};

impl JobShard {
    pub(super) fn host_reported(&mut self, turn: &mut Turn, host: &HostId, statuses: Vec<ContainerStatus>) {
        for status in statuses {
            self.observe(turn, host, status);
        }
    }

    pub(super) fn host_listed(&mut self, turn: &mut Turn, host: &HostId, boot: BootId, statuses: Vec<ContainerStatus>) {
        let now = turn.now;
        let entry = self.hosts.entry(host.clone()).or_default();
        let known = entry.boot.replace(boot);
        let rebooted = known.is_some() && known != entry.boot;
        entry.relist_tries = 0;
        let listed: BTreeMap<ContainerId, ContainerPhase> =
            statuses.iter().map(|status| (status.id.clone(), status.phase.clone())).collect();
        for status in statuses {
            self.observe(turn, host, status);
        }
        let tasks: Vec<(JobId, u32)> = self.by_host.get(host).into_iter().flatten().cloned().collect();
        let mut confirm = false;
        for (job, index) in tasks {
            confirm |= self.compare_inventory(turn, host, &job, index, &listed, rebooted);
            turn.touch(&job, index);
        }
        let next = self.by_host.contains_key(host).then(|| now + if confirm { MISSING_CONFIRM } else { RELIST_EVERY });
        self.set_host_due(host, next);
    }

    /// Compares a task's containers on a host with all that the host knows. Says whether to ask again soon.
    fn compare_inventory(
        &mut self,
        turn: &mut Turn,
        host: &HostId,
        job: &JobId,
        index: u32,
        listed: &BTreeMap<ContainerId, ContainerPhase>,
        rebooted: bool,
    ) -> bool {
        let now = turn.now;
        let mut confirm = false;
        if self.jobs.get(job).is_none_or(|job| job.record.quarantine.is_some()) {
            return false;
        }
        let Some(task) = self.task_mut(job, index) else { return false };
        let mut lost = Vec::new();
        let here: Vec<_> =
            task.record.current.iter().chain(&task.record.lingering).filter(|at| at.host == *host).collect();
        let here: Vec<_> = here.into_iter().map(|at| (at.container(job, index), at.stop.is_some())).collect();
        for (container, stopping) in here {
            let Some(live) = task.live_mut(container.epoch) else { continue };
            live.heard = true;
            if listed.contains_key(&container) {
                live.missing_since = None;
                if stopping {
                    live.order_at.get_or_insert(now);
                }
                continue;
            }
            // It ran, or was refused because it had run, and the host has nothing of it any more. One that is to stop
            // goes through Stop all the same: only the host's answer to that keeps a late Start from running it. One that
            // was never seen may be on its way there, reboot or not: its Start is repeated, and does no harm twice.
            if !stopping && rebooted && live.seen {
                lost.push(container);
            } else if !stopping && (live.seen || live.refused) {
                // An inventory may have been drawn up before the last report was: one alone proves nothing.
                let since = *live.missing_since.get_or_insert(now);
                if since + MISSING_CONFIRM <= now {
                    lost.push(container);
                } else {
                    confirm = true;
                }
            } else {
                live.order_at.get_or_insert(now);
            }
        }
        for container in lost {
            let reason = if rebooted {
                format!("host {host} has rebooted and does not know {container} any more")
            } else {
                format!("host {host} does not know {container} any more")
            };
            self.ended(turn, &container, ExitStatus::Unknown { reason }, now);
        }
        confirm
    }

    /// Takes in what a host says of one container.
    fn observe(&mut self, turn: &mut Turn, host: &HostId, status: ContainerStatus) {
        let container = status.id;
        let (id, index) = (&container.task.job, container.task.index);
        let Some(job) = self.jobs.get(id) else {
            self.stranger(turn, host, &container, "no record of its job is here");
            return;
        };
        if job.record.quarantine.is_some() {
            return;
        }
        let Some(task) = job.tasks.get(&index) else {
            self.stranger(turn, host, &container, "no record of its task is here");
            return;
        };
        let placement = task
            .record
            .current
            .iter()
            .chain(&task.record.lingering)
            .find(|placement| placement.epoch == container.epoch && placement.host == *host);
        if placement.is_some() {
            match status.phase {
                ContainerPhase::Ended { status, at } => self.ended(turn, &container, status, at),
                phase => self.observe_phase(turn, &container, phase),
            }
        } else if container.epoch <= task.record.epoch {
            self.obsolete(turn, host, &container, &status.phase);
        } else {
            self.stranger(turn, host, &container, "its epoch is higher than any on record");
        }
    }

    fn observe_phase(&mut self, turn: &mut Turn, container: &ContainerId, phase: ContainerPhase) {
        let now = turn.now;
        let (id, index) = (&container.task.job, container.task.index);
        let Some(task) = self.task_mut(id, index) else { return };
        let Some(live) = task.live_mut(container.epoch) else { return };
        let first = !live.heard && live.phase.is_none();
        let changed = live.phase.as_ref() != Some(&phase);
        let began = matches!(phase, ContainerPhase::Running { .. })
            && !matches!(live.phase, Some(ContainerPhase::Running { .. }))
            && live.granted_by.is_some();
        live.heard = true;
        live.seen = true;
        live.refused = false;
        live.missing_since = None;
        match &phase {
            ContainerPhase::Running { started_at, ready, .. } => {
                live.started_at = Some(*started_at);
                // One that was ready before this owner first heard of it has been so for longer than this owner knows.
                let since = if first { (*started_at).min(now) } else { now };
                live.ready_since = if *ready { live.ready_since.or(Some(since)) } else { None };
            }
            _ => live.ready_since = None,
        }
        live.phase = Some(phase);
        if changed {
            turn.changed(id);
        }
        turn.touch(id, index);
        if began && let Some(current) = self.task_mut(id, index).and_then(|task| task.record.current.as_ref()) {
            let message = format!("{container} runs on host {}", current.host);
            turn.notice("task_started", &container.task, message);
        }
    }

    /// A container that the records prove to be none of the task's any more: it is told to end, and then forgotten.
    fn obsolete(&self, turn: &mut Turn, host: &HostId, container: &ContainerId, phase: &ContainerPhase) {
        let owner = OrderOwner { shard: self.config.shard, epoch: self.config.owner };
        let container = container.clone();
        let order = match phase {
            ContainerPhase::Ended { .. } => HostOrder::Forget { owner, container },
            _ => HostOrder::Stop { owner, container },
        };
        turn.order(host, order);
    }

    /// A container that no record speaks of. It is left alone: the lack of a record is not an order.
    fn stranger(&mut self, turn: &mut Turn, host: &HostId, container: &ContainerId, why: &str) {
        if self.strangers.len() < STRANGERS_MAX && self.strangers.insert(container.clone()) {
            let message = format!(
                "host {host} has {container}, and {why}: it is left alone; if it is not wanted, stop it on the host"
            );
            turn.notice("container_unknown", container, message);
        }
    }

    pub(super) fn host_refused(&mut self, turn: &mut Turn, host: &HostId, container: &ContainerId, why: &Refusal) {
        let now = turn.now;
        let (id, index) = (&container.task.job, container.task.index);
        if self.jobs.get(id).is_none_or(|job| job.record.quarantine.is_some()) {
            return;
        }
        if let Refusal::StaleOwner { seen } = why {
            let message = format!(
                "host {host} refused an order of owner {}: it has seen owner {seen} of shard {}; that one is in charge",
                self.config.owner, self.config.shard
            );
            turn.notice("owner_refused", host, message);
            return;
        }
        let Some(task) = self.task_mut(id, index) else { return };
        let current =
            task.record.current.as_ref().is_some_and(|current| {
                current.epoch == container.epoch && current.host == *host && current.stop.is_none()
            });
        let unseen = task.live(container.epoch).is_some_and(|live| live.phase.is_none());
        if !current || !unseen {
            return;
        }
        match why {
            Refusal::StaleOwner { .. } => {}
            Refusal::StaleContainer { seen } => {
                // It ended before, or a newer one was here. How it ended the host's inventory may tell.
                if *seen > task.record.epoch {
                    task.record.epoch = *seen;
                    turn.save_task(id, index);
                }
                if let Some(live) = task.live_mut(container.epoch) {
                    live.refused = true;
                }
                turn.touch(id, index);
                turn.ask_inventory(host);
                self.set_host_due(host, Some(now + RELIST_REPEAT));
            }
            Refusal::Draining { .. } => {
                // A repeated Start may still be on its way and meet a host that is open again, so the container is not
                // given up before the host has promised, by its answer to Stop, never to start it.
                task.avoid = Some(host.clone());
                task.ask_after = Some(now + ORDER_REPEAT);
                self.order_stop(turn, id, index, StopReason::Drained);
            }
        }
    }

    pub(super) fn host_noticed(&mut self, turn: &mut Turn, notice: HostNotice) {
        let host = notice.info.id.clone();
        let entry = self.hosts.entry(host.clone()).or_default();
        if entry.condition.as_ref() == Some(&notice.condition) {
            return;
        }
        let was_silent = entry.silent_since().is_some();
        entry.condition = Some(notice.condition);
        let silent = entry.silent_since().is_some();
        let tasks: Vec<(JobId, u32)> = self.by_host.get(&host).into_iter().flatten().cloned().collect();
        if tasks.is_empty() {
            return;
        }
        for (job, index) in &tasks {
            turn.touch(job, *index);
            turn.changed(job);
        }
        if silent {
            self.set_host_due(&host, None);
        } else if was_silent {
            // What it runs now, and what it has missed, its inventory says.
            self.ask_host(turn, &host);
        }
    }

    /// Sees to it that a host with tasks is asked for its inventory now and then.
    pub(super) fn watch_host(&mut self, now: Timestamp, host: &HostId) {
        if self.hosts.get(host).is_none_or(|entry| entry.relist_at.is_none()) {
            self.set_host_due(host, Some(now + RELIST_EVERY));
        }
    }

    pub(super) fn ask_host(&mut self, turn: &mut Turn, host: &HostId) {
        let entry = self.hosts.entry(host.clone()).or_default();
        let tries = entry.relist_tries;
        entry.relist_tries = tries.saturating_add(1);
        turn.ask_inventory(host);
        self.set_host_due(host, Some(turn.now + doubled(RELIST_REPEAT, tries, RELIST_EVERY)));
    }

    pub(super) fn host_due(&mut self, turn: &mut Turn, host: &HostId) {
        let silent = self.hosts.get(host).is_some_and(|entry| entry.silent_since().is_some());
        if silent || !self.by_host.contains_key(host) {
            self.set_host_due(host, None);
        } else {
            self.ask_host(turn, host);
        }
    }
}
