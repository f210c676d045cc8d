//! What a region counts.

use crate::{buckets, family::families};

families! {
    /// What a region counts. Gauges are what its machines say when they are asked, by the node that owns the region.
    pub struct Region {
        /// Tasks, by state: waiting, backoff, starting, unready (its process runs, and its health check does not pass), running, stopping, unknown (its host is not heard), completed, failed, stopped.
        tasks: Gauges<1> = "polder_tasks" ["state"];
        /// Tasks that wait to be placed, by why: no_room, quota, searching (not looked for yet), older_container, set_aside.
        pending: Gauges<1> = "polder_pending_tasks" ["reason"];
        /// Tasks for which room was asked, by what came of it: granted, or refused (and asked for again when anything changes).
        placements: Counters<1> = "polder_placements_total" ["outcome"];
        /// How long room took, in seconds, from when it was asked for until it was granted, or first refused; what is granted after a refusal is not timed again.
        placement_seconds: Timings<1> = "polder_placement_seconds" ["outcome"] in buckets::PLACEMENTS;
        /// Starts of tasks, by what came of them: running, or failed before.
        task_starts: Counters<1> = "polder_task_starts_total" ["outcome"];
        /// How long tasks took, in seconds, from when room was asked for, or granted after a refusal, until their process ran.
        task_start_seconds: Timings<0> = "polder_task_start_seconds" [] in buckets::STARTS;
        /// Hosts, by condition: ready, silent, cordoned, draining, closed (its drain has ended). A host counts once: silence first, then drains, then cordons.
        hosts: Gauges<1> = "polder_hosts" ["condition"];
        /// How long the host that was heard longest ago has been silent, in seconds; 0 when all are heard.
        host_silence_max: Gauges<0> = "polder_host_silence_seconds_max" [];
        /// What all hosts of the region have, by resource: cpu_cores, memory_bytes.
        capacity: Gauges<1> = "polder_capacity" ["resource"];
        /// What is charged on all hosts of the region, by resource: cpu_cores, memory_bytes, tasks.
        used: Gauges<1> = "polder_used" ["resource"];
        /// Hosts with an open link to this node.
        links: Gauges<0> = "polder_links" [];
        /// Drains of hosts that keep tasks away, by state: in_progress, drained, forced, unattested.
        drains: Gauges<1> = "polder_drains" ["state"];
        /// Drains of hosts that have ended, by how: drained, forced, unattested, aborted.
        drains_ended: Counters<1> = "polder_drains_ended_total" ["outcome"];
        /// By how long the drain that is latest is past its deadline, in seconds; 0 when none is.
        drain_overdue: Gauges<0> = "polder_drain_overdue_seconds" [];
        /// What accounts may use in this region, by resource: cpu_cores, memory_bytes, tasks. At most 1,000 accounts are shown.
        quota_limit: Gauges<2> = "polder_quota_limit" ["account", "resource"];
        /// What accounts with a limit use in this region, by resource: cpu_cores, memory_bytes, tasks. At most 1,000 accounts are shown.
        quota_used: Gauges<2> = "polder_quota_used" ["account", "resource"];
    }
}
