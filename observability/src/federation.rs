//! What the federation counts.

use crate::{buckets, family::families};

families! {
    /// What the federation counts. Gauges are what its machines say when they are asked, by the node that leads.
    pub struct Federation {
        /// Regions, by whether they are heard: heard, silent.
        regions: Gauges<1> = "polder_regions" ["state"];
        /// How long ago each region was heard, in seconds.
        region_silence: Gauges<1> = "polder_region_silence_seconds" ["region"];
        /// Jobs of the federation, by state: sending (a region is not known to have the newest), placed, refused (by a region), stopped, deleting.
        intents: Gauges<1> = "polder_intents" ["state"];
        /// How long slices took, in seconds, from when the federation had them durably until their region had.
        intent_durable_seconds: Timings<1> = "polder_intent_durable_seconds" ["region"] in buckets::CALLS;
        /// What accounts may use over all regions, by resource: cpu_cores, memory_bytes, tasks. At most 1,000 accounts are shown.
        quota_limit: Gauges<2> = "polder_fed_quota_limit" ["account", "resource"];
    }
}
