//! The link's messages, there and back, and bytes that no version may change.

use bytes::Bytes;
use polder_core::message::{DrainAttestation, DrainOrder, HostOrder, HostReport, OrderOwner, Preparation, Refusal};
use polder_types::{
    BootId, Capacity, ContainerId, ContainerPhase, ContainerSpec, ContainerStatus, Cpu, DrainVersion, Epoch,
    ExitStatus, Generation, HealthCheck, HomeId, HostInfo, Incarnation, Millis, OwnerEpoch, PortBinding, PortRange,
    ShardId, StopSignal, StopSpec, Timestamp,
};
use polder_wire::{
    FRAME_MESSAGES_MAX, Hello, LOG_CHUNK_BYTES_MAX, LogCancel, LogChunk, LogRequest, Reject, ToHost, ToRegion, Welcome,
    WireError, pack, unpack,
};
use proptest::{collection, option, prelude::*};
use std::{fmt::Write as _, sync::Arc};

fn name() -> impl Strategy<Value = String> {
    "[a-z][a-z0-9-]{0,12}"
}

fn container() -> impl Strategy<Value = ContainerId> {
    (name(), name(), any::<u32>(), any::<u64>())
        .prop_map(|(account, job, index, epoch)| format!("{account}/{job}/{index}@{epoch}").parse().unwrap())
}

fn exit() -> impl Strategy<Value = ExitStatus> {
    prop_oneof![
        any::<i32>().prop_map(|code| ExitStatus::Code { code }),
        (any::<i32>(), any::<bool>()).prop_map(|(signal, oom)| ExitStatus::Signal { signal, oom }),
        any::<String>().prop_map(|reason| ExitStatus::NotStarted { reason }),
        any::<String>().prop_map(|reason| ExitStatus::Unknown { reason }),
    ]
}

fn time() -> impl Strategy<Value = Timestamp> {
    any::<u64>().prop_map(Timestamp)
}

fn status() -> impl Strategy<Value = ContainerStatus> {
    let phase = prop_oneof![
        Just(ContainerPhase::Preparing),
        (time(), any::<u32>(), any::<bool>()).prop_map(|(started_at, pid, ready)| ContainerPhase::Running {
            started_at,
            pid,
            ready
        }),
        time().prop_map(|kill_at| ContainerPhase::Stopping { kill_at }),
        (exit(), time()).prop_map(|(status, at)| ContainerPhase::Ended { status, at }),
    ];
    (container(), phase).prop_map(|(id, phase)| ContainerStatus { id, phase })
}

fn attestation() -> impl Strategy<Value = DrainAttestation> {
    let containers = || collection::vec(container(), 0..5);
    (any::<u64>(), any::<String>(), containers(), containers()).prop_map(|(version, boot, remaining, forced)| {
        DrainAttestation { version: DrainVersion(version), boot: BootId(boot), remaining, forced }
    })
}

fn info() -> impl Strategy<Value = HostInfo> {
    (name(), any::<(u32, u64, u16, u16)>(), collection::btree_map(name(), any::<String>(), 0..4), any::<String>())
        .prop_map(|(id, (cpu, memory, first, last), labels, address)| HostInfo {
            id: id.parse().unwrap(),
            datacenter: format!("dc-{id}").parse().unwrap(),
            power_domain: format!("p-{id}").parse().unwrap(),
            rack: format!("r-{id}").parse().unwrap(),
            capacity: Capacity {
                cpu: Cpu::from_centi_cores(cpu),
                memory: polder_types::Bytes::new(memory),
                ports: PortRange { first, last },
            },
            labels: labels.into_iter().map(|(label, value)| (label.parse().unwrap(), value)).collect(),
            address,
            agent: "0.1.0".to_owned(),
        })
}

fn refusal() -> impl Strategy<Value = Refusal> {
    prop_oneof![
        any::<u64>().prop_map(|seen| Refusal::StaleOwner { seen: OwnerEpoch(seen) }),
        any::<u64>().prop_map(|seen| Refusal::StaleContainer { seen: Epoch(seen) }),
        any::<u64>().prop_map(|version| Refusal::Draining { version: DrainVersion(version) }),
    ]
}

fn preparation() -> impl Strategy<Value = Preparation> {
    prop_oneof![
        Just(Preparation::UnderWay),
        Just(Preparation::Done),
        any::<String>().prop_map(|reason| Preparation::Failed { reason }),
    ]
}

