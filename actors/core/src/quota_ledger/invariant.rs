//! The rules that always hold.

use super::{
    share_out,
    state::{QuotaLedger, QuotaRecord},
};
use crate::machine::Violation;
use alloc::format;
use polder_types::Amounts;

impl QuotaLedger {
    pub(super) fn recount(&self) -> Result<(), Violation> {
        for (account, record) in &self.quotas {
            check_record(record)?;
            for (region, share) in &record.regions {
                if share.sent.is_some() != self.outbox.contains(region, account) {
                    let found = format!("{account} in {region}: {share:?}");
                    return Err(Violation { rule: "an allotment is sent until its region has it", found });
                }
            }
        }
        self.outbox.check(|region| self.is_heard(region))
    }
}

fn check_record(record: &QuotaRecord) -> Result<(), Violation> {
    let account = &record.quota.account;
    let wanted = record.quota.regions.values().fold(Amounts::default(), |sum, part| sum.plus(*part));
    if !wanted.within(record.quota.limit) {
        let found = format!("{account}: {wanted:?} of {:?}", record.quota.limit);
        return Err(Violation { rule: "the parts are not above the whole", found });
    }
    for (region, share) in &record.regions {
        let below = |limit: Amounts| limit.within(share.ceiling);
        let agreed = share.agreed.as_ref().is_none_or(|agreed| below(agreed.limit));
        let sent = share.sent.as_ref().is_none_or(|sent| below(sent.limit));
        let settled = share.sent.is_some() || share.agreed.as_ref().is_some_and(|agreed| agreed.limit == share.ceiling);
        if !(agreed && sent && settled) {
            let found = format!("{account} in {region}: {share:?}");
            return Err(Violation { rule: "the ceiling is the most that a region may believe", found });
        }
    }
    // Above the quota only while a region has not agreed yet to something smaller.
    let shrinking = record.regions.values().any(|share| share.sent.is_some());
    let believed = share_out::ceilings(&record.regions);
    if !shrinking && !believed.within(record.quota.limit) {
        let found = format!("{account}: regions may believe {believed:?} of {:?}", record.quota.limit);
        return Err(Violation { rule: "regions together don't believe more than the quota", found });
    }
    Ok(())
}
