//! What only shows from within: parts of a node that no other part lets fail.

use crate::{
    brokers::Listener,
    front::RegionApi,
    keys,
    region::{Actors, Region},
    roles::{AllocatorRole, BrokerRole, ShardRole},
    run::settle_shards,
};
use polder_api::{Code, server::RegionFront as _};
use polder_core::{
    broker::HostRecord,
    job_shard::{JobRecord, JobShard, Origin},
    machine::Machine as _,
};
use polder_node::{Node, Setup, Stage, StoreConfig, open_store, read_all, value};
use polder_shell::{ActorOptions, RestoreReason, Restoring, Role as _, SystemClock};
use polder_store::{Op, Txn, owner::OwnerKey};
use polder_types::{
    Allotment, Amounts, BootId, Bytes, Capacity, Cpu, Generation, HostInfo, Incarnation, JobId, Millis, PortRange,
    ShardId, Slice, SliceVersion, Slots, Timestamp,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Few, so that an inbox is full soon.
const INBOX: usize = 16;
const HOSTS: usize = 100;

struct Bench {
    region: Arc<Region>,
    node: Node,
    stage: Stage,
    _dir: tempfile::TempDir,
}

/// A region of one shard whose actors do not run yet.
async fn bench() -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let config = crate::RegionConfig {
        region: "eu".parse().unwrap(),
        node: "node-1".parse().unwrap(),
        listen: ([127, 0, 0, 1], 0).into(),
        advertise: "http://127.0.0.1:1".to_owned(),
        store: StoreConfig::Embedded { dir: dir.path().to_owned() },
        shards: 1,
        silent_after: Millis::from_secs(60),
        lease_ttl: Duration::from_secs(60),
        federation: None,
    };
    let store = open_store(&config.store).await.unwrap();
    let setup = Setup {
        node: config.node.clone(),
        advertise: config.advertise.clone(),
        owns: OwnerKey::allocator(),
        what: "the region".to_owned(),
        lease_ttl: config.lease_ttl,
    };
    let node = Node::join(setup, Arc::clone(&store)).await.unwrap();
    let stage = node.own().await.unwrap();
    let region = Arc::new(Region::new(config, Incarnation(1), store, Arc::new(SystemClock)));
    Bench { region, node, stage, _dir: dir }
}

async fn put(region: &Region, key: String, value: Vec<u8>) {
    region.store.commit(Txn::new(Vec::new(), vec![Op::put(key, value)]).unwrap()).await.committed().unwrap();
}

fn host(number: usize) -> HostRecord {
    let info = HostInfo {
        id: format!("h{number:03}").parse().unwrap(),
        datacenter: "a".parse().unwrap(),
        power_domain: "p".parse().unwrap(),
        rack: "r".parse().unwrap(),
        capacity: Capacity {
            cpu: Cpu::from_centi_cores(400),
            memory: Bytes::from_mib(4096),
            ports: PortRange { first: 20_000, last: 20_099 },
        },
        labels: BTreeMap::new(),
        address: "127.0.0.1".to_owned(),
        agent: "test".to_owned(),
    };
    HostRecord {
        info,
        boot: BootId("boot-1".to_owned()),
        home: None,
        registered_at: Timestamp(1),
        cordon: None,
        drain: None,
        drains: Default::default(),
    }
}

#[actix_web::test]
async fn a_shard_without_room_holds_up_nobody_and_hears_everything_later() {
    let bench = bench().await;
    let (region, root, seat) = (&bench.region, &bench.stage.root, &bench.stage.seat);
    let place = "a".parse().unwrap();
    for record in (0..HOSTS).map(host) {
        put(region, keys::broker_host(&place, &record.info.id), value(&record).unwrap()).await;
    }
    let allocator = root.prepare("allocator", ActorOptions::default().capacity(INBOX));
    let shard = root.prepare::<JobShard>("shard", ActorOptions::default().capacity(INBOX));
    region.set_actors(Actors {
        seat: Arc::clone(seat),
        allocator: allocator.handle().clone(),
        shards: vec![shard.handle().clone()],
    });
    let (its_region, its_seat, its_place) = (Arc::clone(region), Arc::clone(seat), place.clone());
    let broker = root.spawn("broker", ActorOptions::default(), move |_| {
        BrokerRole::new(Arc::clone(&its_region), Arc::clone(&its_seat), its_place.clone())
    });
    region.brokers.add(place, broker.unwrap());
    assert!(region.brokers.all()[0].ready().await);
    // Nobody takes what the shard is told, so the rest is given up for now, and noted.
    assert!(!region.repeat_notices(Listener::Shard(ShardId(0))).await);
    assert_eq!(region.shard(ShardId(0)).unwrap().port().status().depth, INBOX);
    assert!(region.brokers.take_missed().contains(&Listener::Shard(ShardId(0))));

    let (its_region, its_seat) = (Arc::clone(region), Arc::clone(seat));
    shard.start(move |_| ShardRole::new(Arc::clone(&its_region), Arc::clone(&its_seat), ShardId(0))).unwrap();
    assert!(region.shard(ShardId(0)).unwrap().ready().await);
    assert!(region.brokers.take_missed().contains(&Listener::Shard(ShardId(0))), "one that is restored missed all");
    // Far more than there is room for at once.
    assert!(region.repeat_notices(Listener::Shard(ShardId(0))).await);
    bench.node.stop().await;
}

