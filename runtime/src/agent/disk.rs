//! The host machine's durable state, in the host's own embedded store.
//!
//! ```text
//! container/<id>   owner/<shard>   floor/<task>   drain        what the machine holds
//! home   session   incarnation                                 what the link holds
//! ```

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _};
use polder_core::host::{ContainerRecord, Delta, DrainRecord, OwnerRecord, Records, TaskFloor};
use polder_shell::{Commit, Journal};
use polder_store::{EmbeddedStore, MeteredStore, Op, Store, Txn, commit_all};
use polder_types::{HomeId, Incarnation, Timestamp};
use polder_wire::{Stored, WireError};

use super::AgentError;

const CONTAINERS: &str = "container/";
const OWNERS: &str = "owner/";
const FLOORS: &str = "floor/";
const DRAIN: &str = "drain";
const HOME: &str = "home";
const SESSION: &str = "session";
const INCARNATION: &str = "incarnation";

/// The host's own store.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    store: Arc<MeteredStore<EmbeddedStore>>,
}

impl Disk {
    /// Opens the store.
    pub(super) async fn open(dir: &Path) -> Result<Self, AgentError> {
        let dir = dir.to_owned();
        let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(dir)).await;
        let opened =
            opened.map_err(|error| AgentError::Io { what: "open the store".to_owned(), source: error.into() })?;
        Ok(Self { store: Arc::new(MeteredStore::new(opened?, "embedded")) })
    }

    /// Everything that the machine holds.
    pub(super) async fn load(&self) -> Result<Records, AgentError> {
        let drain = match self.store.get(DRAIN).await? {
            Some(entry) => Some(DrainRecord::from_value(&entry.value).map_err(|error| damaged(&entry.key, &error))?),
            None => None,
        };
        Ok(Records {
            containers: self.load_all::<ContainerRecord>(CONTAINERS).await?,
            owners: self.load_all::<OwnerRecord>(OWNERS).await?,
            floors: self.load_all::<TaskFloor>(FLOORS).await?,
            drain,
        })
    }

    async fn load_all<T: Stored>(&self, prefix: &str) -> Result<Vec<T>, AgentError> {
        let listing = self.store.list(prefix).await?;
        let records = listing
            .entries
            .iter()
            .map(|entry| T::from_value(&entry.value).map_err(|error| damaged(&entry.key, &error)));
        records.collect()
    }

    /// Writes changes outside of the machine: while it does not run.
    pub(super) async fn write(&self, deltas: Vec<Delta>) -> Result<(), AgentError> {
        match commit(&*self.store, vec![deltas]).await {
            Commit::Committed => Ok(()),
            Commit::Conflict { what } | Commit::Unknown { what } => {
                Err(AgentError::Stored { key: "the host's records".to_owned(), why: what })
            }
        }
    }

    /// A number for a new link: higher than any before, also when the clock was set back.
    pub(super) async fn next_session(&self, now: Timestamp) -> Result<u64, AgentError> {
        let last = self.number(SESSION).await?;
        let next = now.0.max(last.saturating_add(1));
        self.put_number(SESSION, next).await?;
        Ok(next)
    }

    /// The number of this data folder, drawn when it is first asked for.
    pub(super) async fn home(&self) -> Result<HomeId, AgentError> {
        let known = self.number(HOME).await?;
        if known != 0 {
            return Ok(HomeId(known));
        }
        let drawn = rand::random_range(1..=u64::MAX);
        self.put_number(HOME, drawn).await?;
        Ok(HomeId(drawn))
    }

    /// The highest incarnation of the region that this host has seen.
    pub(super) async fn incarnation(&self) -> Result<Incarnation, AgentError> {
        self.number(INCARNATION).await.map(Incarnation)
    }

    /// Remembers it.
    pub(super) async fn put_incarnation(&self, incarnation: Incarnation) -> Result<(), AgentError> {
        self.put_number(INCARNATION, incarnation.0).await
    }

    async fn number(&self, key: &str) -> Result<u64, AgentError> {
        let Some(entry) = self.store.get(key).await? else { return Ok(0) };
        let number = std::str::from_utf8(&entry.value).ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| AgentError::Stored { key: key.to_owned(), why: "it should be a number".to_owned() })
    }

    async fn put_number(&self, key: &str, number: u64) -> Result<(), AgentError> {
        let failed = |why: String| AgentError::Stored { key: key.to_owned(), why };
        let txn =
            Txn::new(vec![], vec![Op::put(key, number.to_string())]).map_err(|error| failed(error.to_string()))?;
        match self.store.commit(txn).await {
            polder_store::Commit::Committed { .. } => Ok(()),
            other => Err(failed(other.to_string())),
        }
    }
}

fn damaged(key: &str, error: &WireError) -> AgentError {
    AgentError::Stored { key: key.to_owned(), why: super::error::chain(error) }
}

impl Journal<Delta> for Disk {
    fn commit(&self, steps: Vec<Vec<Delta>>) -> BoxFuture<'static, Commit> {
        let store = Arc::clone(&self.store);
        async move { commit(&*store, steps).await }.boxed()
    }
}