fn report() -> impl Strategy<Value = HostReport> {
    let statuses = || collection::vec(status(), 0..6);
    prop_oneof![
        (info(), any::<String>(), statuses(), option::of(attestation())).prop_map(|(info, boot, containers, drain)| {
            HostReport::Inventory { info, boot: BootId(boot), containers, drain }
        }),
        statuses().prop_map(|containers| HostReport::Changed { containers }),
        (container(), refusal()).prop_map(|(container, why)| HostReport::Refused { container, why }),
        (container(), preparation())
            .prop_map(|(container, preparation)| HostReport::Prepared { container, preparation }),
        attestation().prop_map(HostReport::Drain),
        Just(HostReport::Alive),
    ]
}

fn to_region() -> impl Strategy<Value = ToRegion> {
    prop_oneof![
        (name(), name(), any::<String>(), any::<(u32, u64, u64, u64)>()).prop_map(
            |(region, host, boot, (protocol, session, incarnation, home))| {
                ToRegion::Hello(Hello {
                    protocol,
                    agent: "0.1.0".to_owned(),
                    region: region.parse().unwrap(),
                    host: host.parse().unwrap(),
                    boot: BootId(boot),
                    session,
                    incarnation: Incarnation(incarnation),
                    home: HomeId(home),
                })
            }
        ),
        report().prop_map(ToRegion::Report),
        (any::<u64>(), collection::vec(any::<u8>(), 0..300), any::<bool>(), option::of("[a-z ]{1,20}"))
            .prop_map(|(id, bytes, eof, error)| ToRegion::Log(LogChunk { id, bytes: Bytes::from(bytes), eof, error })),
    ]
}

fn spec() -> impl Strategy<Value = ContainerSpec> {
    let texts = || collection::vec(any::<String>(), 0..4);
    (texts(), texts(), collection::btree_map("[A-Z_]{1,8}", any::<String>(), 0..4), any::<(u32, u64, u32, u16)>())
        .prop_map(|(command, args, env, (cpu, memory, pids, port))| ContainerSpec {
            generation: Generation(3),
            image: "oci:/images/demo:1".to_owned(),
            command,
            args,
            env,
            user: Some("1000:1000".to_owned()),
            workdir: None,
            cpu: Cpu::from_centi_cores(cpu),
            memory: polder_types::Bytes::new(memory),
            pids,
            ports: vec![PortBinding { name: "http".parse().unwrap(), port }],
            stop: StopSpec { signal: StopSignal::Sigterm, grace: Millis(10_000) },
            health: Some(HealthCheck {
                port: "http".parse().unwrap(),
                path: "/health".to_owned(),
                interval: Millis(1000),
                timeout: Millis(500),
                failures: 3,
            }),
        })
}

fn owner() -> impl Strategy<Value = OrderOwner> {
    any::<(u16, u64)>().prop_map(|(shard, epoch)| OrderOwner { shard: ShardId(shard), epoch: OwnerEpoch(epoch) })
}

fn order() -> impl Strategy<Value = HostOrder> {
    prop_oneof![
        (owner(), container(), spec()).prop_map(|(owner, container, spec)| HostOrder::Start {
            owner,
            container,
            spec: Arc::new(spec)
        }),
        (owner(), container()).prop_map(|(owner, container)| HostOrder::Stop { owner, container }),
        (owner(), container()).prop_map(|(owner, container)| HostOrder::Forget { owner, container }),
        (owner(), container(), any::<String>()).prop_map(|(owner, container, image)| HostOrder::Prepare {
            owner,
            container,
            image
        }),
        any::<(u64, u64)>().prop_map(|(version, deadline)| {
            HostOrder::Drain(DrainOrder { version: DrainVersion(version), deadline: Timestamp(deadline) })
        }),
        any::<u64>().prop_map(|version| HostOrder::ForceDrain { version: DrainVersion(version) }),
        any::<u64>().prop_map(|version| HostOrder::EndDrain { version: DrainVersion(version) }),
    ]
}

