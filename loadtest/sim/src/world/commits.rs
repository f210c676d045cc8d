//! Commits on their way: in time, late, lost, or not answered.

use super::World;
use crate::{
    happening::{Commit, Happening, Process},
    names::ActorId,
    plan::Fault,
    store::{Holder, Seat, TxnUnderWay, Write, transactions},
};

/// After so long without an answer the outcome of a commit is called unknown.
const COMMIT_TIMEOUT: u64 = 5_000;

impl World {
    /// Puts an owner's commit on its way to the store.
    pub(crate) fn send_commit(
        &mut self,
        actor: ActorId,
        cell_life: u32,
        process: Process,
        (seat, epoch): (Seat, u64),
        writes: Vec<Write>,
        fences: Vec<(Seat, u64)>,
    ) {
        let now = self.now;
        self.counts.commits += 1;
        let proc = *self.proc(process);
        if proc.sure_until <= now {
            return self.queue.push(now, Happening::Answer(actor, cell_life, Commit::Conflict));
        }
        let left = transactions(writes, fences, self.plan.txn_writes_max);
        let holder = Holder { process, life: proc.life };
        let mut txn = TxnUnderWay { actor, cell_life, seat, epoch, holder, left, answered: true };
        let arrives = self.reaches_store(process);
        let lost = proc.store_cut.is_some() || self.strikes(Fault::CommitLost);
        if lost {
            return self.unknown(actor, cell_life);
        }
        if self.strikes(Fault::CommitLate) || arrives > now + COMMIT_TIMEOUT {
            txn.answered = false;
            let late = now + COMMIT_TIMEOUT + self.dice.store.between(0, 3_000);
            self.queue.push(late.max(arrives), Happening::Txn(Box::new(txn)));
            return self.unknown(actor, cell_life);
        }
        if self.strikes(Fault::CommitUnanswered) {
            txn.answered = false;
            self.unknown(actor, cell_life);
        }
        self.queue.push(arrives, Happening::Txn(Box::new(txn)));
    }

    fn unknown(&mut self, actor: ActorId, cell_life: u32) {
        self.counts.unknown += 1;
        self.queue.push(self.now + COMMIT_TIMEOUT, Happening::Answer(actor, cell_life, Commit::Unknown));
    }

    /// A transaction is at the store.
    pub(crate) fn apply_txn(&mut self, mut txn: Box<TxnUnderWay>) {
        let Some(next) = txn.left.pop_front() else { return };
        let process = txn.holder.process;
        let Some(store) = self.store_of(process) else { return };
        let admitted = store.admits(txn.seat, txn.epoch, txn.holder, &next.fences);
        if admitted {
            for write in next.writes {
                self.write(process, write);
            }
        } else {
            self.counts.conflicts += 1;
            self.trace.note(&txn.actor, format_args!("a commit meets a newer epoch"));
        }
        if admitted && !txn.left.is_empty() {
            // The rest is sent when this is answered, if there is still somebody to send it.
            if self.is_life(process, txn.holder.life) {
                let at = self.reaches_store(process) + self.store_delay();
                self.queue.push(at, Happening::Txn(txn));
            }
            return;
        }
        if txn.answered {
            let answer = if admitted { Commit::Committed } else { Commit::Conflict };
            let at = self.now + self.store_delay();
            self.queue.push(at, Happening::Answer(txn.actor, txn.cell_life, answer));
        }
    }

    /// A change is durable.
    fn write(&mut self, process: Process, write: Write) {
        self.trace.note(&"store", format_args!("{write:?}"));
        let Process::Node(at) = process else {
            match write {
                Write::Intent(record) => self.see_intent(*record),
                Write::DeleteIntent(job) => self.see_intent_deleted(&job),
                Write::Quota(record) => self.see_quota(*record),
                _ => {}
            }
            return;
        };
        match write {
            Write::Job(shard, record) => self.see_job(at.region, shard, *record),
            Write::DeleteJob(shard, job) => self.see_job_deleted(at.region, shard, &job),
            Write::Chunk(shard, chunk) => {
                let key = (shard, chunk.job.clone(), chunk.number);
                self.see_chunk(at.region, key, Some(chunk));
            }
            Write::DeleteChunk(shard, job, number) => self.see_chunk(at.region, (shard, job, number), None),
            Write::Host(record) => self.see_host(at.region, *record),
            _ => {}
        }
    }
}