#[actix_web::test]
async fn a_deposed_node_agrees_to_no_allotment() {
    let bench = bench().await;
    let (region, root, seat) = (&bench.region, &bench.stage.root, &bench.stage.seat);
    let allocator = root.prepare("allocator", ActorOptions::default());
    region.set_actors(Actors {
        seat: Arc::clone(seat),
        allocator: allocator.handle().clone(),
        shards: vec![root.prepare::<JobShard>("shard", ActorOptions::default()).handle().clone()],
    });
    let api = RegionApi { region: Arc::clone(region) };
    let allotment = |version| Allotment { account: "demo".parse().unwrap(), version, limit: Amounts::default() };
    let early = api.put_allotment(allotment(1)).await.unwrap_err();
    assert_eq!(early.code, Code::NotReady, "nobody admits anything yet");
    let (its_region, its_seat) = (Arc::clone(region), Arc::clone(seat));
    allocator.start(move |_| AllocatorRole::new(Arc::clone(&its_region), Arc::clone(&its_seat))).unwrap();
    assert!(region.actors().unwrap().allocator.ready().await);
    assert_eq!(api.put_allotment(allotment(2)).await.unwrap(), allotment(2));

    // Its lease has ended, and it has not noticed.
    let gone = Op::delete(OwnerKey::allocator().owner_key());
    region.store.commit(Txn::new(Vec::new(), vec![gone]).unwrap()).await.committed().unwrap();
    assert_eq!(api.put_allotment(allotment(3)).await.unwrap_err().code, Code::NotReady);
    let stored: Vec<Allotment> = read_all(&*region.store, keys::ALLOTMENTS).await.unwrap();
    assert_eq!(stored, [allotment(2)]);
    bench.node.stop().await;
}

#[actix_web::test]
async fn a_job_that_is_set_aside_is_so_before_anything_else_is_done_for_it() {
    let bench = bench().await;
    let region = &bench.region;
    let id: JobId = "demo/web".parse().unwrap();
    let text = b"account = \"demo\"\nname = \"web\"\nkind = \"service\"\ntasks = 2\nimage = \"oci:/images/demo\"\n[resources]\ncpu = 0.5\nmemory = \"64MiB\"\n";
    let spec = polder_api::job_file::parse(text, polder_api::job_file::Format::Toml).unwrap().spec;
    let slice = Slice { slots: Slots::first(spec.tasks), version: SliceVersion(1), stopped: false, spec };
    let record = JobRecord {
        slice,
        generation: Generation(1),
        older: Vec::new(),
        origin: Origin::Local,
        created_at: Timestamp(1),
        changed_at: Timestamp(1),
        quarantine: None,
    };
    put(region, keys::job(ShardId(0), &id), value(&record).unwrap()).await;

    let mut role = ShardRole::new(Arc::clone(region), Arc::clone(&bench.stage.seat), ShardId(0));
    for quarantined in [BTreeSet::new(), BTreeSet::from([id.clone()])] {
        let reason = &RestoreReason::Started;
        let restoring = Restoring { reason, quarantined: &quarantined, now: Timestamp(1000) };
        let (shard, _effects) = role.restore(restoring).await.unwrap();
        assert_eq!(shard.job_view(&id).unwrap().quarantine.is_some(), quarantined.contains(&id));
        shard.check().unwrap();
    }
    bench.node.stop().await;
}

#[actix_web::test]
async fn the_number_of_shards_is_settled_once_and_is_a_sensible_one() {
    let bench = bench().await;
    let store = &*bench.region.store;
    for wrong in [0, crate::SHARDS_MAX.0 + 1] {
        assert!(settle_shards(store, wrong).await.is_err(), "{wrong}");
    }
    assert_eq!(settle_shards(store, 4).await.unwrap(), 4);
    assert_eq!(settle_shards(store, 8).await.unwrap(), 4);
    put(&bench.region, "meta/shards".to_owned(), b"0".to_vec()).await;
    assert!(settle_shards(store, 4).await.is_err(), "jobs can't be spread over nothing");
    bench.node.stop().await;
}