fn to_host() -> impl Strategy<Value = ToHost> {
    prop_oneof![
        (name(), any::<u64>(), collection::vec(any::<String>(), 0..4)).prop_map(|(region, incarnation, nodes)| {
            ToHost::Welcome(Welcome {
                protocol: 1,
                region: region.parse().unwrap(),
                incarnation: Incarnation(incarnation),
                node: "n1".to_owned(),
                nodes,
            })
        }),
        order().prop_map(ToHost::Order),
        (container(), any::<(u64, bool, bool)>(), option::of(any::<u32>())).prop_map(
            |(container, (id, one, follow), tail)| {
                let epoch = one.then_some(container.epoch);
                ToHost::Log(LogRequest { id, task: container.task, epoch, follow, tail })
            }
        ),
        any::<u64>().prop_map(|id| ToHost::LogCancel(LogCancel { id })),
        any::<String>().prop_map(|reason| ToHost::Reject(Reject { reason })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn what_a_host_says_comes_back(messages in collection::vec(to_region(), 0..12)) {
        let frames = pack(&messages).unwrap();
        let back: Vec<ToRegion> = frames.into_iter().flat_map(|frame| unpack(frame).unwrap().messages).collect();
        prop_assert_eq!(back, messages);
    }

    #[test]
    fn what_a_region_says_comes_back(messages in collection::vec(to_host(), 0..12)) {
        let frames = pack(&messages).unwrap();
        let back: Vec<ToHost> = frames.into_iter().flat_map(|frame| unpack(frame).unwrap().messages).collect();
        prop_assert_eq!(back, messages);
    }

    #[test]
    fn noise_is_an_error_or_a_value_and_never_a_panic(bytes in collection::vec(any::<u8>(), 0..200)) {
        let _ = unpack::<ToRegion>(Bytes::from(bytes.clone()));
        let _ = unpack::<ToHost>(Bytes::from(bytes));
    }

    #[test]
    fn damage_is_an_error_or_a_value_and_never_a_panic(messages in collection::vec(to_host(), 1..4), at: prop::sample::Index, with: u8) {
        for frame in pack(&messages).unwrap() {
            let mut frame = frame.to_vec();
            let at = at.index(frame.len());
            frame[at] = with;
            let _ = unpack::<ToHost>(Bytes::from(frame));
        }
    }
}

#[test]
fn batches_are_split_at_the_limits() {
    let many = vec![ToRegion::Report(HostReport::Alive); FRAME_MESSAGES_MAX * 2 + 1];
    let frames = pack(&many).unwrap();
    assert_eq!(frames.len(), 3);
    let big = ToRegion::Log(LogChunk { id: 1, bytes: vec![0; LOG_CHUNK_BYTES_MAX].into(), eof: false, error: None });
    assert_eq!(pack(&vec![big; 20]).unwrap().len(), 2);
}

#[test]
fn what_is_too_large_is_refused() {
    let chunk = LogChunk { id: 1, bytes: vec![0; LOG_CHUNK_BYTES_MAX + 1].into(), eof: false, error: None };
    assert!(matches!(pack(&[ToRegion::Log(chunk)]), Err(WireError::TooLarge { .. })));
    let frame = Bytes::from(vec![0; polder_wire::FRAME_BYTES_MAX + 1]);
    assert!(matches!(unpack::<ToHost>(frame), Err(WireError::TooLarge { what: "a frame", .. })));
    let many = [0x0a_u8, 0x00].repeat(FRAME_MESSAGES_MAX + 1);
    assert!(matches!(unpack::<ToHost>(many.into()), Err(WireError::TooLarge { .. })));
}

#[test]
fn a_bad_field_is_named() {
    // A stop order of a container whose job has no account.
    let frame = bytes("0a 0e 12 0c 12 0a 0a 00 12 06 0a 02 6a 6f 10 01");
    let error = unpack::<ToHost>(frame).unwrap_err();
    assert!(matches!(error, WireError::Bad { field: "container.job", .. }), "{error:?}");
    // A stop order without an owner.
    let error = unpack::<ToHost>(bytes("0a 04 12 02 12 00")).unwrap_err();
    assert!(matches!(error, WireError::Missing { field: "stop.owner" }), "{error:?}");
}

#[test]
fn kinds_of_a_newer_peer_are_skipped() {
    // Field 100 of the message, field 100 of an order, and an order that is known.
    let frame = bytes("0a 03 a2 06 00  0a 05 12 03 a2 06 00  0a 06 12 04 2a 02 08 07");
    let unpacked = unpack::<ToHost>(frame).unwrap();
    assert_eq!(unpacked.skipped, 2);
    assert_eq!(unpacked.messages, [ToHost::Order(HostOrder::ForceDrain { version: DrainVersion(7) })]);
}

fn bytes(hex: &str) -> Bytes {
    hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

fn hex(frames: &[Bytes]) -> String {
    frames.concat().iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn owner_of(shard: u16, epoch: u64) -> OrderOwner {
    OrderOwner { shard: ShardId(shard), epoch: OwnerEpoch(epoch) }
}

fn golden_to_region() -> Vec<ToRegion> {
    let id: ContainerId = "shop/web/3@7".parse().unwrap();
    let status = |phase| ContainerStatus { id: id.clone(), phase };
    let drain = DrainAttestation {
        version: DrainVersion(2),
        boot: BootId("boot".to_owned()),
        remaining: vec![id.clone()],
        forced: vec![],
    };
    let info = HostInfo {
        id: "h1".parse().unwrap(),
        datacenter: "d".parse().unwrap(),
        power_domain: "p".parse().unwrap(),
        rack: "r".parse().unwrap(),
        capacity: Capacity {
            cpu: Cpu::from_centi_cores(200),
            memory: polder_types::Bytes::new(1 << 30),
            ports: PortRange { first: 20_000, last: 21_000 },
        },
        labels: [("disk".parse().unwrap(), "ssd".to_owned())].into(),
        address: "10.0.0.1".to_owned(),
        agent: "0.1.0".to_owned(),
    };
    vec![
        ToRegion::Hello(Hello {
            protocol: 1,
            agent: "0.1.0".to_owned(),
            region: "west".parse().unwrap(),
            host: "h1".parse().unwrap(),
            boot: BootId("boot".to_owned()),
            session: 5,
            incarnation: Incarnation(1),
            // Version 1 had none.
            home: HomeId(0),
        }),
        ToRegion::Report(HostReport::Inventory {
            info,
            boot: BootId("boot".to_owned()),
            containers: vec![status(ContainerPhase::Preparing)],
            drain: Some(drain.clone()),
        }),
        ToRegion::Report(HostReport::Changed {
            containers: vec![
                status(ContainerPhase::Running { started_at: Timestamp(9), pid: 44, ready: true }),
                status(ContainerPhase::Stopping { kill_at: Timestamp(10) }),
                status(ContainerPhase::Ended {
                    status: ExitStatus::Signal { signal: 9, oom: true },
                    at: Timestamp(11),
                }),
                status(ContainerPhase::Ended { status: ExitStatus::Code { code: -1 }, at: Timestamp(12) }),
                status(ContainerPhase::Ended {
                    status: ExitStatus::NotStarted { reason: "a".to_owned() },
                    at: Timestamp(13),
                }),
                status(ContainerPhase::Ended {
                    status: ExitStatus::Unknown { reason: "b".to_owned() },
                    at: Timestamp(14),
                }),
            ],
        }),
        ToRegion::Report(HostReport::Refused {
            container: id.clone(),
            why: Refusal::StaleOwner { seen: OwnerEpoch(4) },
        }),
        ToRegion::Report(HostReport::Refused {
            container: id.clone(),
            why: Refusal::StaleContainer { seen: Epoch(8) },
        }),
        ToRegion::Report(HostReport::Refused { container: id, why: Refusal::Draining { version: DrainVersion(2) } }),
        ToRegion::Report(HostReport::Drain(drain)),
        ToRegion::Report(HostReport::Alive),
        ToRegion::Log(LogChunk { id: 6, bytes: Bytes::from_static(b"hi\n"), eof: true, error: Some("e".to_owned()) }),
    ]
}

fn golden_to_host() -> Vec<ToHost> {
    let container: ContainerId = "shop/web/3@7".parse().unwrap();
    let owner = owner_of(12, 4);
    vec![
        ToHost::Welcome(Welcome {
            protocol: 1,
            region: "west".parse().unwrap(),
            incarnation: Incarnation(1),
            node: "n1".to_owned(),
            nodes: vec!["http://a:1".to_owned()],
        }),
        ToHost::Order(HostOrder::Stop { owner, container: container.clone() }),
        ToHost::Order(HostOrder::Forget { owner, container: container.clone() }),
        ToHost::Order(HostOrder::Drain(DrainOrder { version: DrainVersion(2), deadline: Timestamp(1000) })),
        ToHost::Order(HostOrder::ForceDrain { version: DrainVersion(2) }),
        ToHost::Order(HostOrder::EndDrain { version: DrainVersion(2) }),
        ToHost::Log(LogRequest { id: 6, task: container.task, epoch: Some(Epoch(7)), follow: true, tail: Some(10) }),
        ToHost::LogCancel(LogCancel { id: 6 }),
        ToHost::Reject(Reject { reason: "no".to_owned() }),
    ]
}

/// These bytes are what version 1 wrote. A change here breaks hosts and regions that run different versions: add
/// fields with new numbers instead, so that what is below can still be read.
#[test]
fn the_bytes_of_version_1_stay() {
    let to_region = golden_to_region();
    let text = hex(&pack(&to_region).unwrap());
    assert_eq!(text, include_str!("golden/to_region.v1.hex").trim());
    let to_host = golden_to_host();
    let text = hex(&pack(&to_host).unwrap());
    assert_eq!(text, include_str!("golden/to_host.v1.hex").trim());
}

/// A start carries its spec as JSON; one that version 1 wrote is read for ever.
#[test]
fn a_start_of_version_1_is_read() {
    let json = include_str!("golden/container_spec.v1.json");
    let spec: ContainerSpec = serde_json::from_str(json).unwrap();
    let again: serde_json::Value = serde_json::to_value(&spec).unwrap();
    assert_eq!(again, serde_json::from_str::<serde_json::Value>(json).unwrap());
}
