//! Whether a container is well.

use super::{PROBE_EAGER, PROBE_LOST, event::HttpProbe};
use polder_types::{ContainerSpec, HealthCheck, Millis, Timestamp};

/// Asks one container at its interval, one question at a time.
#[derive(Clone, Debug)]
pub(super) struct Prober {
    /// None for a container that is ready as soon as it runs.
    check: Option<Check>,
    ready: bool,
    failures: u32,
    /// When to ask next, or when to give up waiting for an answer.
    due: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct Check {
    interval: Millis,
    timeout: Millis,
    failures: u32,
}

impl Prober {
    pub(super) fn new(check: Option<&HealthCheck>, ready: bool) -> Self {
        let check = check.map(|check| Check {
            interval: Millis(check.interval.0.max(1)),
            timeout: check.timeout,
            failures: check.failures.max(1),
        });
        Self { check, ready: ready || check.is_none(), failures: 0, due: Timestamp(0) }
    }

    pub(super) const fn ready(&self) -> bool {
        self.ready
    }

    pub(super) const fn due(&self) -> Option<Timestamp> {
        match self.check {
            Some(_) => Some(self.due),
            None => None,
        }
    }

    /// Brings the next question nearer if the clock, set back, has moved it too far away.
    pub(super) fn bear_clock(&mut self, now: Timestamp) {
        if let Some(check) = self.check {
            self.due = self.due.min(now + check.interval.max(check.timeout + PROBE_LOST));
        }
    }

    /// Asks, if it is time.
    pub(super) fn ask(&mut self, now: Timestamp) -> bool {
        let Some(check) = self.check.filter(|_| now >= self.due) else { return false };
        self.due = now + check.timeout + PROBE_LOST;
        true
    }

    /// Takes an answer. Whether `ready` has changed.
    pub(super) fn answer(&mut self, now: Timestamp, ok: bool) -> bool {
        let Some(check) = self.check else { return false };
        let was = self.ready;
        if ok {
            (self.ready, self.failures) = (true, 0);
        } else {
            self.failures = self.failures.saturating_add(1);
            self.ready = self.ready && self.failures < check.failures;
        }
        let eager = !self.ready && self.failures < EAGER_FAILURES;
        self.due = now + if eager { check.interval.min(PROBE_EAGER) } else { check.interval };
        self.ready != was
    }
}

/// After so many failures in a row nobody waits for it eagerly any more.
const EAGER_FAILURES: u32 = 240;

/// The request that a container's health check means; none if it has none, or names a port that it doesn't have.
pub(super) fn http_probe(spec: &ContainerSpec) -> Option<HttpProbe> {
    let check = spec.health.as_ref()?;
    let binding = spec.ports.iter().find(|binding| binding.name == check.port)?;
    Some(HttpProbe { port: binding.port, path: check.path.clone(), timeout: check.timeout })
}
