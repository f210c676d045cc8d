//! The store in an etcd cluster (3.4 or newer).
//!
//! All keys lie under a namespace of the cluster. Calls go to one endpoint until it fails, then to the next one: a
//! balanced channel would go on sending a share of the calls to a dead member. Reads are repeated until a deadline; a
//! transaction is repeated only when it surely was not sent, and is `Unknown` otherwise.

mod endpoints;
mod errors;
mod leases;
mod watcher;

use crate::{
    clock::Moment,
    lease::{Lease, LeaseId, check_ttl},
    limits::{ETCD_ANSWER_BYTES_MAX, ETCD_ATTEMPT_TIMEOUT, ETCD_BACKOFF_MIN, ETCD_LIST_TIMEOUT, ETCD_TXN_TIMEOUT},
    store::{Commit, Conflict, Entry, Listing, Revision, Store, StoreError},
    txn::{Compare, Op, Txn},
    watch::WatchStream,
};
use async_trait::async_trait;
use bytes::Bytes;
use endpoints::{Endpoints, backoff};
use errors::Failure;
use etcd_client::{CompareOp, GetOptions, KeyValue, PutOptions, TxnOp, TxnOpResponse};
use std::{fmt, sync::Arc, time::Duration};
use tokio::time::{sleep, timeout};

/// A namespace of an etcd cluster.
pub struct EtcdStore {
    endpoints: Arc<Endpoints>,
    namespace: Namespace,
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdStore").field("endpoints", &self.endpoints).field("namespace", &self.namespace).finish()
    }
}

impl EtcdStore {
    /// Connects to a cluster by the addresses of its members (`http://127.0.0.1:2379`), and waits until one answers.
    /// `namespace` is put before every key, with a `/` between; empty means the whole cluster.
    ///
    /// # Errors
    /// When an address can't be understood, or no member answers.
    pub async fn connect<E: AsRef<str>>(addresses: &[E], namespace: &str) -> Result<Self, StoreError> {
        let endpoints = Arc::new(Endpoints::connect(addresses).await?);
        let store = Self { endpoints, namespace: Namespace::new(namespace) };
        store.get("meta/identity").await?;
        Ok(store)
    }

    fn entry(&self, kv: KeyValue) -> Result<Entry, StoreError> {
        let revision = Revision(kv.mod_revision().try_into().unwrap_or(0));
        let (key, value) = kv.into_key_value();
        Ok(Entry { key: self.namespace.strip(&key)?, value: Bytes::from(value), mod_revision: revision })
    }

    fn request(&self, txn: &Txn) -> etcd_client::Txn {
        let full = |key: &str| self.namespace.full(key);
        let compares: Vec<_> = txn.compares().iter().map(|compare| self.compare(compare)).collect();
        let ops: Vec<_> = txn
            .ops()
            .iter()
            .map(|op| match op {
                Op::Put { key, value, lease } => {
                    let options = lease.map(|lease| PutOptions::new().with_lease(lease.0));
                    TxnOp::put(full(key), value.to_vec(), options)
                }
                Op::Delete { key } => TxnOp::delete(full(key), None),
            })
            .collect();
        // Only to tell which compare does not hold.
        let looks: Vec<_> = txn.compares().iter().map(|compare| TxnOp::get(full(compare.key()), None)).collect();
        etcd_client::Txn::new().when(compares).and_then(ops).or_else(looks)
    }

    fn compare(&self, compare: &Compare) -> etcd_client::Compare {
        let key = self.namespace.full(compare.key());
        match compare {
            Compare::Absent { .. } => etcd_client::Compare::version(key, CompareOp::Equal, 0),
            Compare::ModRevision { revision, .. } => {
                // No key has such a revision, nor one that does not fit.
                let revision = i64::try_from(revision.0).unwrap_or(-1).max(1);
                etcd_client::Compare::mod_revision(key, CompareOp::Equal, revision)
            }
            Compare::Value { value, .. } => etcd_client::Compare::value(key, CompareOp::Equal, value.to_vec()),
        }
    }

    fn answer(txn: &Txn, answer: &etcd_client::TxnResponse) -> Commit {
        if answer.succeeded() {
            return match answer.header() {
                Some(header) => Commit::Committed { revision: Revision(header.revision().try_into().unwrap_or(0)) },
                None => Commit::Unknown { why: "etcd answered without a revision".to_owned() },
            };
        }
        let looks = answer.op_responses();
        let found = txn.compares().iter().zip(&looks).enumerate().find_map(|(index, (compare, look))| {
            let TxnOpResponse::Get(got) = look else { return None };
            let found = got.kvs().first();
            let seen = found.map(|kv| (Revision(kv.mod_revision().try_into().unwrap_or(0)), kv.value()));
            (!compare.holds(seen)).then(|| (index, compare.key().to_owned(), seen.map(|(revision, _)| revision)))
        });
        match found {
            Some((index, key, found)) => Commit::Conflict(Conflict::Compare { index, key, found }),
            None => Commit::Unknown { why: "etcd refused the transaction although its compares hold".to_owned() },
        }
    }
}

