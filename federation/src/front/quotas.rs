//! Quotas: what was set, what each region has agreed to, and what is used.

use super::{FederationApi, not_ready, unread};
use polder_api::{
    Code, Problem,
    dto::{QuotaList, QuotaPart, QuotaRemoved, QuotaRequest, QuotaView},
};
use polder_core::quota_ledger::{self as ledger, Answer, Event, QuotaLedger};
use polder_types::AccountId;

fn view(quota: &ledger::QuotaView<'_>) -> QuotaView {
    let part = |share: &ledger::ShareView| QuotaPart {
        region: share.region.clone(),
        allotment: share.share.agreed.as_ref().map(|agreed| agreed.limit).unwrap_or_default(),
        wanted: Some(share.wanted),
        used: share.used.unwrap_or_default(),
        as_of: share.as_of.unwrap_or_default(),
    };
    QuotaView {
        account: quota.quota.account.clone(),
        limit: quota.quota.limit,
        used: quota.used,
        regions: quota.regions.iter().map(part).collect(),
    }
}

fn refused(problem: &ledger::Problem) -> Problem {
    let code = match problem {
        ledger::Problem::UnknownRegions { .. } => Code::RegionNotFound,
        ledger::Problem::NotFound { account } => return none(account),
        ledger::Problem::AboveLimit { .. } => Code::QuotaInconsistent,
        ledger::Problem::TooManyQuotas { .. } => Code::Overloaded,
    };
    Problem::new(code, problem.to_string())
}

fn none(account: &AccountId) -> Problem {
    Problem::new(Code::QuotaNotFound, format!("account {account} has no quota: it may use what there is"))
        .with_hint(format!("`polder quota set {account}` sets one"))
}

impl FederationApi {
    pub(super) async fn quota_list(&self) -> Result<QuotaList, Problem> {
        let actors = self.federation.actors().ok_or_else(not_ready)?;
        let all = |ledger: &QuotaLedger| ledger.quotas().map(|quota| view(&quota)).collect();
        Ok(QuotaList { quotas: actors.ledger.query(all).await.map_err(unread)? })
    }

    pub(super) async fn quota_view(&self, account: AccountId) -> Result<QuotaView, Problem> {
        let actors = self.federation.actors().ok_or_else(not_ready)?;
        let wanted = account.clone();
        let one = move |ledger: &QuotaLedger| ledger.quota(&wanted).map(|quota| view(&quota));
        actors.ledger.query(one).await.map_err(unread)?.ok_or_else(|| none(&account))
    }

    pub(super) async fn set_account_quota(
        &self,
        account: AccountId,
        request: QuotaRequest,
    ) -> Result<QuotaView, Problem> {
        self.federation.actors().ok_or_else(not_ready)?;
        let QuotaRequest { limit, regions } = request;
        let regions = if regions.is_empty() { None } else { Some(regions) };
        let ordered = account.clone();
        let set = |reply| Event::Set { reply, account: ordered, limit, regions };
        match self.federation.ask_ledger(set).await? {
            Answer::Done { .. } => self.quota_view(account).await,
            Answer::Refused(problem) => Err(refused(&problem)),
        }
    }

    pub(super) async fn remove_account_quota(&self, account: AccountId) -> Result<QuotaRemoved, Problem> {
        self.federation.actors().ok_or_else(not_ready)?;
        let ordered = account.clone();
        match self.federation.ask_ledger(|reply| Event::Remove { reply, account: ordered }).await? {
            Answer::Done { .. } => Ok(QuotaRemoved { account }),
            Answer::Refused(problem) => Err(refused(&problem)),
        }
    }
}
