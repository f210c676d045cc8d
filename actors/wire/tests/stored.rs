//! Stored values, there and back, and bytes that every later version reads.

use polder_core::{
    broker::{self, Cordon, HostRecord},
    host::{self, ContainerRecord, Launched, OwnerRecord, TaskFloor},
    job_shard::{
        JobRecord, LastExit, OlderTemplate, Origin, Outcome, Placement, Quarantine, StopOrdered, StopReason, TaskChunk,
        TaskRecord, Template,
    },
    message::OrderOwner,
};
use polder_types::{
    Allotment, Amounts, BootId, Bytes, Capacity, ContainerSpec, Cpu, DrainVersion, Epoch, ExitStatus, Generation,
    HostInfo, JobSpec, OwnerEpoch, PortBinding, PortRange, Resources, ShardId, Slice, SliceVersion, SlotRange, Slots,
    Timestamp,
};
use polder_wire::{Stored, WireError};
use proptest::{collection, option, prelude::*};
use std::{fmt::Debug, sync::Arc};

const JOB_SPEC: &str = include_str!("golden/job_spec.v1.json");
const CONTAINER_SPEC: &str = include_str!("golden/container_spec.v1.json");

fn job_spec() -> JobSpec {
    serde_json::from_str(JOB_SPEC).unwrap()
}

fn time() -> impl Strategy<Value = Timestamp> {
    any::<u64>().prop_map(Timestamp)
}

fn resources() -> impl Strategy<Value = Resources> {
    any::<(u32, u64, u32)>().prop_map(|(cpu, memory, pids)| Resources {
        cpu: Cpu::from_centi_cores(cpu),
        memory: Bytes::new(memory),
        pids,
    })
}

fn stop() -> impl Strategy<Value = StopOrdered> {
    use StopReason::{Drained, JobStopped, Replaced, SlotRemoved, Updated};
    (time(), prop::sample::select(vec![JobStopped, SlotRemoved, Updated, Drained, Replaced]))
        .prop_map(|(at, why)| StopOrdered { at, why })
}

fn placement() -> impl Strategy<Value = Placement> {
    let ports = collection::vec(("[a-z]{1,8}", any::<u16>()), 0..3);
    (any::<(u64, u64)>(), "[a-z][a-z0-9.]{0,9}", resources(), ports, time(), option::of(stop())).prop_map(
        |((epoch, generation), host, resources, ports, placed_at, stop)| Placement {
            epoch: Epoch(epoch),
            host: host.parse().unwrap(),
            generation: Generation(generation),
            resources,
            ports: ports.into_iter().map(|(name, port)| PortBinding { name: name.parse().unwrap(), port }).collect(),
            placed_at,
            stop,
        },
    )
}

fn last_exit() -> impl Strategy<Value = LastExit> {
    (any::<u64>(), any::<i32>(), time()).prop_map(|(epoch, code, at)| LastExit {
        epoch: Epoch(epoch),
        host: "h1".parse().unwrap(),
        status: ExitStatus::Code { code },
        at,
    })
}

fn task() -> impl Strategy<Value = TaskRecord> {
    let places = (option::of(placement()), option::of(placement()), collection::vec(placement(), 0..3));
    let outcome = option::of(prop::sample::select(vec![Outcome::Completed, Outcome::Failed]));
    let ends = (option::of(time()), option::of(last_exit()), outcome);
    (any::<(u32, u64, u64, u32, u32)>(), places, ends).prop_map(
        |((index, epoch, want, failures, restarts), (current, next, lingering), (restart_at, last_exit, outcome))| {
            TaskRecord {
                index,
                epoch: Epoch(epoch),
                want: Generation(want),
                current,
                next,
                lingering,
                failures,
                restarts,
                restart_at,
                last_exit,
                outcome,
            }
        },
    )
}

fn job() -> impl Strategy<Value = JobRecord> {
    let slots = collection::btree_set(0_u32..500, 0..40);
    let quarantine = option::of((time(), any::<String>()).prop_map(|(since, reason)| Quarantine { since, reason }));
    (slots, any::<(u64, u64, bool, bool, bool)>(), time(), time(), quarantine).prop_map(
        |(slots, (version, generation, stopped, local, with_older), created_at, changed_at, quarantine)| {
            let older = OlderTemplate { generation: Generation(1), template: Template::of(&job_spec()) };
            JobRecord {
                slice: Slice {
                    spec: job_spec(),
                    slots: slots.into_iter().collect(),
                    version: SliceVersion(version),
                    stopped,
                },
                generation: Generation(generation),
                older: with_older.then_some(older).into_iter().collect(),
                origin: if local { Origin::Local } else { Origin::Federation },
                created_at,
                changed_at,
                quarantine,
            }
        },
    )
}

