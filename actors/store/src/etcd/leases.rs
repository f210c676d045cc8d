//! Leases of etcd.

use super::{
    endpoints::Endpoints,
    errors::{self, Failure},
};
use crate::{
    clock::Moment,
    lease::{Lease, LeaseBackend, LeaseId, RenewError},
    limits::{ETCD_ATTEMPT_TIMEOUT, ETCD_BACKOFF_MIN, ETCD_READ_DEADLINE},
    store::StoreError,
};
use async_trait::async_trait;
use etcd_client::{Error, LeaseKeepAliveStream, LeaseKeeper};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::Mutex,
    time::{sleep, timeout},
};

pub(super) async fn grant(endpoints: &Arc<Endpoints>, ttl: Duration) -> Result<Lease, StoreError> {
    let secs = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    let secs = i64::try_from(secs).unwrap_or(i64::MAX);
    let begun = Moment::now();
    let mut wait = ETCD_BACKOFF_MIN;
    // A grant that is repeated may leave a lease behind that nobody renews; it ends by itself.
    loop {
        let (index, client) = endpoints.current();
        let asked = Moment::now();
        let why = match timeout(ETCD_ATTEMPT_TIMEOUT, client.lease_client().grant(secs, None)).await {
            Ok(Ok(granted)) => {
                let ttl = Duration::from_secs(granted.ttl().try_into().unwrap_or(0));
                let backend = Backend { endpoints: Arc::clone(endpoints), stream: Mutex::new(None) };
                return Lease::start(Arc::new(backend), LeaseId(granted.id()), asked, ttl);
            }
            Ok(Err(error)) => match errors::classify(&error) {
                Failure::Refused(why) => return Err(StoreError::Refused { why }),
                Failure::NotSent(why) | Failure::Unsure(why) => why,
                Failure::LeaseGone => "the lease ended at once".to_owned(),
            },
            Err(_) => format!("no answer within {ETCD_ATTEMPT_TIMEOUT:?}"),
        };
        endpoints.give_up(index, &why);
        if Moment::now().since(begun) + wait >= ETCD_READ_DEADLINE {
            return Err(StoreError::Unavailable { why: format!("granting a lease: {why}") });
        }
        sleep(super::backoff(&mut wait)).await;
    }
}

/// A stream on which a lease is renewed, and the member it goes to.
struct Renewals {
    member: usize,
    keeper: LeaseKeeper,
    answers: LeaseKeepAliveStream,
}

struct Backend {
    endpoints: Arc<Endpoints>,
    /// Taken out while a renewal is under way: one that breaks off leaves an answer behind that must not be taken for
    /// that of the next.
    stream: Mutex<Option<Renewals>>,
}

impl Backend {
    async fn renew_once(&self, id: LeaseId) -> Result<Duration, RenewError> {
        let (member, client) = self.endpoints.current();
        let open = self.stream.lock().await.take().filter(|open| open.member == member);
        let (renewals, ttl) = match open {
            None => {
                // Opening it renews as well; how long for is told by the next answer, so it is asked at once.
                let (keeper, answers) = match client.lease_client().keep_alive(id.0).await {
                    Ok(open) => open,
                    Err(Error::LeaseKeepAliveError(why)) if why.contains("not found") => return Err(RenewError::Gone),
                    Err(error) => return Err(self.failed(member, &error)),
                };
                self.ask(Renewals { member, keeper, answers }).await?
            }
            Some(open) => self.ask(open).await?,
        };
        *self.stream.lock().await = Some(renewals);
        Ok(ttl)
    }

    async fn ask(&self, mut open: Renewals) -> Result<(Renewals, Duration), RenewError> {
        open.keeper.keep_alive().await.map_err(|error| self.failed(open.member, &error))?;
        match open.answers.message().await {
            Ok(Some(answer)) if answer.ttl() > 0 => {
                let ttl = Duration::from_secs(answer.ttl().try_into().unwrap_or(0));
                Ok((open, ttl))
            }
            Ok(Some(_)) => Err(RenewError::Gone),
            Ok(None) => Err(RenewError::Failed("etcd closed the stream".to_owned())),
            Err(error) => Err(self.failed(open.member, &error)),
        }
    }

    fn failed(&self, member: usize, error: &Error) -> RenewError {
        let why = errors::describe(error);
        self.endpoints.give_up(member, &why);
        RenewError::Failed(why)
    }
}

#[async_trait]
impl LeaseBackend for Backend {
    async fn renew(&self, id: LeaseId, limit: Duration) -> Result<Duration, RenewError> {
        let (member, _) = self.endpoints.current();
        match timeout(limit, self.renew_once(id)).await {
            Ok(renewed) => renewed,
            Err(_) => {
                let why = format!("no answer to a lease's renewal within {limit:?}");
                self.endpoints.give_up(member, &why);
                Err(RenewError::Failed(why))
            }
        }
    }

    async fn revoke(&self, id: LeaseId) -> Result<(), StoreError> {
        self.endpoints
            .read(ETCD_ATTEMPT_TIMEOUT, |client| async move {
                match client.lease_client().revoke(id.0).await {
                    // It has ended already, perhaps by an attempt before this.
                    Err(error) if matches!(errors::classify(&error), Failure::LeaseGone) => Ok(()),
                    other => other.map(|_| ()),
                }
            })
            .await
    }
}
