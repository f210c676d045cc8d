//! Commits: grouped, in order, several steps ahead of the store; and the effects that wait for them.

use crate::{
    panic::{Guarded, guard},
    role::{Commit, Journal},
};
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesOrdered};
use polder_core::machine::{Durable, Gated, Machine};
use std::{
    collections::VecDeque,
    fmt,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// Changes that may wait for the journal before the machine takes no more events.
const DELTAS_WAITING_MAX: usize = 4096;
/// Steps whose effects may wait before the machine takes no more events.
const GATES_WAITING_MAX: usize = 16_384;

pub(crate) struct Pipeline<M: Machine> {
    journal: Option<Arc<dyn Journal<M::Delta>>>,
    timeout: Duration,
    /// Steps of the next group.
    pending: Vec<Vec<M::Delta>>,
    pending_deltas: usize,
    under_way: FuturesOrdered<BoxFuture<'static, Commit>>,
    /// Groups handed to the journal, and those it answered; a group's number is its place in that order.
    submitted: u64,
    answered: u64,
    /// Durable groups that were not reported yet.
    durable: u64,
    /// Effects and the group they wait for.
    gates: VecDeque<(u64, Gated<M::Effect>)>,
    failed: Option<Commit>,
}

impl<M: Machine> fmt::Debug for Pipeline<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("pending_deltas", &self.pending_deltas)
            .field("under_way", &self.under_way.len())
            .field("answered", &self.answered)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl<M: Machine> Pipeline<M> {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self {
            journal: None,
            timeout,
            pending: Vec::new(),
            pending_deltas: 0,
            under_way: FuturesOrdered::new(),
            submitted: 0,
            answered: 0,
            durable: 0,
            gates: VecDeque::new(),
            failed: None,
        }
    }

    /// Begins anew behind a machine that was just restored.
    pub(crate) fn begin(&mut self, journal: Arc<dyn Journal<M::Delta>>) {
        self.abandon();
        self.failed = None;
        self.journal = Some(journal);
    }

    /// Forgets what was not handed over and what waits. What is under way stays under way.
    pub(crate) fn abandon(&mut self) {
        self.pending.clear();
        self.pending_deltas = 0;
        self.gates.clear();
    }

    /// Takes a step's changes and gated effects; gives the effects back if nothing stands before them.
    pub(crate) fn push(&mut self, deltas: Vec<M::Delta>, gated: Gated<M::Effect>) -> Option<Vec<M::Effect>> {
        if self.failed.is_some() {
            return None;
        }
        if !deltas.is_empty() {
            self.pending_deltas += deltas.len();
            self.pending.push(deltas);
        }
        if gated.is_empty() {
            return None;
        }
        // Without changes of its own, a step still rests on those of the steps before it.
        let group = if self.pending.is_empty() { self.submitted } else { self.submitted + 1 };
        if group <= self.answered {
            return Some(gated.open(Durable::committed()));
        }
        self.gates.push_back((group, gated));
        None
    }

    /// Whether the machine is to wait for the journal.
    pub(crate) fn is_full(&self) -> bool {
        self.pending_deltas >= DELTAS_WAITING_MAX || self.gates.len() >= GATES_WAITING_MAX
    }

    /// Whether nothing is under way or about to be.
    pub(crate) fn is_settled(&self) -> bool {
        self.under_way.is_empty() && self.pending.is_empty()
    }

    pub(crate) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Durable groups since this was last asked.
    pub(crate) const fn take_durable(&mut self) -> u64 {
        std::mem::replace(&mut self.durable, 0)
    }

    pub(crate) const fn deltas_waiting(&self) -> usize {
        self.pending_deltas
    }

    /// Hands all steps that wait to the journal as one group, if it takes one more.
    pub(crate) fn submit(&mut self) -> bool {
        let Some(journal) = &self.journal else { return false };
        if self.pending.is_empty() || self.failed.is_some() || self.under_way.len() >= journal.depth().max(1) {
            return false;
        }
        let steps = std::mem::take(&mut self.pending);
        self.pending_deltas = 0;
        self.submitted += 1;
        let timeout = self.timeout;
        let answer = match guard(|| journal.commit(steps)) {
            Ok(commit) => async move {
                match tokio::time::timeout(timeout, Guarded(Box::pin(commit))).await {
                    Ok(Ok(answer)) => answer,
                    Ok(Err(panic)) => Commit::Unknown { what: panic.to_string() },
                    Err(_) => Commit::Unknown { what: format!("no answer within {timeout:?}") },
                }
            }
            .boxed(),
            Err(panic) => std::future::ready(Commit::Unknown { what: panic.to_string() }).boxed(),
        };
        self.under_way.push_back(answer);
        true
    }

    /// Takes the journal's answers, in order. Comes back with effects to carry out, or with the answer that ends this
    /// machine's life.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<M::Effect>, Commit>> {
        while let Poll::Ready(Some(answer)) = self.under_way.poll_next_unpin(cx) {
            match answer {
                Commit::Committed if self.failed.is_none() => {
                    self.answered += 1;
                    self.durable += 1;
                    let released = self.release();
                    if !released.is_empty() {
                        return Poll::Ready(Ok(released));
                    }
                }
                // Whatever comes after a failure concerns a machine that is as good as dropped.
                Commit::Committed => self.answered += 1,
                failure => {
                    self.answered += 1;
                    if self.failed.is_none() {
                        self.failed = Some(failure.clone());
                        self.abandon();
                        return Poll::Ready(Err(failure));
                    }
                }
            }
        }
        Poll::Pending
    }

    fn release(&mut self) -> Vec<M::Effect> {
        let mut released = Vec::new();
        while self.gates.front().is_some_and(|(group, _)| *group <= self.answered) {
            if let Some((_, gated)) = self.gates.pop_front() {
                released.extend(gated.open(Durable::committed()));
            }
        }
        released
    }
}
