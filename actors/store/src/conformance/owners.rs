//! What is built on the store: owners, identity, registry.

use super::{commit, committed, conflict, gone, lease, put, soon};
use crate::{
    clock::Moment,
    identity::{self, IdentityError, StoreKind, open_identity, raise_incarnation},
    owner::{self, AcquireError, OwnerKey, acquire, acquire_when_vacant, owner_of},
    registry::{self, ActorRecord, HostRecord, NodeRecord},
    store::{Store, StoreError},
    txn::Op,
};
use polder_types::{BootId, DatacenterId, HostId, Incarnation, OwnerEpoch, ShardId};
use std::sync::Arc;

pub(super) async fn one_owner_at_a_time(store: Arc<dyn Store>) {
    let key = OwnerKey::shard(ShardId(3));
    assert_eq!((key.owner_key().as_str(), key.epoch_key().as_str()), ("owners/shard/003", "epochs/shard/003"));
    let (a, b) = (lease(&*store, 10).await, lease(&*store, 10).await);
    let owned = acquire(&*store, &key, "a", &a).await.unwrap();
    assert_eq!(owned.epoch(), OwnerEpoch(1));
    assert!(owned.surely_valid(Moment::now()));
    match acquire(&*store, &key, "b", &b).await {
        Err(AcquireError::HeldBy { holder, .. }) => assert_eq!(holder, "a"),
        other => panic!("{other:?}"),
    }
    assert_eq!(owner_of(&*store, &key).await.unwrap().unwrap().holder, "a");
    committed(commit(&*store, owned.fence(), vec![Op::put("state", "a")]).await);
    committed(owned.release(&*store).await);
    let owned = acquire(&*store, &key, "b", &b).await.unwrap();
    assert_eq!(owned.epoch(), OwnerEpoch(2));
}

pub(super) async fn deposed_owner_can_not_write(store: Arc<dyn Store>) {
    let key = OwnerKey::allocator();
    let (a, b) = (lease(&*store, 10).await, lease(&*store, 10).await);
    let old = acquire(&*store, &key, "a", &a).await.unwrap();
    committed(commit(&*store, old.fence(), vec![Op::put("grants", "by a")]).await);
    a.revoke().await.unwrap();
    assert!(!old.surely_valid(Moment::now()));
    // Already between two owners it can't write.
    gone(&*store, &key.owner_key()).await;
    conflict(&commit(&*store, old.fence(), vec![Op::put("grants", "late")]).await);
    let new = acquire(&*store, &key, "b", &b).await.unwrap();
    assert!(new.epoch() > old.epoch());
    conflict(&commit(&*store, old.fence(), vec![Op::put("grants", "late")]).await);
    // Neither can anybody who relies on its epoch.
    conflict(&commit(&*store, vec![key.at_epoch(old.epoch())], vec![Op::put("grants", "late")]).await);
    committed(commit(&*store, vec![key.at_epoch(new.epoch())], vec![Op::put("grants", "by b")]).await);
    conflict(&old.release(&*store).await);
    assert_eq!(owner_of(&*store, &key).await.unwrap().unwrap().holder, "b");
}

pub(super) async fn owner_waits_for_release(store: Arc<dyn Store>) {
    let key = OwnerKey::broker(&DatacenterId::new("dc1").unwrap());
    let (a, b) = (lease(&*store, 2).await, lease(&*store, 10).await);
    let old = acquire(&*store, &key, "a", &a).await.unwrap();
    let wait = tokio::spawn({
        let (store, key) = (Arc::clone(&store), key.clone());
        async move { acquire_when_vacant(&*store, &key, "b", &b).await }
    });
    // The holder dies: nobody renews its lease.
    drop((old, a));
    let new = soon("the take-over", wait).await.unwrap().unwrap();
    assert_eq!(new.epoch(), OwnerEpoch(2));
    // Waiting ends with the waiter's own lease, too.
    let c = lease(&*store, 10).await;
    let wait = tokio::spawn({
        let (store, key, c) = (Arc::clone(&store), key.clone(), c.clone());
        async move { acquire_when_vacant(&*store, &key, "c", &c).await }
    });
    c.revoke().await.unwrap();
    assert!(matches!(soon("the end of waiting", wait).await.unwrap(), Err(AcquireError::LeaseLost { .. })));
}

pub(super) async fn acquire_after_unknown(store: Arc<dyn Store>) {
    let key = OwnerKey::federation();
    let lease = lease(&*store, 10).await;
    let first = acquire(&*store, &key, "a", &lease).await.unwrap();
    // Whoever did not hear the answer asks again and learns that it is the owner.
    let again = acquire(&*store, &key, "a", &lease).await.unwrap();
    assert_eq!(again.epoch(), first.epoch());
    committed(commit(&*store, again.fence(), vec![Op::put("x", "y")]).await);
    lease.revoke().await.unwrap();
    assert!(matches!(acquire(&*store, &key, "a", &lease).await, Err(AcquireError::LeaseLost { .. })));
}

pub(super) async fn epochs_outlive_owners(store: Arc<dyn Store>) {
    let key = OwnerKey::new("shard/007");
    for round in 1..=5 {
        let lease = lease(&*store, 10).await;
        let owned = acquire(&*store, &key, "a", &lease).await.unwrap();
        assert_eq!(owned.epoch(), OwnerEpoch(round));
        lease.revoke().await.unwrap();
        soon("the key to be free", owner::vacant(&*store, &key)).await.unwrap();
    }
}

