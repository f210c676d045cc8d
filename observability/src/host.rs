//! What a host's agent counts.

use crate::{buckets, family::families};

families! {
    /// What a host's agent counts.
    pub struct Host {
        /// Containers on this host, by state: starting, unready (its process runs, and its health check does not pass), running, stopping, ended (and kept until the region has it on record).
        containers: Gauges<1> = "polder_containers" ["state"];
        /// How long starts of containers took, in seconds, by phase: image, rootfs, shim, start, and total.
        container_start_seconds: Timings<1> = "polder_container_start_seconds" ["phase"] in buckets::STARTS;
        /// 1 while the link to the region is open, else 0.
        link_up: Gauges<0> = "polder_link_up" [];
        /// Links that were opened after the first.
        link_reconnects: Counters<0> = "polder_link_reconnects_total" [];
        /// The size of the file system that the data folder is on, in bytes.
        disk_size: Gauges<0> = "polder_disk_size_bytes" [];
        /// What is free there for Polder, in bytes.
        disk_free: Gauges<0> = "polder_disk_free_bytes" [];
        /// 1 while the host is being drained or was, and takes no task; else 0.
        draining: Gauges<0> = "polder_host_draining" [];
    }
}
