//! Leases: keys that end with their holder.

use crate::{
    background::background,
    clock::Moment,
    limits::{LEASE_DRIFT_DIVISOR, LEASE_TTL_MAX, LEASE_TTL_MIN},
    store::StoreError,
};
use async_trait::async_trait;
use std::{
    fmt,
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::watch, task::JoinHandle, time::sleep};

/// The id of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// What a store does for its leases.
#[async_trait]
pub(crate) trait LeaseBackend: Send + Sync {
    /// Asks for the lease to live on, within `limit`; answers for how long from now.
    async fn renew(&self, id: LeaseId, limit: Duration) -> Result<Duration, RenewError>;
    /// Ends it and deletes its keys.
    async fn revoke(&self, id: LeaseId) -> Result<(), StoreError>;
}

/// Why a renewal failed.
pub(crate) enum RenewError {
    /// The store says that the lease has ended.
    Gone,
    /// No answer; it may be tried again.
    Failed(String),
}

struct Shared {
    id: LeaseId,
    ttl: Duration,
    valid_until: Mutex<Moment>,
    renewing: AtomicBool,
    lost: watch::Sender<Option<String>>,
}

impl Shared {
    fn valid_until(&self) -> Moment {
        *self.valid_until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lose(&self, why: String) {
        self.lost.send_if_modified(|lost| {
            let first = lost.is_none();
            if first {
                *lost = Some(why);
            }
            first
        });
    }

    /// Takes a renewal that was asked for at `asked`; false if it came too late to be trusted.
    fn extend(&self, asked: Moment, ttl: Duration) -> bool {
        let mut until = self.valid_until.lock().unwrap_or_else(PoisonError::into_inner);
        if Moment::now() >= *until {
            return false;
        }
        *until = (*until).max(trusted_until(asked, ttl));
        true
    }
}

fn trusted_until(asked: Moment, ttl: Duration) -> Moment {
    asked + (ttl - ttl / LEASE_DRIFT_DIVISOR)
}

/// Whether a lease of this length can be had.
pub(crate) fn check_ttl(ttl: Duration) -> Result<(), StoreError> {
    if ttl < LEASE_TTL_MIN || ttl > LEASE_TTL_MAX {
        let why = format!("a lease of {ttl:?} can't be had: {LEASE_TTL_MIN:?} to {LEASE_TTL_MAX:?}");
        return Err(StoreError::Refused { why });
    }
    Ok(())
}

/// Stops the renewals when the last handle goes.
struct Renewals(JoinHandle<()>);

impl Drop for Renewals {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A lease that keeps itself alive. When the last clone is dropped the renewals stop, and the lease ends when its
/// time is over; [`Lease::revoke`] ends it at once.
///
/// Its holder acts only while [`Lease::is_valid`]. A lease that was lost never becomes valid again.
#[derive(Clone)]
pub struct Lease {
    shared: Arc<Shared>,
    backend: Arc<dyn LeaseBackend>,
    _renewals: Arc<Renewals>,
}

impl Lease {
    /// Takes over a lease that was asked for at `asked` and granted for `ttl`.
    pub(crate) fn start(
        backend: Arc<dyn LeaseBackend>,
        id: LeaseId,
        asked: Moment,
        ttl: Duration,
    ) -> Result<Self, StoreError> {
        let runtime = background()
            .map_err(|source| StoreError::Io { what: "starting the thread that renews leases".to_owned(), source })?;
        let shared = Arc::new(Shared {
            id,
            ttl,
            valid_until: Mutex::new(trusted_until(asked, ttl)),
            renewing: AtomicBool::new(true),
            lost: watch::channel(None).0,
        });
        let task = runtime.spawn(keep_alive(Arc::clone(&shared), Arc::clone(&backend)));
        Ok(Self { shared, backend, _renewals: Arc::new(Renewals(task)) })
    }

    /// Its id, for [`crate::Op::Put`].
    #[must_use]
    pub fn id(&self) -> LeaseId {
        self.shared.id
    }

    /// Its length, as it was granted.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.shared.ttl
    }

    /// Until when it surely holds if no further renewal succeeds: counted from before the last successful one was
    /// asked for, less what clocks may differ by.
    #[must_use]
    pub fn valid_until(&self) -> Moment {
        self.shared.valid_until()
    }

    /// Whether it surely holds at `now`.
    #[must_use]
    pub fn is_valid(&self, now: Moment) -> bool {
        self.shared.lost.borrow().is_none() && now < self.valid_until()
    }

    /// Waits until the lease is lost or no longer sure, and says why.
    pub fn lost(&self) -> impl Future<Output = String> + Send + 'static {
        let mut lost = self.shared.lost.subscribe();
        async move {
            let why = lost.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
            why.unwrap_or_else(|| "the lease was dropped".to_owned())
        }
    }

    /// Lets it run out: it is not renewed any more, and ends when its time is over.
    pub fn let_run_out(&self) {
        self.shared.renewing.store(false, Ordering::Relaxed);
    }

    /// Ends it now, and deletes its keys.
    ///
    /// # Errors
    /// When the store does not answer; the lease is not renewed any more and ends by itself.
    pub async fn revoke(&self) -> Result<(), StoreError> {
        self.let_run_out();
        self.shared.lose("it was given up".to_owned());
        self.backend.revoke(self.id()).await
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("id", &self.shared.id).field("ttl", &self.shared.ttl).finish_non_exhaustive()
    }
}

/// Renews at each third of the time; a failed renewal is repeated soon.
async fn keep_alive(shared: Arc<Shared>, backend: Arc<dyn LeaseBackend>) {
    let mut pause = shared.ttl / 3;
    loop {
        // Never asleep past the moment at which the lease stops being sure.
        sleep(pause.min(shared.valid_until().since(Moment::now()))).await;
        if shared.lost.borrow().is_some() {
            return;
        }
        let asked = Moment::now();
        let left = shared.valid_until().since(asked);
        if left.is_zero() {
            shared.lose("it could not be renewed in time".to_owned());
            return;
        }
        if !shared.renewing.load(Ordering::Relaxed) {
            continue;
        }
        match backend.renew(shared.id, left.min(shared.ttl / 4)).await {
            Ok(ttl) if shared.extend(asked, ttl) => pause = shared.ttl / 3,
            Ok(_) => {
                shared.lose("its renewal was answered too late".to_owned());
                return;
            }
            Err(RenewError::Gone) => {
                shared.lose("it has ended in the store".to_owned());
                return;
            }
            Err(RenewError::Failed(why)) => {
                tracing::warn!(lease = %shared.id, why, "a lease was not renewed; trying again");
                pause = shared.ttl / 20;
            }
        }
    }
}
