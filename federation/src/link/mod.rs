//! The link to one region: what is sent to it, and what it says.
//!
//! ```text
//!   router, ledger ──▶ queue ──▶ puts ───HTTP──▶ region
//!   router, ledger ◀───────────── follow ◀──SSE── region
//! ```
//!
//! A link decides nothing: it may lose what it is given (whoever gave it repeats it), and says all that the region has
//! whenever it has begun to hear it anew.

mod follow;
mod puts;

use crate::config::RegionAddress;
use polder_api::{
    client::{Client, ClientError},
    dto::HostView,
};
use polder_core::{intent_router, quota_ledger};
use polder_observability::Timing;
use polder_shell::{Clock, Port};
use polder_types::{Allotment, JobId, Millis, RegionId, Slice, SliceVersion, Timestamp};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::sync::{Notify, mpsc};

/// Slices and allotments that may wait for a region.
const PUTS_WAITING_MAX: usize = 1024;
/// Slices that are timed at once until their region has them. What is beyond is sent and not timed.
const SLICES_TIMED_MAX: usize = 64 << 10;
/// How long a region may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Something that is sent to a region.
#[derive(Clone, Debug)]
enum Put {
    Slice(Box<Slice>),
    Drop(JobId, SliceVersion),
    Allotment(Allotment),
}

/// Where a link says what it hears.
#[derive(Clone, Debug)]
pub(crate) struct Sinks {
    pub(crate) router: Port<intent_router::Event>,
    pub(crate) ledger: Port<quota_ledger::Event>,
}

/// Whether and when a region was reached.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach {
    /// When it was heard last.
    pub(crate) as_of: Option<Timestamp>,
    /// Why it can't be reached now, if it can't.
    pub(crate) trouble: Option<String>,
}

/// The hosts of a region as it told them last.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownHosts {
    pub(crate) hosts: Vec<HostView>,
    pub(crate) as_of: Timestamp,
}

#[derive(Debug, Default)]
struct State {
    /// Which address is in use.
    current: usize,
    reach: Reach,
    hosts: KnownHosts,
}

type Sending = BTreeMap<JobId, (SliceVersion, Option<Instant>)>;

/// The link to one region.
#[derive(Debug)]
pub(crate) struct RegionLink {
    pub(crate) region: RegionId,
    clients: Vec<Client>,
    state: Mutex<State>,
    queue: mpsc::Sender<Put>,
    waiting: Mutex<Option<mpsc::Receiver<Put>>>,
    again: Notify,
    /// Since when the region is to have the newest slice of each job; none once it has.
    sending: Mutex<Sending>,
    durable: Timing,
}

impl RegionLink {
    /// A link that is not in use yet.
    ///
    /// # Errors
    /// When there is no address, or one can't be understood.
    pub(crate) fn new(config: &RegionAddress) -> Result<Self, ClientError> {
        if config.addresses.is_empty() {
            let reason = format!("region {} has none", config.region);
            return Err(ClientError::Address { address: String::new(), reason });
        }
        let client = |address: &String| Client::new(address).map(|client| client.with_timeout(ANSWER_TIMEOUT));
        let clients = config.addresses.iter().map(client).collect::<Result<Vec<_>, _>>()?;
        let (queue, waiting) = mpsc::channel(PUTS_WAITING_MAX);
        Ok(Self {
            region: config.region.clone(),
            clients,
            state: Mutex::default(),
            queue,
            waiting: Mutex::new(Some(waiting)),
            again: Notify::new(),
            sending: Mutex::default(),
            durable: polder_observability::Federation::shared().intent_durable_seconds.of([config.region.as_str()]),
        })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to follow the region and to send what waits for it. Returns when the ports are closed.
    pub(crate) async fn work(self: &Arc<Self>, sinks: Sinks, clock: Arc<dyn Clock>, silent_after: Millis) {
        let Some(waiting) = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        tokio::join!(
            puts::send_all(Arc::clone(self), waiting, sinks.clone()),
            follow::follow(Arc::clone(self), sinks, clock, silent_after)
        );
    }

    /// A client of the address in use.
    pub(crate) fn client(&self) -> Client {
        let current = self.state().current;
        self.clients[current % self.clients.len()].clone()
    }

    /// Uses the next address from now on.
    fn next_address(&self) {
        let mut state = self.state();
        state.current = (state.current + 1) % self.clients.len();
    }

    /// Whether and when the region was reached.
    pub(crate) fn reach(&self) -> Reach {
        self.state().reach.clone()
    }

    fn reached(&self, now: Timestamp) {
        self.state().reach = Reach { as_of: Some(now), trouble: None };
    }

    fn failed(&self, trouble: String) {
        self.state().reach.trouble = Some(trouble);
    }

    /// The hosts as the region told them last.
    pub(crate) fn known_hosts(&self) -> KnownHosts {
        self.state().hosts.clone()
    }

    /// Remembers the region's hosts.
    pub(crate) fn remember_hosts(&self, hosts: Vec<HostView>, as_of: Timestamp) {
        self.state().hosts = KnownHosts { hosts, as_of };
    }

    /// Has the link say all that the region has once more.
    pub(crate) fn say_all_again(&self) {
        self.again.notify_one();
    }

    fn put_anything(&self, put: Put) -> bool {
        self.queue.try_send(put).is_ok()
    }

    fn sending(&self) -> std::sync::MutexGuard<'_, Sending> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The region has a slice durably.
    fn settled(&self, job: &JobId, has: SliceVersion) {
        let mut sending = self.sending();
        let Some((_, since)) = sending.get_mut(job).filter(|(version, _)| has >= *version) else { return };
        if let Some(since) = since.take() {
            self.durable.took(since.elapsed());
        }
    }

    /// A slice is sent for the first time, or again.
    fn begins(&self, slice: &Slice) {
        let mut sending = self.sending();
        let job = &slice.spec.id;
        if sending.get(job).is_some_and(|(version, _)| *version == slice.version) {
            return;
        }
        if sending.len() >= SLICES_TIMED_MAX {
            sending.retain(|_, (_, since)| since.is_some());
        }
        if sending.len() < SLICES_TIMED_MAX || sending.contains_key(job) {
            sending.insert(job.clone(), (slice.version, Some(Instant::now())));
        }
    }

    /// Queues a slice, if there is room.
    pub(crate) fn put_slice(&self, slice: Slice) -> bool {
        self.begins(&slice);
        self.put_anything(Put::Slice(Box::new(slice)))
    }

    /// Queues the order to forget a slice, if there is room.
    pub(crate) fn drop_slice(&self, job: JobId, version: SliceVersion) -> bool {
        self.sending().remove(&job);
        self.put_anything(Put::Drop(job, version))
    }

    /// Queues an allotment, if there is room.
    pub(crate) fn put_allotment(&self, allotment: Allotment) -> bool {
        self.put_anything(Put::Allotment(allotment))
    }
}
