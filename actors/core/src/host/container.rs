//! One container, as its host sees it.

use super::{
    KILL_EVERY, REMOVE_RETRY, REMOVE_RETRY_MAX, REMOVE_TRIES,
    probe::Prober,
    record::{ContainerRecord, Launched},
};
use polder_types::{ContainerId, ContainerPhase, ContainerStatus, ExitStatus, Millis, Timestamp};

/// What there is of a container on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// The runtime has not said yet.
    Unseen,
    /// Accepted; its launch waits for an older container of the task, or for the end of a drain.
    Waiting,
    /// Its launch was asked for.
    Launching,
    /// It has a process.
    Running,
    /// Its processes are gone and its remains are being removed.
    Removing {
        /// How often that has failed.
        tries: u32,
        /// When it is tried again; none while the runtime is at it.
        retry_at: Option<Timestamp>,
    },
    /// Nothing is left.
    Gone,
}

impl Run {
    pub(super) const fn removing() -> Self {
        Self::Removing { tries: 0, retry_at: None }
    }

    /// For one whose end may have been said already.
    pub(super) const fn removing_late() -> Self {
        Self::Removing { tries: REMOVE_TRIES, retry_at: None }
    }

    /// Whether a process may be left. Until the remains are removed it is not sworn that none is.
    pub(super) const fn may_have_processes(&self) -> bool {
        !matches!(self, Self::Waiting | Self::Gone)
    }
}

#[derive(Debug)]
pub(super) struct Container {
    /// None for a stray: the runtime holds it, but there is no record that it was ever accepted.
    pub(super) record: Option<ContainerRecord>,
    pub(super) run: Run,
    pub(super) prober: Prober,
    /// When it is killed (again).
    pub(super) kill_due: Option<Timestamp>,
    /// When its status was said last.
    pub(super) said_at: Timestamp,
}

impl Container {
    pub(super) fn recorded(record: ContainerRecord, run: Run) -> Self {
        let ready = record.launched.is_some_and(|launched| launched.ready);
        let prober = Prober::new(record.spec.health.as_ref(), ready);
        let kill_due = record.kill_at;
        Self { record: Some(record), run, prober, kill_due, said_at: Timestamp(0) }
    }

    pub(super) fn stray(run: Run, now: Timestamp) -> Self {
        Self { record: None, run, prober: Prober::new(None, false), kill_due: Some(now), said_at: Timestamp(0) }
    }

    /// Whether its region is told of it: not of what it never ordered, or has had forgotten already.
    pub(super) const fn is_known(&self) -> bool {
        self.record.is_some()
    }

    pub(super) fn launched(&self) -> Option<&Launched> {
        self.record.as_ref()?.launched.as_ref()
    }

    pub(super) fn ended(&self) -> Option<&(ExitStatus, Timestamp)> {
        self.record.as_ref()?.ended.as_ref()
    }

    pub(super) fn kill_at(&self) -> Option<Timestamp> {
        self.record.as_ref()?.kill_at
    }

    /// Whether it keeps others of its task from starting.
    pub(super) const fn blocks_others(&self) -> bool {
        self.run.may_have_processes()
    }

    /// Whether what it held is given back, as far as its region should wait for it.
    pub(super) fn is_over(&self) -> bool {
        match self.run {
            Run::Gone => true,
            Run::Removing { tries, .. } => tries >= REMOVE_TRIES,
            // Its end was recorded when it could not be seen; what is found of it is being killed.
            Run::Launching | Run::Running => self.ended().is_some(),
            Run::Unseen | Run::Waiting => false,
        }
    }

    /// What the region is told. A container that has ended by itself stays what it was until its remains are gone,
    /// but is not ready.
    pub(super) fn status(&self, id: &ContainerId, now: Timestamp) -> ContainerStatus {
        let phase = match (self.ended(), self.kill_at(), self.launched()) {
            (Some((status, at)), ..) if self.is_over() => ContainerPhase::Ended { status: status.clone(), at: *at },
            (_, Some(kill_at), _) => ContainerPhase::Stopping { kill_at },
            (None, None, Some(launched)) => self.running(launched, self.prober.ready()),
            (Some(_), None, Some(launched)) => self.running(launched, false),
            (_, None, None) if self.record.is_none() => ContainerPhase::Stopping { kill_at: now },
            (_, None, None) => ContainerPhase::Preparing,
        };
        ContainerStatus { id: id.clone(), phase }
    }

    fn running(&self, launched: &Launched, ready: bool) -> ContainerPhase {
        ContainerPhase::Running { started_at: launched.started_at, pid: launched.pid, ready }
    }

    /// When something is to be done about it.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let kill = match self.run {
            Run::Launching | Run::Running => self.kill_due,
            _ => None,
        };
        let remove = match self.run {
            Run::Removing { retry_at, .. } => retry_at,
            _ => None,
        };
        let probe = if self.is_probed() { self.prober.due() } else { None };
        [kill, remove, probe].into_iter().flatten().min()
    }

    /// Brings nearer what the clock, set back, has moved too far away.
    pub(super) fn bear_clock(&mut self, now: Timestamp) {
        let grace = self.record.as_ref().map_or(KILL_EVERY, |record| record.spec.stop.grace.max(KILL_EVERY));
        self.kill_due = self.kill_due.map(|due| due.min(now + grace));
        if let Run::Removing { retry_at, .. } = &mut self.run {
            *retry_at = retry_at.map(|at| at.min(now + REMOVE_RETRY_MAX));
        }
        self.said_at = self.said_at.min(now);
        self.prober.bear_clock(now);
    }

    /// Whether its health matters now.
    pub(super) fn is_probed(&self) -> bool {
        self.run == Run::Running && self.kill_at().is_none() && self.ended().is_none()
    }

    /// Notes that it is being killed now.
    pub(super) fn killed(&mut self, now: Timestamp) {
        self.kill_due = Some(now + KILL_EVERY);
    }

    /// Notes that its remains could not be removed. Gives the number of failures.
    pub(super) fn remove_failed(&mut self, now: Timestamp) -> Option<u32> {
        let Run::Removing { tries, retry_at } = &mut self.run else { return None };
        let wait = REMOVE_RETRY.0.saturating_mul(1_u64.checked_shl(*tries).unwrap_or(u64::MAX));
        *tries = tries.saturating_add(1);
        *retry_at = Some(now + Millis(wait.min(REMOVE_RETRY_MAX.0)));
        Some(*tries)
    }
}
