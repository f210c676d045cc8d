//! The loop around one machine: phases of its life, and the order in which things are done. Knows no actix.
//!
//! ```text
//!  Restoring ──▶ Running ──▶ Settling ──▶ Pausing ──▶ Restoring
//!      │            (a panic, a refused commit,           ▲
//!      │             a broken rule, a stop)               │
//!      └── unavailable ───────────────────────────────────┘
//! ```
//!
//! `Settling` waits for the commits that are under way: no machine is restored while something of its predecessor's may
//! still change what it reads.

use crate::{
    Clock, Panic,
    faults::{Faults, Verdict},
    inbox::Inbox,
    panic::{Guarded, guard},
    pipeline::Pipeline,
    role::{Commit, EffectOf, EventOf, RestoreError, RestoreReason, Restored, Restoring, Role},
    shell::ActorOptions,
    status::{ActorState, Probe},
};
use futures::{
    FutureExt as _,
    future::{BoxFuture, LocalBoxFuture},
};
use polder_core::machine::{Effects, Machine, Violation};
use polder_observability::ActorMeter;
use polder_types::{Millis, Timestamp};
use std::{
    fmt, mem,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

/// Events handled before other actors of the thread get a turn.
const TURN_EVENTS_MAX: usize = 256;
/// Time after which other actors of the thread get a turn.
const TURN_MAX: Duration = Duration::from_millis(5);
/// Queries answered in one turn.
const TURN_QUERIES_MAX: usize = 16;
/// The least time between two wake-ups, should a machine's deadline not move on.
const WAKE_GAP: Millis = Millis(1);

/// Why an actor ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It was told to stop.
    Stopped,
    /// It was told to make room for a fresh one of the same name.
    Replaced,
    /// Somebody else owns what it owned.
    NotOwner,
    /// It failed too often, or in a way that it can't mend.
    GaveUp,
    /// Its task was dropped under it.
    Died,
}

/// What to do once nothing is under way.
#[derive(Debug)]
enum Next {
    Restore(RestoreReason, Millis),
    Exit(Exit),
}

type RoleBack<R> = (R, Result<Restored<<R as Role>::Machine>, RestoreError>);

enum Phase<R: Role> {
    /// The role is within the future until it resolves.
    Restoring(LocalBoxFuture<'static, RoleBack<R>>, RestoreReason),
    Pausing(BoxFuture<'static, ()>, RestoreReason),
    Running(R::Machine),
    Settling(Next),
    Over,
}

enum Turn {
    /// Nothing to do until something wakes the driver.
    Idle,
    /// There may be more to do, but others come first.
    Yield,
    /// Look at the phase again.
    Again,
}

struct Timer {
    at: Timestamp,
    /// Gone once it has rung.
    sleep: Option<BoxFuture<'static, ()>>,
}

impl Timer {
    fn has_rung(&mut self, cx: &mut Context<'_>) -> bool {
        if self.sleep.as_mut().is_some_and(|sleep| sleep.poll_unpin(cx).is_ready()) {
            self.sleep = None;
        }
        self.sleep.is_none()
    }
}

pub(crate) struct Driver<R: Role> {
    /// Absent while it restores.
    role: Option<R>,
    phase: Phase<R>,
    inbox: Option<Inbox<R::Machine>>,
    pipeline: Pipeline<R::Machine>,
    timer: Option<Timer>,
    /// No wake-up before this.
    wake_not_before: Timestamp,
    faults: Faults<R::Key>,
    attempt: u32,
    steps_until_check: u32,
    /// Steps that the status table doesn't show yet.
    steps: u64,
    batch: Vec<EventOf<R>>,
    options: ActorOptions,
    clock: Arc<dyn Clock>,
    probe: Arc<Probe>,
    meter: ActorMeter,
}

impl<R: Role> fmt::Debug for Driver<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("name", &self.probe.name())
            .field("pipeline", &self.pipeline)
            .finish_non_exhaustive()
    }
}

