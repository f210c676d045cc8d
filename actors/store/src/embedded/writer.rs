//! The one thread that writes.
//!
//! It takes what is queued as one group, runs the group's transactions one after the other against the state before it
//! plus what the group has changed so far, writes all changes in one durable batch, and only then answers.

use super::{Shared, disk::Stored, history::Change, leases::Leases};
use crate::{
    clock::Moment,
    lease::{LeaseId, RenewError},
    limits::GROUP_BYTES_MAX,
    store::{Commit, Conflict, Revision, StoreError},
    txn::{Op, Txn},
};
use std::{collections::HashMap, mem, sync::Arc, time::Duration};
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
    time::timeout,
};

/// What a transaction counts towards its group besides its keys and values.
const TXN_OVERHEAD_BYTES: usize = 64;

/// What the writer is asked for.
pub(super) enum Request {
    Commit { txn: Txn, answer: oneshot::Sender<Commit> },
    Grant { ttl: Duration, answer: oneshot::Sender<Result<LeaseId, StoreError>> },
    Renew { id: LeaseId, answer: oneshot::Sender<Result<Duration, RenewError>> },
    Revoke { id: LeaseId, answer: oneshot::Sender<Result<(), StoreError>> },
}

/// An answer that waits until its group is durable.
enum Answer {
    Commit(oneshot::Sender<Commit>, Commit),
    Revoke(oneshot::Sender<Result<(), StoreError>>),
}

/// What a group has changed so far, and what it owes.
#[derive(Default)]
struct Group {
    /// The last state of each changed key; none if it is deleted.
    keys: HashMap<String, Option<Stored>>,
    /// Keys that begin or stop to live under a lease.
    leased: HashMap<String, bool>,
    changes: Vec<Change>,
    answers: Vec<Answer>,
    bytes: usize,
}

pub(super) struct Writer {
    shared: Arc<Shared>,
    requests: mpsc::Receiver<Request>,
    runtime: Handle,
    revision: Revision,
    leases: Leases,
    /// Why no more is written.
    stopped: Option<String>,
}

impl Writer {
    pub(super) fn new(
        shared: Arc<Shared>,
        requests: mpsc::Receiver<Request>,
        runtime: Handle,
        revision: Revision,
    ) -> Self {
        Self { shared, requests, runtime, revision, leases: Leases::default(), stopped: None }
    }

    /// Runs until the queue is closed.
    pub(super) fn run(&mut self) {
        let mut open = true;
        while open {
            let mut group = Group::default();
            match self.wait() {
                Waited::Request(request) => self.take(&mut group, request),
                Waited::LeaseIsOver => {}
                Waited::Closed => open = false,
            }
            while group.bytes < GROUP_BYTES_MAX
                && let Ok(request) = self.requests.try_recv()
            {
                self.take(&mut group, request);
            }
            // Renewals that were queued have been taken, so a busy writer lets no lease end.
            if open && self.stopped.is_none() {
                self.end_leases(&mut group);
            }
            self.finish(group);
        }
    }

    fn wait(&mut self) -> Waited {
        let requests = &mut self.requests;
        let request = match self.leases.next_end().filter(|_| self.stopped.is_none()) {
            None => requests.blocking_recv(),
            Some(end) => {
                let left = end.since(Moment::now());
                // The timer is the runtime's, so it is made inside of it.
                match self.runtime.block_on(async { timeout(left, requests.recv()).await }) {
                    Ok(request) => request,
                    Err(_) => return Waited::LeaseIsOver,
                }
            }
        };
        request.map_or(Waited::Closed, Waited::Request)
    }

    fn stopped_error(&self) -> Option<StoreError> {
        self.stopped.clone().map(|why| StoreError::Stopped { why })
    }

    fn take(&mut self, group: &mut Group, request: Request) {
        match request {
            Request::Commit { txn, answer } => {
                let commit = match self.stopped_error() {
                    Some(error) => Commit::Unknown { why: error.to_string() },
                    None => self.run_txn(group, txn).unwrap_or_else(|error| {
                        // Nothing of it was done, but what can't be read can't be judged either.
                        Commit::Unknown { why: error.to_string() }
                    }),
                };
                group.answers.push(Answer::Commit(answer, commit));
            }
            Request::Grant { ttl, answer } => {
                let granted = match self.stopped_error() {
                    Some(error) => Err(error),
                    None => Ok(self.leases.grant(Moment::now(), ttl)),
                };
                let _ = answer.send(granted);
            }
            Request::Renew { id, answer } => {
                let renewed = match self.stopped_error() {
                    Some(error) => Err(RenewError::Failed(error.to_string())),
                    None => self.leases.renew(Moment::now(), id).ok_or(RenewError::Gone),
                };
                let _ = answer.send(renewed);
            }
            Request::Revoke { id, answer } => match self.stopped_error() {
                Some(error) => {
                    let _ = answer.send(Err(error));
                }
                None => {
                    self.end_lease(group, id);
                    group.answers.push(Answer::Revoke(answer));
                }
            },
        }
    }