async fn commit(store: &dyn Store, steps: Vec<Vec<Delta>>) -> Commit {
    let ops = match operations(steps) {
        Ok(ops) => ops,
        // Nothing was written. The machine is restored without what could not be stored.
        Err(error) => return Commit::Conflict { what: super::error::chain(&error) },
    };
    match commit_all(store, ops, &[]).await {
        Ok(polder_store::Commit::Committed { .. }) => Commit::Committed,
        Ok(polder_store::Commit::Conflict(conflict)) => Commit::Conflict { what: conflict.to_string() },
        Ok(polder_store::Commit::Unknown { why }) => Commit::Unknown { what: why },
        Err(refused) => Commit::Conflict { what: refused.to_string() },
    }
}

/// The operations of some steps, in order. Of several changes of one key the last counts, in its place: a transaction
/// changes a key once.
fn operations(steps: Vec<Vec<Delta>>) -> Result<Vec<Op>, WireError> {
    let mut ops: Vec<Op> = Vec::new();
    for delta in steps.into_iter().flatten() {
        let op = operation(delta)?;
        ops.retain(|earlier| earlier.key() != op.key());
        ops.push(op);
    }
    Ok(ops)
}

fn operation(delta: Delta) -> Result<Op, WireError> {
    let put = |key: String, value: Vec<u8>| Op::put(key, Bytes::from(value));
    Ok(match delta {
        Delta::PutContainer(record) => put(format!("{CONTAINERS}{}", record.id), record.to_value()?),
        Delta::RemoveContainer(id) => Op::delete(format!("{CONTAINERS}{id}")),
        Delta::PutOwner(owner) => put(format!("{OWNERS}{:05}", owner.shard), owner.to_value()?),
        Delta::PutFloor(floor) => put(format!("{FLOORS}{}", floor.task), floor.to_value()?),
        Delta::RemoveFloor(task) => Op::delete(format!("{FLOORS}{task}")),
        Delta::PutDrain(drain) => put(DRAIN.to_owned(), drain.to_value()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use polder_core::{
        host::{DrainState, Launched},
        message::OrderOwner,
    };
    use polder_types::{
        BootId, ContainerSpec, Cpu, DrainVersion, Epoch, Generation, Millis, OwnerEpoch, ShardId, StopSignal, StopSpec,
    };

    fn record(id: &str) -> ContainerRecord {
        let spec = ContainerSpec {
            generation: Generation(1),
            image: "oci:/x".to_owned(),
            command: vec![],
            args: vec![],
            env: std::collections::BTreeMap::new(),
            user: None,
            workdir: None,
            cpu: Cpu::from_centi_cores(10),
            memory: polder_types::Bytes::from_mib(10),
            pids: 10,
            ports: vec![],
            stop: StopSpec { signal: StopSignal::Sigterm, grace: Millis(0) },
            health: None,
        };
        let owner = OrderOwner { shard: ShardId(3), epoch: OwnerEpoch(2) };
        ContainerRecord {
            id: id.parse().unwrap(),
            owner,
            spec: Arc::new(spec),
            boot: BootId("boot".to_owned()),
            launched: None,
            kill_at: None,
            ended: None,
        }
    }

    #[tokio::test]
    async fn what_was_committed_is_there_when_it_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path()).await.unwrap();
        assert_eq!(disk.load().await.unwrap(), Records::default());
        let (gone, stays) = (record("shop/web/0@1"), record("shop/eu/web/0@1"));
        let launched = Launched { pid: 5, started_at: Timestamp(6), ready: true };
        let later = ContainerRecord { launched: Some(launched), ..stays.clone() };
        let owner = OwnerRecord { shard: ShardId(3), epoch: OwnerEpoch(2) };
        let floor = TaskFloor { task: gone.id.task.clone(), epoch: Epoch(1), owner: gone.owner, at: Timestamp(7) };
        let drain = DrainRecord { version: DrainVersion(1), state: DrainState::Over };
        // Several changes of one container in one commit, as when steps had to wait for each other.
        let steps = vec![
            vec![Delta::PutOwner(owner), Delta::PutContainer(gone.clone()), Delta::PutContainer(stays)],
            vec![Delta::PutContainer(later.clone()), Delta::PutDrain(drain.clone())],
            vec![Delta::PutFloor(floor.clone()), Delta::RemoveContainer(gone.id)],
        ];
        assert_eq!(Journal::commit(&disk, steps).await, Commit::Committed);
        drop(disk);
        let disk = Disk::open(dir.path()).await.unwrap();
        let expected =
            Records { containers: vec![later], owners: vec![owner], floors: vec![floor.clone()], drain: Some(drain) };
        assert_eq!(disk.load().await.unwrap(), expected);
        disk.write(vec![Delta::RemoveFloor(floor.task)]).await.unwrap();
        assert_eq!(disk.load().await.unwrap().floors, []);
    }

    #[tokio::test]
    async fn sessions_grow_also_when_the_clock_was_set_back() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path()).await.unwrap();
        let first = disk.next_session(Timestamp(1_000)).await.unwrap();
        let second = disk.next_session(Timestamp(1_000)).await.unwrap();
        drop(disk);
        let disk = Disk::open(dir.path()).await.unwrap();
        let third = disk.next_session(Timestamp(10)).await.unwrap();
        let fourth = disk.next_session(Timestamp(5_000)).await.unwrap();
        assert_eq!([first, second, third, fourth], [1_000, 1_001, 1_002, 5_000]);
        assert_eq!(disk.incarnation().await.unwrap(), Incarnation(0));
        disk.put_incarnation(Incarnation(4)).await.unwrap();
        assert_eq!(disk.incarnation().await.unwrap(), Incarnation(4));
    }
}