impl<R: Role> Driver<R> {
    /// Without a role there is nothing to do but to give up.
    pub(crate) fn new(
        role: Option<R>,
        inbox: Inbox<R::Machine>,
        reason: RestoreReason,
        options: ActorOptions,
        clock: Arc<dyn Clock>,
        probe: Arc<Probe>,
    ) -> Self {
        let mut driver = Self {
            role,
            phase: Phase::Over,
            inbox: Some(inbox),
            pipeline: Pipeline::new(options.commit_timeout.to_duration()),
            timer: None,
            wake_not_before: Timestamp(0),
            faults: Faults::new(options.restarts),
            attempt: 0,
            steps_until_check: options.check_every.get(),
            steps: 0,
            batch: Vec::new(),
            options,
            clock,
            probe,
            meter: ActorMeter::of(R::KIND),
        };
        if matches!(reason, RestoreReason::Restarted) {
            driver.meter.restarted();
        }
        if driver.role.is_some() {
            driver.restore(reason);
        } else {
            driver.give_up();
        }
        driver
    }

    /// The inbox, for the next actor of this name.
    pub(crate) fn take_inbox(&mut self) -> Option<Inbox<R::Machine>> {
        let mut inbox = self.inbox.take()?;
        inbox.held.extend(self.batch.drain(..));
        Some(inbox)
    }

    /// Takes no more events, finishes what is under way, and ends.
    pub(crate) fn stop(&mut self, exit: Exit) {
        self.probe.set(ActorState::Stopping);
        match &mut self.phase {
            Phase::Over => {}
            // What was decided before is overruled, also a restore that would have followed.
            Phase::Settling(next) => *next = Next::Exit(exit),
            // A restore that is cut off takes the role with it.
            Phase::Restoring(..) | Phase::Pausing(..) | Phase::Running(_) => {
                self.settle(Next::Exit(exit));
            }
        }
    }

    /// Handles events of a key again.
    pub(crate) fn release(&mut self, key: &str) -> bool {
        let released = self.faults.release(key);
        if self.probe.state().is_working() {
            self.probe.set(self.working_state());
        }
        released
    }

