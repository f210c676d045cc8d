//! What the intent router remembers.

use crate::machine::Effects;
use alloc::collections::BTreeMap;
use polder_types::{Generation, JobSpec, RegionId, Slice, SliceVersion, Slots, Timestamp};
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
    /// The version of the newest slice.
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
    /// Every region that has a share, or had one that is not known to be gone.
    pub regions: BTreeMap<RegionId, Share>,
}

impl IntentRecord {
    /// The slice that a region is to have now.
    #[must_use]
    pub fn slice(&self, region: &RegionId) -> Option<Slice> {
        let share = self.regions.get(region)?;
        Some(Slice {
            spec: self.spec.clone(),
            slots: share.slots.clone(),
            version: share.version,
            stopped: self.stopped,
        })
    }
}

/// Whether a region is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionHealth {
    /// Not since this router started.
    Unheard,
    /// Heard lately.
    Heard,
    /// Not heard. That says nothing about what it runs.
    Silent {
        /// Since when.
        since: Timestamp,
    },
}

/// Splits jobs over regions and keeps each region's slice as it should be.
#[derive(Debug, Default)]
pub struct IntentRouter {}

impl IntentRouter {
    /// Starts from its durable intents. Regions are told of by events.
    pub fn restore(records: impl IntoIterator<Item = IntentRecord>, now: Timestamp) -> (Self, Effects<Self>) {
        let _ = (records.into_iter().count(), now);
        (Self {}, Effects::none())
    }
}
