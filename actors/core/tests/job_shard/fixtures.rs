//! Small jobs to test with.

use polder_core::job_shard::Config;
use polder_types::{
    Bytes, Cpu, Entrypoint, JobId, JobKind, JobSpec, Millis, Name, OwnerEpoch, Priority, Regions, Resources,
    RestartPolicy, RestartSpec, ShardId, Slice, SliceVersion, Slots, Spread, StopSignal, StopSpec, UpdateSpec,
};

pub(crate) fn config(owner: u64) -> Config {
    Config { shard: ShardId(0), owner: OwnerEpoch(owner), shards: 1 }
}

pub(crate) fn job(name: &str) -> JobId {
    format!("shop/{name}").parse().unwrap()
}

/// A service of so many tasks with quick times.
pub(crate) fn slice(name: &str, tasks: u32) -> Slice {
    let spec = JobSpec {
        id: job(name),
        kind: JobKind::Service,
        tasks,
        priority: Priority::default(),
        image: "oci:web:v1".into(),
        entrypoints: Default::default(),
        entrypoint: None,
        process: Entrypoint::default(),
        resources: Resources { cpu: Cpu::from_centi_cores(50), memory: Bytes::from_mib(64), pids: 16 },
        ports: vec![polder_types::PortSpec { name: Name::new("http").unwrap(), fixed: None }],
        constraints: Vec::new(),
        spread: Spread::default(),
        update: UpdateSpec { max_unavailable: 1, min_healthy: Millis(0) },
        stop: StopSpec { signal: StopSignal::Sigterm, grace: Millis::from_secs(10) },
        restart: RestartSpec {
            policy: RestartPolicy::Always,
            backoff: Millis::from_secs(1),
            backoff_max: Millis::from_secs(8),
            reset_after: Millis::from_secs(60),
            max_failures: None,
        },
        replace_after: Millis::from_secs(30),
        health: None,
        regions: Regions::default(),
    };
    Slice { spec, slots: Slots::first(tasks), version: SliceVersion(1), stopped: false }
}