fn comes_back<T: Stored + PartialEq + Debug>(record: &T) -> Result<(), TestCaseError> {
    let value = record.to_value().unwrap();
    prop_assert_eq!(&T::from_value(&value).unwrap(), record);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn chunks_come_back(number in any::<u32>(), tasks in collection::vec(task(), 0..32)) {
        comes_back(&TaskChunk { job: "shop/web".parse().unwrap(), number, tasks })?;
    }

    #[test]
    fn jobs_come_back(job in job()) {
        comes_back(&job)?;
    }

    #[test]
    fn noise_is_an_error_or_a_value_and_never_a_panic(bytes in collection::vec(any::<u8>(), 0..200)) {
        let value = [vec![1], bytes].concat();
        let _ = JobRecord::from_value(&value);
        let _ = TaskChunk::from_value(&value);
        let _ = HostRecord::from_value(&value);
        let _ = Allotment::from_value(&value);
        let _ = ContainerRecord::from_value(&value);
    }
}

#[test]
fn what_a_newer_version_wrote_is_refused() {
    let mut value = allotment().to_value().unwrap();
    value[0] = 2;
    let error = Allotment::from_value(&value).unwrap_err();
    assert!(matches!(error, WireError::NewerVersion { found: 2, known: 1, .. }), "{error:?}");
    assert!(error.to_string().contains("a stored allotment has version 2"), "{error}");
    assert!(Allotment::from_value(&[]).is_err());
    assert!(Allotment::from_value(&[0]).is_err());
}

#[test]
fn slots_that_make_no_sense_are_refused() {
    let ranges = |ranges: &[(u32, u32)]| {
        Slots::from_ranges(ranges.iter().map(|&(first, count)| SlotRange { first, count }).collect())
    };
    assert_eq!(ranges(&[(0, 3), (4, 1)]), Some([0, 1, 2, 4].into_iter().collect()));
    for bad in [&[(0, 0)][..], &[(0, 3), (3, 1)], &[(5, 1), (0, 1)], &[(u32::MAX, 2)]] {
        assert_eq!(ranges(bad), None, "{bad:?}");
    }
}

fn allotment() -> Allotment {
    let limit = Amounts { cpu: Cpu::from_centi_cores(400), memory: Bytes::from_mib(8), tasks: 5 };
    Allotment { account: "shop/checkout".parse().unwrap(), version: 3, limit }
}

fn chunk() -> TaskChunk {
    let placement = Placement {
        epoch: Epoch(7),
        host: "h1".parse().unwrap(),
        generation: Generation(2),
        resources: Resources { cpu: Cpu::from_centi_cores(25), memory: Bytes::from_mib(64), pids: 64 },
        ports: vec![PortBinding { name: "http".parse().unwrap(), port: 20_001 }],
        placed_at: Timestamp(1000),
        stop: Some(StopOrdered { at: Timestamp(2000), why: StopReason::Drained }),
    };
    let full = TaskRecord {
        index: 3,
        epoch: Epoch(8),
        want: Generation(2),
        current: Some(placement.clone()),
        next: Some(Placement { stop: None, ..placement.clone() }),
        lingering: vec![placement],
        failures: 1,
        restarts: 2,
        restart_at: Some(Timestamp(3000)),
        last_exit: Some(LastExit {
            epoch: Epoch(6),
            host: "h2".parse().unwrap(),
            status: ExitStatus::Code { code: 1 },
            at: Timestamp(900),
        }),
        outcome: Some(Outcome::Failed),
    };
    TaskChunk { job: "shop/web".parse().unwrap(), number: 0, tasks: vec![full, TaskRecord::new(4, Generation(2))] }
}