    /// Does what can be done now. Ready when the actor is to end.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Exit> {
        loop {
            self.poll_commits(cx);
            let turn = match &mut self.phase {
                Phase::Restoring(restore, _) => match restore.poll_unpin(cx) {
                    Poll::Ready((role, result)) => {
                        self.restored(role, result);
                        Turn::Again
                    }
                    Poll::Pending => Turn::Idle,
                },
                Phase::Pausing(pause, _) => match pause.poll_unpin(cx) {
                    Poll::Ready(()) => {
                        if let Phase::Pausing(_, reason) = mem::replace(&mut self.phase, Phase::Over) {
                            self.restore(reason);
                        }
                        Turn::Again
                    }
                    Poll::Pending => Turn::Idle,
                },
                Phase::Running(_) => self.run(cx),
                Phase::Settling(_) if self.pipeline.is_settled() => match mem::replace(&mut self.phase, Phase::Over) {
                    Phase::Settling(Next::Restore(reason, pause)) => {
                        self.pause(pause, reason);
                        Turn::Again
                    }
                    Phase::Settling(Next::Exit(exit)) => {
                        self.publish();
                        return Poll::Ready(exit);
                    }
                    _ => Turn::Again,
                },
                Phase::Settling(_) => {
                    if self.pipeline.submit() {
                        Turn::Again
                    } else {
                        Turn::Idle
                    }
                }
                Phase::Over => return Poll::Ready(Exit::Died),
            };
            match turn {
                Turn::Idle => return Poll::Pending,
                Turn::Yield => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Turn::Again => {}
            }
        }
    }

    fn restore(&mut self, reason: RestoreReason) {
        let Some(mut role) = self.role.take() else { return };
        self.attempt = self.attempt.saturating_add(1);
        let first = matches!(reason, RestoreReason::Started) && self.attempt == 1;
        self.probe.set(if first { ActorState::Starting } else { ActorState::Restoring { attempt: self.attempt } });
        let quarantined = self.faults.quarantined().clone();
        let timeout = self.options.restore_timeout.to_duration();
        let (now, why) = (self.clock.now(), reason.clone());
        let restore = async move {
            let restoring = Restoring { reason: &why, quarantined: &quarantined, now };
            let restored = Guarded(Box::pin(role.restore(restoring)));
            let result = match tokio::time::timeout(timeout, restored).await {
                Ok(Ok(result)) => result,
                Ok(Err(panic)) => Err(RestoreError::Broken { what: panic.to_string() }),
                Err(_) => Err(RestoreError::Unavailable { what: format!("it took longer than {timeout:?}") }),
            };
            (role, result)
        };
        self.phase = Phase::Restoring(restore.boxed_local(), reason);
    }

    fn restored(&mut self, role: R, result: Result<Restored<R::Machine>, RestoreError>) {
        let Phase::Restoring(_, reason) = mem::replace(&mut self.phase, Phase::Over) else { return };
        let journal = guard(|| role.journal());
        self.role = Some(role);
        let error = match (result, journal) {
            (Ok((machine, effects)), Ok(journal)) => {
                self.attempt = 0;
                self.pipeline.begin(journal);
                self.phase = Phase::Running(machine);
                self.probe.set(self.working_state());
                self.wake_not_before = Timestamp(0);
                self.finish(None, Ok(effects));
                self.wake();
                return;
            }
            (Err(error), _) => error,
            (Ok(_), Err(panic)) => RestoreError::Broken { what: panic.to_string() },
        };
        self.probe.error(format!("could not be restored: {error}"));
        match error {
            RestoreError::Unavailable { .. } => {
                tracing::warn!(actor = self.probe.name(), attempt = self.attempt, %error, "restore failed; trying again");
                let pause = self.options.restarts.backoff.pause(self.attempt);
                self.pause(pause, reason);
            }
            RestoreError::NotOwner { .. } => {
                self.meter.fenced();
                tracing::info!(actor = self.probe.name(), %error, "stopping");
                self.settle(Next::Exit(Exit::NotOwner));
            }
            RestoreError::Broken { .. } => {
                tracing::error!(actor = self.probe.name(), %error, "restore failed; giving up");
                self.give_up();
            }
        }
    }

    fn pause(&mut self, pause: Millis, reason: RestoreReason) {
        self.probe.set(ActorState::Restoring { attempt: self.attempt.saturating_add(1) });
        self.phase = Phase::Pausing(self.clock.sleep_until(self.clock.now() + pause), reason);
    }

    /// The parent decides what becomes of this; mostly it starts a fresh actor.
    fn give_up(&mut self) {
        self.probe.set(ActorState::Restoring { attempt: self.attempt.saturating_add(1) });
        self.settle(Next::Exit(Exit::GaveUp));
    }

    /// Drops the machine. Its steps until now were whole, so their changes are still made durable, unless it was the
    /// journal that failed.
    fn settle(&mut self, next: Next) {
        self.timer = None;
        self.phase = Phase::Settling(next);
    }

    fn working_state(&self) -> ActorState {
        let keys = self.faults.quarantined();
        if keys.is_empty() {
            ActorState::Running
        } else {
            ActorState::Quarantined { keys: keys.iter().map(ToString::to_string).collect() }
        }
    }

    fn poll_commits(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(answer) = self.pipeline.poll(cx) {
            match answer {
                Ok(effects) => self.execute(None, effects),
                Err(failure) => self.commit_failed(failure),
            }
        }
    }

    fn commit_failed(&mut self, failure: Commit) {
        let reason = match failure {
            Commit::Conflict { what } => {
                self.probe.count(|counts| counts.conflicts += 1);
                self.meter.fenced();
                RestoreReason::Conflict { what }
            }
            Commit::Unknown { what } => {
                self.probe.count(|counts| counts.unknowns += 1);
                RestoreReason::Unknown { what }
            }
            Commit::Committed => return,
        };
        self.probe.error(reason.to_string());
        match &mut self.phase {
            Phase::Running(_) => {
                tracing::warn!(actor = self.probe.name(), %reason, "dropping the machine and restoring it");
                self.begin_restart(reason);
            }
            // The reason that weighs more: after a panic nobody would have to be deposed, after this one somebody may.
            Phase::Settling(Next::Restore(earlier, _)) => *earlier = reason,
            _ => {}
        }
    }

    fn begin_restart(&mut self, reason: RestoreReason) {
        self.probe.count(|counts| counts.restarts += 1);
        self.meter.restarted();
        self.probe.set(ActorState::Restoring { attempt: 1 });
        let pause = self.faults.pause(self.clock.now());
        self.settle(Next::Restore(reason, pause));
    }

    /// One turn of a running machine.
    fn run(&mut self, cx: &mut Context<'_>) -> Turn {
        let queries = self.answer_queries(cx);
        let woken = !self.pipeline.is_full() && self.timer.as_mut().is_some_and(|timer| timer.has_rung(cx));
        if woken {
            self.wake();
        }
        let events = self.handle_events(cx);
        if !matches!(self.phase, Phase::Running(_)) {
            return Turn::Again;
        }
        let submitted = self.pipeline.submit();
        self.publish();
        let rearmed = self.arm();
        if events || queries == TURN_QUERIES_MAX {
            Turn::Yield
        } else if submitted || rearmed || woken {
            // New futures are polled once, so that they know whom to wake.
            Turn::Again
        } else {
            Turn::Idle
        }
    }

    fn publish(&mut self) {
        let (under_way, waiting) = (self.pipeline.under_way(), self.pipeline.deltas_waiting());
        let (steps, durable) = (mem::take(&mut self.steps), self.pipeline.take_durable());
        self.meter.handled(steps);
        self.probe.count(|counts| {
            counts.steps += steps;
            counts.commits += durable;
            counts.commits_under_way = under_way;
            counts.deltas_waiting = waiting;
        });
    }

    fn answer_queries(&mut self, cx: &mut Context<'_>) -> usize {
        let (Phase::Running(machine), Some(inbox)) = (&self.phase, &mut self.inbox) else { return 0 };
        let mut answered = 0;
        while answered < TURN_QUERIES_MAX {
            // The query guards itself.
            let Poll::Ready(Some(query)) = inbox.queries.poll_recv(cx) else { break };
            query(machine);
            answered += 1;
        }
        answered
    }

    /// Handles up to a turn's worth of events. Says whether there were any.
    fn handle_events(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(inbox) = &mut self.inbox else { return false };
        if inbox.held.is_empty() && !self.pipeline.is_full() {
            if inbox.events.poll_many(cx, &mut self.batch, TURN_EVENTS_MAX).is_pending() {
                inbox.events.handled(0);
                return false;
            }
            inbox.held.extend(self.batch.drain(..));
            inbox.events.handled(inbox.held.len());
        }
        let begin = Instant::now();
        let (mut last, mut handled, mut longest, mut took) = (begin, 0, 0, 0);
        while handled < TURN_EVENTS_MAX && !self.pipeline.is_full() {
            let Some(event) = self.inbox.as_mut().and_then(|inbox| inbox.held.pop_front()) else { break };
            self.step(event);
            handled += 1;
            let end = Instant::now();
            let step = end.duration_since(last);
            self.meter.stepped(step);
            took = u64::try_from(step.as_micros()).unwrap_or(u64::MAX);
            longest = longest.max(took);
            last = end;
            if !matches!(self.phase, Phase::Running(_)) || end.duration_since(begin) >= TURN_MAX {
                break;
            }
        }
        if let Some(inbox) = &self.inbox {
            inbox.events.handled(inbox.held.len());
        }
        if handled > 0 {
            self.probe.count(|counts| {
                counts.last_step_micros = took;
                counts.step_micros_max = counts.step_micros_max.max(longest);
            });
        }
        handled > 0
    }

    fn step(&mut self, event: EventOf<R>) {
        let now = self.clock.now();
        let (Phase::Running(machine), Some(role)) = (&mut self.phase, &mut self.role) else { return };
        let outcome = match guard(|| role.culprit(&event)) {
            Ok(key) => {
                if let Some(key) = key.as_ref().filter(|key| self.faults.quarantined().contains(*key)) {
                    match guard(|| role.quarantined(key, event)) {
                        Ok(None) => {
                            self.probe.count(|counts| counts.diverted += 1);
                            return;
                        }
                        Ok(Some(event)) => {
                            let text = key.to_string();
                            self.release(&text);
                            return self.step(event);
                        }
                        Err(panic) => (None, Err(panic)),
                    }
                } else {
                    (key, guard(|| machine.step(now, event)))
                }
            }
            Err(panic) => (None, Err(panic)),
        };
        self.finish(outcome.0, outcome.1);
    }

    fn wake(&mut self) {
        let now = self.clock.now();
        self.timer = None;
        let Phase::Running(machine) = &mut self.phase else { return };
        let outcome = guard(|| machine.wake(now));
        self.wake_not_before = now + WAKE_GAP;
        self.finish(None, outcome);
    }

    fn finish(&mut self, blame: Option<R::Key>, outcome: Result<Effects<R::Machine>, Box<Panic>>) {
        self.steps += 1;
        let effects = match outcome {
            Ok(effects) => effects,
            Err(panic) => return self.panicked(blame, panic),
        };
        if let Err(violation) = self.check() {
            return self.violated(violation);
        }
        let (now, deltas, gated) = effects.split();
        self.execute(blame.as_ref(), now);
        // Should an effect have panicked and the machine be gone: its step was whole all the same.
        if let Some(effects) = self.pipeline.push(deltas, gated) {
            self.execute(blame.as_ref(), effects);
        }
    }

    fn execute(&mut self, blame: Option<&R::Key>, effects: Vec<EffectOf<R>>) {
        if effects.is_empty() {
            return;
        }
        let now = self.clock.now();
        for effect in effects {
            let Some(role) = &mut self.role else { return };
            if let Err(panic) = guard(|| role.execute(now, effect)) {
                self.panicked(blame.cloned(), panic);
            }
        }
    }

    fn check(&mut self) -> Result<(), Violation> {
        self.steps_until_check = self.steps_until_check.saturating_sub(1);
        let Phase::Running(machine) = &self.phase else { return Ok(()) };
        if self.steps_until_check > 0 {
            return Ok(());
        }
        self.steps_until_check = self.options.check_every.get();
        guard(|| machine.check())
            .unwrap_or_else(|panic| Err(Violation { rule: "a check does not panic", found: panic.to_string() }))
    }

    fn violated(&mut self, violation: Violation) {
        tracing::error!(actor = self.probe.name(), %violation, "a rule of the machine does not hold; restoring it");
        self.probe.count(|counts| counts.violations += 1);
        self.failed(None, RestoreReason::Violated { violation });
    }

    fn panicked(&mut self, blame: Option<R::Key>, panic: Box<Panic>) {
        let blame = blame.or_else(|| match (&self.phase, &self.role) {
            (Phase::Running(machine), Some(role)) => guard(|| role.suspect(machine)).ok().flatten(),
            _ => None,
        });
        tracing::error!(
            actor = self.probe.name(),
            blame = blame.as_ref().map(tracing::field::display),
            %panic,
            backtrace = panic.backtrace,
            "a step panicked; its event is dropped and the machine restored"
        );
        self.probe.count(|counts| counts.panics += 1);
        self.meter.panicked();
        if let Some(role) = &mut self.role
            && let Err(second) = guard(|| role.poisoned(blame.as_ref(), &panic))
        {
            tracing::error!(actor = self.probe.name(), panic = %second, "the role panicked when told of a panic");
        }
        self.failed(blame, RestoreReason::Panicked { panic });
    }

    fn failed(&mut self, blame: Option<R::Key>, reason: RestoreReason) {
        self.probe.error(reason.to_string());
        let verdict = self.faults.judge(self.clock.now(), blame.as_ref());
        if verdict == Verdict::Quarantine
            && let (Some(key), Some(role)) = (&blame, &mut self.role)
        {
            tracing::error!(actor = self.probe.name(), %key, "quarantined: it made the machine panic again");
            if let Err(panic) = guard(|| role.quarantine(key)) {
                tracing::error!(actor = self.probe.name(), %panic, "the role panicked when told of a quarantine");
            }
        }
        let running = matches!(self.phase, Phase::Running(_));
        match verdict {
            Verdict::Escalate if !matches!(self.phase, Phase::Settling(Next::Exit(_)) | Phase::Over) => {
                tracing::error!(actor = self.probe.name(), %reason, "failed too often; its parent decides");
                self.give_up();
            }
            _ if running => self.begin_restart(reason),
            // A restore or an end is already on its way.
            _ => {}
        }
    }

    /// Arms the one timer. Says whether it is a new one.
    fn arm(&mut self) -> bool {
        let Phase::Running(machine) = &self.phase else { return false };
        let wanted = match guard(|| machine.next_deadline()) {
            Ok(wanted) => wanted.map(|at| at.max(self.wake_not_before)),
            Err(panic) => {
                self.panicked(None, panic);
                return true;
            }
        };
        match (wanted, &self.timer) {
            (Some(at), Some(timer)) if at == timer.at => false,
            (None, None) => false,
            (None, Some(_)) => {
                self.timer = None;
                false
            }
            (Some(at), _) => {
                self.timer = Some(Timer { at, sleep: Some(self.clock.sleep_until(at)) });
                true
            }
        }
    }
}
