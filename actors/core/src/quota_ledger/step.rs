//! What the quota ledger does about events.

use super::{
    PUTS_PER_STEP_MAX, REFUSED_RETRY,
    event::{Delta, Effect, Event},
    state::QuotaLedger,
};
use crate::{
    machine::{Effects, Machine, Violation},
    message::Notice,
};
use alloc::{
    boxed::Box,
    format,
    string::{String, ToString as _},
};
use polder_types::{AccountId, RegionId, Timestamp};

impl Machine for QuotaLedger {
    type Event = Event;
    type Effect = Effect;
    type Delta = Delta;

    fn step(&mut self, now: Timestamp, event: Event) -> Effects<Self> {
        let mut effects = Effects::none();
        match event {
            Event::Set { reply, account, limit, regions } => {
                self.set(now, reply, account, limit, regions, &mut effects);
            }
            Event::Remove { reply, account } => self.remove(now, reply, &account, &mut effects),
            Event::RegionKnown { region } => self.know(now, &region, &mut effects),
            Event::RegionHeard { region, at, accounts } => self.hear(now, &region, at, accounts, &mut effects),
            Event::AllotmentHeld { region, allotment } => {
                self.hear_allotment(now, &region, &allotment, &mut effects);
            }
            Event::RegionSilent { region } => self.fall_silent(&region),
            Event::AllotmentAcked { region, account, version } => {
                self.ack(now, &region, &account, version, &mut effects);
            }
            Event::AllotmentRefused { region, account, version, problem } => {
                self.refused(now, &region, &account, version, problem, &mut effects);
            }
        }
        self.send_due(now, &mut effects);
        effects
    }

    fn wake(&mut self, now: Timestamp) -> Effects<Self> {
        let mut effects = Effects::none();
        self.send_due(now, &mut effects);
        effects
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        self.outbox.next_deadline()
    }

    fn check(&self) -> Result<(), Violation> {
        self.recount()
    }
}

impl QuotaLedger {
    pub(super) fn is_heard(&self, region: &RegionId) -> bool {
        self.regions.get(region).is_some_and(|region| region.heard)
    }

    /// Puts a changed quota on record.
    pub(super) fn save(&self, account: &AccountId, effects: &mut Effects<Self>) {
        if let Some(record) = self.quotas.get(account) {
            effects.persist(Delta::Put(Box::new(record.clone())));
        }
    }

    /// Sends what is due, as much as one step may. It waits behind the changes of this step: what a region is told
    /// is durable here.
    fn send_due(&mut self, now: Timestamp, effects: &mut Effects<Self>) {
        for _ in 0..PUTS_PER_STEP_MAX {
            let Some((region, account)) = self.outbox.pop_due(now) else { break };
            let share = self.quotas.get(&account).and_then(|record| record.regions.get(&region));
            match share.and_then(|share| share.sent.clone()) {
                Some(allotment) => effects.after(Effect::PutAllotment { region, allotment }),
                None => self.outbox.done(&region, &account),
            }
        }
    }

    /// A region has refused an allotment: it is tried again, but seldom.
    fn refused(
        &mut self,
        now: Timestamp,
        region: &RegionId,
        account: &AccountId,
        version: u64,
        problem: String,
        effects: &mut Effects<Self>,
    ) {
        let share = self.quotas.get(account).and_then(|record| record.regions.get(region));
        let sent = share.and_then(|share| share.sent.as_ref()).map(|sent| sent.version);
        let Some(known) = self.regions.get_mut(region) else { return };
        if sent != Some(version) {
            return;
        }
        let refusal = (version, problem);
        if known.refused.get(account) != Some(&refusal) {
            effects.now(Effect::Notice(Notice {
                kind: "allotment_refused",
                subject: account.to_string(),
                message: format!("region {region} refused its part of the quota of {account}: {}", refusal.1),
            }));
        }
        known.refused.insert(account.clone(), refusal);
        let at = known.heard.then(|| now + REFUSED_RETRY);
        self.outbox.postpone(region, account, at);
    }
}
