//! What the intent router remembers, and how it starts.

use crate::{machine::Effects, message::SliceStatus, outbox::Outbox};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
};
use polder_types::{Generation, JobId, JobSpec, RegionId, Slice, SliceVersion, Slots, Timestamp};
use serde::{Deserialize, Serialize};

/// The part of an intent that one region has, or is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The slots of the newest slice: the region may run these.
    pub slots: Slots,
    /// The slots that the region is to have in the end.
    pub target: Slots,
    /// Slots that were taken away and may still run here, until the region has said that nothing of them is left.
    pub leaving: Slots,
    /// The version of the newest slice; 0 before the first.
    pub version: SliceVersion,
}

/// A job as the federation holds it. Durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IntentRecord {
    /// What was applied.
    pub spec: JobSpec,
    /// Counts the specs of the job.
    pub generation: Generation,
    /// Whether the job was ordered to stop.
    pub stopped: bool,
    /// Whether it is being forgotten: every region is told to forget its part, and then this record goes as well.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub deleting: bool,
    /// Every region that has a share or ever had one: a region is told of an empty share, never of none.
    pub regions: BTreeMap<RegionId, Share>,
}

impl IntentRecord {
    /// The slice that a region is to have now; none before its first.
    #[must_use]
    pub fn slice(&self, region: &RegionId) -> Option<Slice> {
        let share = self.regions.get(region).filter(|share| share.version > SliceVersion(0))?;
        Some(Slice {
            spec: self.spec.clone(),
            slots: share.slots.clone(),
            version: share.version,
            stopped: self.stopped,
        })
    }
}

/// Whether a region is heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegionHealth {
    /// Not since this router started.
    #[default]
    Unheard,
    /// Heard lately.
    Heard,
    /// Not heard. That says nothing about what it runs.
    Silent {
        /// Since when.
        since: Timestamp,
    },
}

/// What is known of a region. Soft: the region says it again.
#[derive(Clone, Debug, Default)]
pub(super) struct Region {
    pub(super) health: RegionHealth,
    pub(super) as_of: Option<Timestamp>,
    pub(super) statuses: BTreeMap<JobId, SliceStatus>,
    /// The newest version of each slice that the region is known to have.
    pub(super) acked: BTreeMap<JobId, SliceVersion>,
    /// Whether it has said everything that it has since this router started.
    pub(super) listed: bool,
    /// Jobs that are being deleted of which it has said that it has forgotten them.
    pub(super) dropped: BTreeSet<JobId>,
    /// Why it refused a slice of this version.
    pub(super) refused: BTreeMap<JobId, (SliceVersion, String)>,
}

/// Splits jobs over regions and keeps each region's slice as it should be.
#[derive(Debug, Default)]
pub struct IntentRouter {
    pub(super) intents: BTreeMap<JobId, IntentRecord>,
    pub(super) regions: BTreeMap<RegionId, Region>,
    /// Slices that regions are not known to have.
    pub(super) outbox: Outbox<JobId>,
}

impl IntentRouter {
    /// Starts from its durable intents. Regions are told of by events, and what they lack is sent when they are heard.
    pub fn restore(records: impl IntoIterator<Item = IntentRecord>, _now: Timestamp) -> (Self, Effects<Self>) {
        let intents: BTreeMap<JobId, IntentRecord> =
            records.into_iter().map(|record| (record.spec.id.clone(), record)).collect();
        let mut router = Self { intents, ..Self::default() };
        // A region that has a share is one of the federation's, also before anybody says so again.
        let shares = router.intents.values().flat_map(|record| record.regions.keys());
        let regions: BTreeSet<RegionId> = shares.cloned().collect();
        for region in regions {
            router.know(&region);
        }
        (router, Effects::none())
    }

    /// Takes a region in. Until it is heard and has said what it has, each of its slices is to be sent.
    pub(super) fn know(&mut self, region: &RegionId) {
        if self.regions.contains_key(region) {
            return;
        }
        self.regions.insert(region.clone(), Region::default());
        for (job, record) in &self.intents {
            if record.slice(region).is_some() {
                self.outbox.want(region, job, None);
            }
        }
    }
}