#[async_trait]
impl Store for EtcdStore {
    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let full = self.namespace.full(key);
        let mut answer = self
            .endpoints
            .read(ETCD_ATTEMPT_TIMEOUT, |client| {
                let full = full.clone();
                async move { client.kv_client().get(full, None).await }
            })
            .await?;
        answer.take_kvs().into_iter().next().map(|kv| self.entry(kv)).transpose()
    }

    async fn list(&self, prefix: &str) -> Result<Listing, StoreError> {
        let full = self.namespace.full(prefix);
        // One range: pages under one prefix make etcd count what is left again and again.
        let mut answer = self
            .endpoints
            .read(ETCD_LIST_TIMEOUT, |client| {
                let full = full.clone();
                async move {
                    let mut kv = client.kv_client().max_decoding_message_size(ETCD_ANSWER_BYTES_MAX);
                    kv.get(full, Some(GetOptions::new().with_prefix())).await
                }
            })
            .await?;
        let revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
        let entries = answer.take_kvs().into_iter().map(|kv| self.entry(kv)).collect::<Result<_, _>>()?;
        Ok(Listing { revision: Revision(revision.try_into().unwrap_or(0)), entries })
    }

    async fn commit(&self, txn: Txn) -> Commit {
        let request = self.request(&txn);
        let begun = Moment::now();
        let mut wait = ETCD_BACKOFF_MIN;
        loop {
            let left = ETCD_TXN_TIMEOUT.saturating_sub(Moment::now().since(begun));
            let (index, client) = self.endpoints.current();
            let mut kv = client.kv_client().max_decoding_message_size(ETCD_ANSWER_BYTES_MAX);
            let failure = match timeout(left, kv.txn(request.clone())).await {
                Ok(Ok(answer)) => return Self::answer(&txn, &answer),
                Ok(Err(error)) => errors::classify(&error),
                Err(_) => Failure::Unsure(format!("no answer within {ETCD_TXN_TIMEOUT:?}")),
            };
            let why = match failure {
                Failure::LeaseGone => {
                    let lease = txn.ops().iter().find_map(|op| match op {
                        Op::Put { lease, .. } => *lease,
                        Op::Delete { .. } => None,
                    });
                    return Commit::Conflict(Conflict::LeaseGone { lease: lease.unwrap_or(LeaseId(0)) });
                }
                Failure::NotSent(why) => why,
                Failure::Unsure(why) => {
                    self.endpoints.give_up(index, &why);
                    return Commit::Unknown { why };
                }
                Failure::Refused(why) => return Commit::Unknown { why },
            };
            self.endpoints.give_up(index, &why);
            if Moment::now().since(begun) + wait >= ETCD_TXN_TIMEOUT {
                return Commit::Unknown { why };
            }
            sleep(backoff(&mut wait)).await;
        }
    }

    fn watch(&self, prefix: &str, after: Revision) -> WatchStream {
        watcher::start(Arc::clone(&self.endpoints), self.namespace.clone(), prefix.to_owned(), after)
    }

    async fn grant_lease(&self, ttl: Duration) -> Result<Lease, StoreError> {
        check_ttl(ttl)?;
        leases::grant(&self.endpoints, ttl).await
    }

    async fn compact(&self, revision: Revision) -> Result<(), StoreError> {
        let revision = i64::try_from(revision.0).unwrap_or(i64::MAX);
        let done = self
            .endpoints
            .read(ETCD_ATTEMPT_TIMEOUT, |client| async move { client.kv_client().compact(revision, None).await })
            .await;
        match done {
            Ok(_) => Ok(()),
            // Somebody has done so before; a repeated call finds the same.
            Err(StoreError::Refused { why }) if why.contains("has been compacted") => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn size_bytes(&self) -> Result<u64, StoreError> {
        let answer = self
            .endpoints
            .read(ETCD_ATTEMPT_TIMEOUT, |client| async move { client.maintenance_client().status().await })
            .await?;
        Ok(answer.db_size().try_into().unwrap_or(0))
    }
}

/// What is put before every key.
#[derive(Clone, Debug)]
struct Namespace(String);

impl Namespace {
    fn new(name: &str) -> Self {
        let name = name.trim_matches('/');
        Self(if name.is_empty() { String::new() } else { format!("{name}/") })
    }

    fn full(&self, key: &str) -> String {
        format!("{}{key}", self.0)
    }

    fn strip(&self, full: &[u8]) -> Result<String, StoreError> {
        let bad = |why: String| StoreError::Corrupt { key: String::from_utf8_lossy(full).into_owned(), why };
        let text = str::from_utf8(full).map_err(|error| bad(format!("its name is no text: {error}")))?;
        let key = text.strip_prefix(&self.0).ok_or_else(|| bad(format!("it is not under `{}`", self.0)))?;
        Ok(key.to_owned())
    }
}
