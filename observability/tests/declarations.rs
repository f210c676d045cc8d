//! What is declared is registered, bounded and documented.

use polder_observability::{
    ActorKind, ActorMeter, Actors, Api, Federation, Host, Kind, Mailbox, Process, Region, StoreMeter, declared, encode,
    reference,
};
use std::{collections::BTreeSet, path::Path, time::Duration};

/// Labels whose values are bounded by the code or by a limit.
const LABELS: &[&str] = &[
    "version",
    "role",
    "route",
    "method",
    "status",
    "actor",
    "store",
    "operation",
    "outcome",
    "state",
    "reason",
    "condition",
    "resource",
    "account",
    "region",
    "phase",
];

#[test]
fn names_are_unique_and_labels_bounded() {
    let mut names = BTreeSet::new();
    for family in declared().iter().flat_map(|module| module.families) {
        let name = family.name;
        assert!(names.insert(name), "{name} is declared twice");
        assert!(name.starts_with("polder_"), "{name}");
        assert_eq!(
            name.ends_with("_total"),
            family.kind == Kind::Counter,
            "{name}: counters, and no others, end in _total"
        );
        assert!(family.help.ends_with('.') && !family.help.starts_with(' '), "{name}: {}", family.help);
        for label in family.labels {
            assert!(LABELS.contains(label), "{name} has the label {label}: is it bounded?");
        }
        if let Kind::Histogram(buckets) = family.kind {
            assert!(name.ends_with("_seconds"), "{name}");
            assert!(buckets.is_sorted(), "{name}");
        }
    }
}

#[test]
fn every_part_can_be_registered_and_is_shown_once_touched() {
    Process::shared().introduce("1.2.3", "test");
    Api::shared().requests.count(["/v1/jobs", "GET", "200"]);
    Federation::shared().region_silence.set(["eu"], 1.5);
    Region::shared().task_start_seconds.took([], Duration::from_millis(20));
    Host::shared().link_reconnects.count([]);
    let _ = StoreMeter::of("embedded");
    let meter = ActorMeter::of(ActorKind::Broker);
    meter.handled(3);
    meter.stepped(Duration::from_micros(7));
    let text = encode();
    for line in [
        "polder_build_info{role=\"test\",version=\"1.2.3\"} 1",
        "polder_http_requests_total{method=\"GET\",route=\"/v1/jobs\",status=\"200\"} 1",
        "polder_region_silence_seconds{region=\"eu\"} 1.5",
        "polder_task_start_seconds_bucket{le=\"0.025\"} 1",
        "polder_link_reconnects_total 1",
        "polder_actor_messages_total{actor=\"broker\"} 3",
        "polder_actor_panics_total{actor=\"broker\"} 0",
        "polder_store_operation_seconds_count{operation=\"commit\",outcome=\"unknown\",store=\"embedded\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(text.contains("process_resident_memory_bytes"));
    assert!(!text.contains("polder_disk_free_bytes"), "what nobody touched is not shown");
}

#[test]
fn gauges_forget_what_is_gone() {
    let mailbox = |kind, depth, secs| Mailbox { kind, depth, oldest: Duration::from_secs(secs) };
    let actors = Actors::shared();
    actors.show_mailboxes([
        mailbox(ActorKind::Allocator, 1, 0),
        mailbox(ActorKind::JobShard, 2, 9),
        mailbox(ActorKind::JobShard, 3, 4),
    ]);
    let text = encode();
    assert!(text.contains("polder_actor_mailbox_depth{actor=\"job_shard\"} 5"));
    assert!(text.contains("polder_actor_mailbox_age_seconds{actor=\"job_shard\"} 9"));
    actors.show_mailboxes([mailbox(ActorKind::Allocator, 0, 0)]);
    let text = encode();
    assert!(text.contains("polder_actor_mailbox_depth{actor=\"allocator\"} 0"));
    assert!(!text.contains("polder_actor_mailbox_depth{actor=\"job_shard\"}"));
}

#[test]
fn the_reference_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/metrics.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, reference()).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == reference(), "{} is out of date: UPDATE=1 cargo test -p polder-observability", path.display());
}
