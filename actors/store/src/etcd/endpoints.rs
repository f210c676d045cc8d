//! The members of a cluster, and which of them is used.

use super::errors::{self, Failure};
use crate::{
    background::background,
    clock::Moment,
    limits::{
        ETCD_BACKOFF_MAX, ETCD_BACKOFF_MIN, ETCD_CONNECT_TIMEOUT, ETCD_KEEP_ALIVE_INTERVAL, ETCD_KEEP_ALIVE_TIMEOUT,
        ETCD_READ_DEADLINE,
    },
    store::StoreError,
};
use etcd_client::{Client, ConnectOptions};
use std::{fmt, future::Future, time::Duration};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

struct Endpoint {
    address: String,
    client: Client,
}

/// The members. One is used until it fails; then everybody moves to the next.
pub(super) struct Endpoints {
    members: Vec<Endpoint>,
    current: watch::Sender<usize>,
}

impl fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.members.iter().map(|member| &member.address)).finish()
    }
}

/// The next wait, longer each time, and never the same for two who wait together.
pub(super) fn backoff(wait: &mut Duration) -> Duration {
    let now = wait.mul_f64(rand::random_range(0.5..1.0));
    *wait = (*wait * 2).min(ETCD_BACKOFF_MAX);
    now
}

impl Endpoints {
    pub(super) async fn connect<E: AsRef<str>>(addresses: &[E]) -> Result<Self, StoreError> {
        if addresses.is_empty() {
            return Err(StoreError::Refused { why: "no address of an etcd member was given".to_owned() });
        }
        let runtime = background()
            .map_err(|source| StoreError::Io { what: "starting the store's background thread".to_owned(), source })?;
        let mut members = Vec::new();
        for address in addresses {
            let address = address.as_ref().to_owned();
            let options = ConnectOptions::new()
                .with_connect_timeout(ETCD_CONNECT_TIMEOUT)
                .with_keep_alive(ETCD_KEEP_ALIVE_INTERVAL, ETCD_KEEP_ALIVE_TIMEOUT)
                .with_require_leader(true);
            let target = address.clone();
            // Made on the background thread, which drives the connection from then on.
            let connected = runtime.spawn(async move { Client::connect([target], Some(options)).await }).await;
            let bad = |why: String| StoreError::Refused {
                why: format!("`{address}` can't be used as an etcd address: {why}"),
            };
            let client = match connected {
                Ok(Ok(client)) => client,
                Ok(Err(error)) => return Err(bad(error.to_string())),
                Err(error) => return Err(bad(error.to_string())),
            };
            members.push(Endpoint { address, client });
        }
        let first = rand::random_range(0..members.len());
        Ok(Self { members, current: watch::channel(first).0 })
    }

    /// The member in use and its number.
    pub(super) fn current(&self) -> (usize, Client) {
        let index = *self.current.borrow();
        (index, self.members[index].client.clone())
    }

    /// Tells when another member is used.
    pub(super) fn moves(&self) -> watch::Receiver<usize> {
        self.current.subscribe()
    }

    /// Moves on from a member that failed, unless somebody has done so already.
    pub(super) fn give_up(&self, index: usize, why: &str) {
        let next = (index + 1) % self.members.len();
        let moved = self.current.send_if_modified(|current| {
            let moves = *current == index && next != index;
            if moves {
                *current = next;
            }
            moves
        });
        if moved {
            let (from, to) = (&self.members[index].address, &self.members[next].address);
            tracing::warn!(%from, %to, why, "an etcd member failed; using the next one");
        }
    }

    /// Makes a call that may be repeated, until it is answered.
    pub(super) async fn read<T, Call, Answer>(&self, limit: Duration, call: Call) -> Result<T, StoreError>
    where
        Call: Fn(Client) -> Answer + Send + Sync,
        Answer: Future<Output = Result<T, etcd_client::Error>> + Send,
    {
        let begun = Moment::now();
        let deadline = ETCD_READ_DEADLINE.max(limit);
        let mut wait = ETCD_BACKOFF_MIN;
        loop {
            let (index, client) = self.current();
            let why = match timeout(limit, call(client)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => match errors::classify(&error) {
                    Failure::NotSent(why) | Failure::Unsure(why) => why,
                    Failure::Refused(why) => return Err(StoreError::Refused { why }),
                    Failure::LeaseGone => return Err(StoreError::Refused { why: "the lease has ended".to_owned() }),
                },
                Err(_) => format!("no answer within {limit:?}"),
            };
            self.give_up(index, &why);
            if Moment::now().since(begun) + wait >= deadline {
                return Err(StoreError::Unavailable { why: format!("{why} (tried {self:?} for {deadline:?})") });
            }
            sleep(backoff(&mut wait)).await;
        }
    }
}
