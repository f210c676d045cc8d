//! Who is there: nodes, actors and hosts, each with a record of its own.
//!
//! ```text
//! nodes/<id>                 under the node's lease: address, version
//! actors/<name>              under the node's lease: node, epoch
//! hosts/<datacenter>/<id>    no lease, one write per boot: boot id, agent version, address
//! ```

use crate::{
    lease::LeaseId,
    store::{Commit, Entry, Store, StoreError},
    txn::{Compare, Op, Txn, TxnRefused},
};
use polder_types::{BootId, DatacenterId, HostId, OwnerEpoch};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Where nodes register.
pub const NODES: &str = "nodes/";
/// Where actors register.
pub const ACTORS: &str = "actors/";
/// Where hosts register.
pub const HOSTS: &str = "hosts/";
/// The format of records that this version writes, and the newest it reads.
pub const RECORD_FORMAT: u64 = 1;

/// A process of a region or federation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its name.
    pub id: String,
    /// Where others reach it: `host:port`.
    pub address: String,
    /// Polder's version there.
    pub version: String,
}

/// An actor that others look for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorRecord {
    /// Its name: `shard/003`, `allocator`.
    pub name: String,
    /// The node it runs on.
    pub node: String,
    /// Its owner's epoch: of two records the higher one is right.
    pub epoch: OwnerEpoch,
}

/// A host, as of its last boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRecord {
    /// Its name.
    pub id: HostId,
    /// Where it stands.
    pub datacenter: DatacenterId,
    /// The boot.
    pub boot_id: BootId,
    /// The agent's version.
    pub agent_version: String,
    /// Where its tasks' ports can be reached.
    pub address: String,
}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    v: u64,
    #[serde(flatten)]
    record: T,
}

#[derive(Deserialize)]
struct Version {
    v: u64,
}

/// A record with its version, as it is stored.
///
/// # Errors
/// Never for the records of this module.
pub fn encode<T: Serialize>(record: T) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(&Versioned { v: RECORD_FORMAT, record })
        .map_err(|error| StoreError::Corrupt { key: String::new(), why: error.to_string() })
}

/// A record out of its entry. Fields that this version does not know are left out.
///
/// # Errors
/// When it is no such record, or of a newer format.
pub fn decode<T: DeserializeOwned>(entry: &Entry) -> Result<T, StoreError> {
    let corrupt = |error: serde_json::Error| StoreError::Corrupt { key: entry.key.clone(), why: error.to_string() };
    let Version { v } = serde_json::from_slice(&entry.value).map_err(corrupt)?;
    if v > RECORD_FORMAT {
        return Err(StoreError::TooNew { what: format!("the record `{}`", entry.key), found: v, known: RECORD_FORMAT });
    }
    let versioned: Versioned<T> = serde_json::from_slice(&entry.value).map_err(corrupt)?;
    Ok(versioned.record)
}

/// Why something could not be registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// It is not known to be written.
    #[error("registering `{key}`: {outcome}")]
    NotCommitted {
        /// Where.
        key: String,
        /// What became of it.
        outcome: Commit,
    },
    /// The store can't answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A name is too long.
    #[error(transparent)]
    Refused(#[from] TxnRefused),
}

async fn register(
    store: &dyn Store,
    key: String,
    value: Vec<u8>,
    lease: Option<LeaseId>,
    fence: Vec<Compare>,
) -> Result<(), RegisterError> {
    let put = Op::Put { key: key.clone(), value: value.into(), lease };
    match store.commit(Txn::new(fence, vec![put])?).await {
        Commit::Committed { .. } => Ok(()),
        outcome => Err(RegisterError::NotCommitted { key, outcome }),
    }
}

async fn list<T: DeserializeOwned>(store: &dyn Store, prefix: &str) -> Result<Vec<T>, StoreError> {
    store.list(prefix).await?.entries.iter().map(decode).collect()
}

/// Registers a node for as long as its lease lives.
///
/// # Errors
/// When it is not known to be written.
pub async fn register_node(store: &dyn Store, lease: LeaseId, node: &NodeRecord) -> Result<(), RegisterError> {
    register(store, format!("{NODES}{}", node.id), encode(node)?, Some(lease), Vec::new()).await
}

/// Registers an actor for as long as its node's lease lives. `fence` is that of its owner, if it has one.
///
/// # Errors
/// When it is not known to be written, or its owner was deposed.
pub async fn register_actor(
    store: &dyn Store,
    lease: LeaseId,
    actor: &ActorRecord,
    fence: Vec<Compare>,
) -> Result<(), RegisterError> {
    register(store, format!("{ACTORS}{}", actor.name), encode(actor)?, Some(lease), fence).await
}

/// Where a host's record is kept.
#[must_use]
pub fn host_key(datacenter: &DatacenterId, host: &HostId) -> String {
    format!("{HOSTS}{datacenter}/{host}")
}

/// Writes a host's record, unless it stands there already.
///
/// # Errors
/// When it is not known to be written.
pub async fn register_host(store: &dyn Store, host: &HostRecord) -> Result<(), RegisterError> {
    let key = host_key(&host.datacenter, &host.id);
    let value = encode(host)?;
    if store.get(&key).await?.is_some_and(|entry| entry.value == value) {
        return Ok(());
    }
    register(store, key, value, None, Vec::new()).await
}

/// The nodes whose leases live.
///
/// # Errors
/// When the store can't answer, or a record can't be read.
pub async fn list_nodes(store: &dyn Store) -> Result<Vec<NodeRecord>, StoreError> {
    list(store, NODES).await
}

/// The actors whose nodes' leases live.
///
/// # Errors
/// When the store can't answer, or a record can't be read.
pub async fn list_actors(store: &dyn Store) -> Result<Vec<ActorRecord>, StoreError> {
    list(store, ACTORS).await
}

/// Every host that ever registered; of one datacenter, or of all.
///
/// # Errors
/// When the store can't answer, or a record can't be read.
pub async fn list_hosts(store: &dyn Store, datacenter: Option<&DatacenterId>) -> Result<Vec<HostRecord>, StoreError> {
    match datacenter {
        Some(datacenter) => list(store, &format!("{HOSTS}{datacenter}/")).await,
        None => list(store, HOSTS).await,
    }
}