pub(super) async fn identity_guards_the_store(store: Arc<dyn Store>) {
    assert_eq!(identity::read(&*store).await.unwrap(), None);
    let made = open_identity(&*store, StoreKind::Region, "eu-1", None).await.unwrap();
    assert_eq!(made.incarnation, Incarnation(1));
    let seen = Some(Incarnation(1));
    assert_eq!(open_identity(&*store, StoreKind::Region, "eu-1", seen).await.unwrap(), made);
    let foreign = open_identity(&*store, StoreKind::Region, "us-1", None).await;
    assert!(matches!(foreign, Err(IdentityError::Foreign { .. })));
    let foreign = open_identity(&*store, StoreKind::Federation, "eu-1", None).await;
    assert!(matches!(foreign, Err(IdentityError::Foreign { .. })));
    let older = open_identity(&*store, StoreKind::Region, "eu-1", Some(Incarnation(2))).await;
    assert!(matches!(older, Err(IdentityError::Older { .. })));
    let newer = r#"{"format":99,"something":"else"}"#;
    put(&*store, identity::IDENTITY_KEY, newer).await;
    let newer = open_identity(&*store, StoreKind::Region, "eu-1", None).await;
    assert!(matches!(newer, Err(IdentityError::Store(StoreError::TooNew { found: 99, .. }))));
    committed(commit(&*store, Vec::new(), vec![Op::delete(identity::IDENTITY_KEY)]).await);
    put(&*store, "tasks/1", "").await;
    let unmarked = open_identity(&*store, StoreKind::Region, "eu-1", None).await;
    assert!(matches!(unmarked, Err(IdentityError::Unmarked { .. })));
}

pub(super) async fn restored_backup(store: Arc<dyn Store>) {
    open_identity(&*store, StoreKind::Region, "eu-1", None).await.unwrap();
    let (key, late) = (OwnerKey::new("shard/001"), OwnerKey::new("made/after/the/backup"));
    let old = lease(&*store, 10).await;
    let before = acquire(&*store, &key, "a", &old).await.unwrap().epoch();
    old.revoke().await.unwrap();
    soon("the key to be free", owner::vacant(&*store, &key)).await.unwrap();
    let raised = raise_incarnation(&*store, Some(Incarnation(4))).await.unwrap();
    assert_eq!(raised.incarnation, Incarnation(5));
    assert_eq!(open_identity(&*store, StoreKind::Region, "eu-1", Some(Incarnation(5))).await.unwrap(), raised);
    let lease = lease(&*store, 10).await;
    for key in [key, late] {
        let after = acquire(&*store, &key, "a", &lease).await.unwrap().epoch();
        assert!(after > raised.epoch_floor() && after.0 > before.0 + 1_000_000, "{after}");
    }
}

pub(super) async fn registry_round_trip(store: Arc<dyn Store>) {
    let lease = lease(&*store, 10).await;
    let node = NodeRecord { id: "n1".to_owned(), address: "127.0.0.1:7000".to_owned(), version: "0.1.0".to_owned() };
    registry::register_node(&*store, lease.id(), &node).await.unwrap();
    let owned = acquire(&*store, &OwnerKey::shard(ShardId(0)), "n1", &lease).await.unwrap();
    let actor = ActorRecord { name: "shard/000".to_owned(), node: "n1".to_owned(), epoch: owned.epoch() };
    registry::register_actor(&*store, lease.id(), &actor, owned.fence()).await.unwrap();
    let host = |datacenter: &str, id: &str| HostRecord {
        id: HostId::new(id).unwrap(),
        datacenter: DatacenterId::new(datacenter).unwrap(),
        boot_id: BootId("b1".to_owned()),
        agent_version: "0.1.0".to_owned(),
        address: "10.0.0.1".to_owned(),
    };
    let (first, second) = (host("dc1", "h1"), host("dc2", "h1"));
    registry::register_host(&*store, &first).await.unwrap();
    registry::register_host(&*store, &second).await.unwrap();
    let before = store.list("").await.unwrap().revision;
    registry::register_host(&*store, &first).await.unwrap();
    assert_eq!(store.list("").await.unwrap().revision, before, "the same record is not written again");
    assert_eq!(registry::list_nodes(&*store).await.unwrap(), [node]);
    assert_eq!(registry::list_actors(&*store).await.unwrap(), std::slice::from_ref(&actor));
    assert_eq!(registry::list_hosts(&*store, None).await.unwrap(), [first.clone(), second]);
    assert_eq!(registry::list_hosts(&*store, Some(&first.datacenter)).await.unwrap(), [first]);
    let fence = owned.fence();
    lease.revoke().await.unwrap();
    gone(&*store, "nodes/n1").await;
    gone(&*store, "actors/shard/000").await;
    assert_eq!(registry::list_hosts(&*store, None).await.unwrap().len(), 2, "hosts stay");
    registry::register_actor(&*store, lease.id(), &actor, fence).await.expect_err("its owner was deposed");
}

pub(super) async fn newer_records_are_refused(store: Arc<dyn Store>) {
    put(&*store, "nodes/n1", r#"{"v":1,"id":"n1","address":"a","version":"0","later":true}"#).await;
    assert_eq!(registry::list_nodes(&*store).await.unwrap().len(), 1, "unknown fields are left out");
    put(&*store, "nodes/n2", r#"{"v":2,"name":"n2"}"#).await;
    assert!(matches!(registry::list_nodes(&*store).await, Err(StoreError::TooNew { found: 2, .. })));
    put(&*store, "nodes/n2", "{").await;
    assert!(matches!(registry::list_nodes(&*store).await, Err(StoreError::Corrupt { .. })));
}
