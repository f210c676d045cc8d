//! What people are told is durable, and stays so.

use super::{ANSWERS, World};
use crate::happening::Order;
use polder_core::{
    broker::Done,
    intent_router::{Answer, IntentRecord},
    quota_ledger,
};
use polder_types::{Generation, JobId};
use std::collections::BTreeMap;

/// The newest generation of each job that somebody was told of.
#[derive(Debug, Default)]
pub(crate) struct Told(BTreeMap<JobId, Generation>);

impl World {
    /// An intent is written.
    pub(crate) fn see_intent(&mut self, record: IntentRecord) {
        let job = record.spec.id.clone();
        let told = self.oracles.answers.0.get(&job).copied().unwrap_or_default();
        if record.generation < told {
            let what = format!("{job} is written at generation {}, and people were told of {told}", record.generation);
            self.violated(ANSWERS, what);
        }
        self.federation.intents.insert(job, record);
    }

    /// An intent is removed.
    pub(crate) fn see_intent_deleted(&mut self, job: &JobId) {
        self.oracles.answers.0.remove(job);
        self.federation.intents.remove(job);
    }

    pub(crate) fn see_told_about_job(&mut self, order: &Order, answer: &Answer) {
        self.counts.look(ANSWERS);
        let Answer::Done { job, generation, .. } = answer else { return };
        if matches!(order, Order::Delete(_)) {
            return;
        }
        let durable = self.federation.intents.get(job).map(|record| record.generation).unwrap_or_default();
        if durable < *generation {
            let what = format!("somebody is told that {job} is at generation {generation}, and {durable} is durable");
            self.violated(ANSWERS, what);
        }
        self.oracles.answers.0.insert(job.clone(), *generation);
    }

    pub(crate) fn see_told_about_quota(&mut self, _order: &Order, answer: &quota_ledger::Answer) {
        self.counts.look(ANSWERS);
        let quota_ledger::Answer::Done { quota, .. } = answer else { return };
        if !self.federation.quotas.contains_key(&quota.account) {
            self.violated(ANSWERS, format!("somebody is told that {} has a quota, and it has none", quota.account));
        }
    }

    pub(crate) fn see_told_about_host(&mut self, region: u8, _order: &Order, done: &Done) {
        self.counts.look(ANSWERS);
        let durable = self.region(region).store.hosts.get(&done.host).map(|record| record.drains).unwrap_or_default();
        let told = done.drain.as_ref().map(|drain| drain.version).unwrap_or_default();
        if durable < told {
            let what = format!("somebody is told of drain {told} of {}, and {durable} is durable", done.host);
            self.violated(ANSWERS, what);
        }
    }
}