fn job_record() -> JobRecord {
    let older = OlderTemplate { generation: Generation(1), template: Template::of(&job_spec()) };
    JobRecord {
        slice: Slice {
            spec: job_spec(),
            slots: [0, 1, 4].into_iter().collect(),
            version: SliceVersion(9),
            stopped: true,
        },
        generation: Generation(2),
        older: vec![older],
        origin: Origin::Federation,
        created_at: Timestamp(5),
        changed_at: Timestamp(6),
        quarantine: Some(Quarantine { since: Timestamp(7), reason: "a panic".to_owned() }),
    }
}

fn host_record() -> HostRecord {
    HostRecord {
        info: HostInfo {
            id: "h1".parse().unwrap(),
            datacenter: "d".parse().unwrap(),
            power_domain: "p".parse().unwrap(),
            rack: "r".parse().unwrap(),
            capacity: Capacity {
                cpu: Cpu::from_centi_cores(200),
                memory: Bytes::from_mib(1024),
                ports: PortRange { first: 20_000, last: 21_000 },
            },
            labels: [("disk".parse().unwrap(), "ssd".to_owned())].into(),
            address: "10.0.0.1".to_owned(),
            agent: "0.1.0".to_owned(),
        },
        // Version 1 had none.
        home: None,
        boot: BootId("boot".to_owned()),
        registered_at: Timestamp(1),
        cordon: Some(Cordon { since: Timestamp(2), by: "ann".to_owned(), reason: "disk".to_owned() }),
        drain: Some(broker::DrainRecord {
            version: DrainVersion(4),
            deadline: Timestamp(9),
            reason: "disk".to_owned(),
            by: "ann".to_owned(),
            started_at: Timestamp(3),
            state: broker::DrainState::Forced,
            forced: vec!["shop/web/3@7".parse().unwrap()],
            left: vec!["shop/web/4@1".parse().unwrap()],
            ended_at: Some(Timestamp(8)),
            attested_late_at: Some(Timestamp(10)),
            lifted_at: Some(Timestamp(11)),
        }),
        drains: DrainVersion(4),
    }
}

fn container_record() -> ContainerRecord {
    ContainerRecord {
        id: "shop/web/3@7".parse().unwrap(),
        owner: owner(),
        spec: Arc::new(serde_json::from_str::<ContainerSpec>(CONTAINER_SPEC).unwrap()),
        boot: BootId("boot".to_owned()),
        launched: Some(Launched { pid: 44, started_at: Timestamp(5), ready: true }),
        kill_at: Some(Timestamp(6)),
        ended: Some((ExitStatus::Signal { signal: 15, oom: false }, Timestamp(7))),
    }
}

fn owner() -> OrderOwner {
    OrderOwner { shard: ShardId(12), epoch: OwnerEpoch(4) }
}

fn golden<T: Stored + PartialEq + Debug>(name: &str, record: &T, bytes: &str) {
    let value = record.to_value().unwrap();
    let text: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(text, bytes.trim(), "what is written for {name} has changed");
    assert_eq!(&T::from_value(&value).unwrap(), record, "{name}");
}

/// These bytes are in stores. A change here means that an older program, during an upgrade, can't read what a newer
/// one writes, or that a newer one can't read what is stored: add fields with new numbers, or raise the version and
/// keep reading this one.
#[test]
fn the_bytes_of_version_1_stay() {
    golden("allotment", &allotment(), include_str!("golden/allotment.v1.hex"));
    golden("chunk", &chunk(), include_str!("golden/chunk.v1.hex"));
    golden("job", &job_record(), include_str!("golden/job.v1.hex"));
    golden("host", &host_record(), include_str!("golden/host.v1.hex"));
    golden("container", &container_record(), include_str!("golden/container.v1.hex"));
    let floor = TaskFloor { task: "shop/web/3".parse().unwrap(), epoch: Epoch(7), owner: owner(), at: Timestamp(8) };
    golden("floor", &floor, include_str!("golden/floor.v1.hex"));
    golden("owner", &OwnerRecord { shard: ShardId(12), epoch: OwnerEpoch(4) }, include_str!("golden/owner.v1.hex"));
    let forced = Some(vec!["shop/web/3@7".parse().unwrap()]);
    let drain = host::DrainRecord {
        version: DrainVersion(4),
        state: host::DrainState::Open { deadline: Timestamp(9), forced },
    };
    golden("drain", &drain, include_str!("golden/drain.v1.hex"));
}