    /// The state of a key behind what the group has done so far.
    fn look(&self, group: &Group, key: &str) -> Result<Option<Stored>, StoreError> {
        match group.keys.get(key) {
            Some(changed) => Ok(changed.clone()),
            None => self.shared.disk.read(&self.shared.published().snapshot, key),
        }
    }

    fn run_txn(&mut self, group: &mut Group, txn: Txn) -> Result<Commit, StoreError> {
        let txn_bytes = txn.bytes();
        let (compares, ops) = txn.into_parts();
        for (index, compare) in compares.iter().enumerate() {
            let found = self.look(group, compare.key())?;
            if !compare.holds(found.as_ref().map(|found| (found.revision, &*found.value))) {
                let found = found.map(|found| found.revision);
                return Ok(Commit::Conflict(Conflict::Compare { index, key: compare.key().to_owned(), found }));
            }
        }
        let mut deletes = Vec::new();
        for op in &ops {
            match op {
                Op::Put { lease: Some(lease), .. } if !self.leases.exists(*lease) => {
                    return Ok(Commit::Conflict(Conflict::LeaseGone { lease: *lease }));
                }
                Op::Put { .. } => {}
                // Deleting what does not exist changes nothing and makes no revision.
                Op::Delete { key } => deletes.push(self.look(group, key)?.is_some()),
            }
        }
        let mut deletes = deletes.into_iter();
        let revision = self.revision.next();
        let before = group.changes.len();
        for op in ops {
            match op {
                Op::Put { key, value, lease } => {
                    self.bind(group, &key, lease);
                    group.changes.push(Change { key: key.clone(), revision, value: Some(value.clone()) });
                    group.keys.insert(key, Some(Stored { revision, value }));
                }
                Op::Delete { key } => {
                    if deletes.next().unwrap_or(false) {
                        self.delete(group, key, revision);
                    }
                }
            }
        }
        if group.changes.len() > before {
            self.revision = revision;
        }
        group.bytes += txn_bytes + TXN_OVERHEAD_BYTES;
        Ok(Commit::Committed { revision: self.revision })
    }

    fn delete(&mut self, group: &mut Group, key: String, revision: Revision) {
        self.bind(group, &key, None);
        group.changes.push(Change { key: key.clone(), revision, value: None });
        group.keys.insert(key, None);
    }

    fn bind(&mut self, group: &mut Group, key: &str, lease: Option<LeaseId>) {
        if self.leases.bind(key, lease) {
            group.leased.insert(key.to_owned(), lease.is_some());
        }
    }

    fn end_leases(&mut self, group: &mut Group) {
        for id in self.leases.over(Moment::now()) {
            tracing::debug!(lease = %id, "a lease has ended");
            self.end_lease(group, id);
        }
    }

    fn end_lease(&mut self, group: &mut Group, id: LeaseId) {
        let Some(keys) = self.leases.end(id).filter(|keys| !keys.is_empty()) else { return };
        self.revision = self.revision.next();
        for key in keys {
            self.delete(group, key, self.revision);
        }
    }

    /// Makes a group durable, shows it, and answers.
    fn finish(&mut self, mut group: Group) {
        let answers = mem::take(&mut group.answers);
        if !group.changes.is_empty() {
            if let Err(error) = self.write(&group) {
                tracing::error!(%error, "a write failed; the store takes no more until it is opened again");
                self.stopped = Some(match &error {
                    StoreError::Stopped { why } => why.clone(),
                    error => error.to_string(),
                });
                for answer in answers {
                    answer.fail(&error);
                }
                return;
            }
            self.shared.publish(self.revision);
            self.shared.history.append(group.changes, self.revision);
        }
        #[cfg(feature = "testing")]
        if !answers.is_empty() && self.shared.faults.take_lose_answer() {
            let lost = StoreError::Unavailable { why: "the answer was lost on the way, as a test ordered".to_owned() };
            answers.into_iter().for_each(|answer| answer.fail(&lost));
            return;
        }
        for answer in answers {
            answer.send();
        }
    }

    fn write(&self, group: &Group) -> Result<(), StoreError> {
        #[cfg(feature = "testing")]
        if self.shared.faults.take_fail_write() {
            return Err(StoreError::Stopped { why: "writing to the disk failed, as a test ordered".to_owned() });
        }
        let mut batch = self.shared.disk.group();
        for (key, stored) in &group.keys {
            match stored {
                Some(stored) => batch.put(key, stored),
                None => batch.delete(key),
            }
        }
        for (key, leased) in &group.leased {
            batch.set_leased(key, *leased);
        }
        batch.commit(self.revision)
    }
}

enum Waited {
    Request(Request),
    LeaseIsOver,
    Closed,
}

impl Answer {
    /// Whoever asked may have gone.
    fn send(self) {
        match self {
            Self::Commit(to, commit) => drop(to.send(commit)),
            Self::Revoke(to) => drop(to.send(Ok(()))),
        }
    }

    fn fail(self, error: &StoreError) {
        match self {
            Self::Commit(to, _) => drop(to.send(Commit::Unknown { why: error.to_string() })),
            Self::Revoke(to) => drop(to.send(Err(StoreError::Unavailable { why: error.to_string() }))),
        }
    }
}
