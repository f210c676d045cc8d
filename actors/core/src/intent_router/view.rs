//! What others may read of the intent router.

use super::state::{IntentRecord, IntentRouter, Region, RegionHealth, Share};
use crate::message::SliceStatus;
use alloc::{string::String, vec::Vec};
use polder_types::{JobId, RegionId, SliceVersion, Slots, Timestamp};

/// A region as the router knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionView {
    /// The region.
    pub region: RegionId,
    /// Whether it is heard.
    pub health: RegionHealth,
    /// When it said the newest of what is known.
    pub as_of: Option<Timestamp>,
}

/// The part of a job in one region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareView {
    /// The region.
    pub region: RegionView,
    /// The slots of its newest slice.
    pub slots: Slots,
    /// Slots that it is to get once the region that has them has let them go.
    pub awaited: Slots,
    /// Slots that were taken away and are not known to be gone.
    pub leaving: Slots,
    /// The version of its newest slice.
    pub version: SliceVersion,
    /// The newest version that the region is known to have; none if it is not known to have any.
    pub acked: Option<SliceVersion>,
    /// What the region said last; none if it has said nothing since the router started.
    pub status: Option<SliceStatus>,
    /// Why the region refused the newest slice, if it did.
    pub refused: Option<String>,
}

/// An intent with what is known of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentView<'a> {
    /// The intent.
    pub record: &'a IntentRecord,
    /// Its parts, in order of region.
    pub regions: Vec<ShareView>,
}

impl IntentRouter {
    /// Every region of the federation.
    pub fn regions(&self) -> impl Iterator<Item = RegionView> + '_ {
        self.regions.iter().map(|(id, region)| view(id, region))
    }

    /// One region.
    #[must_use]
    pub fn region(&self, region: &RegionId) -> Option<RegionView> {
        self.regions.get(region).map(|known| view(region, known))
    }

    /// Every intent, in order of job.
    pub fn intents(&self) -> impl Iterator<Item = IntentView<'_>> + '_ {
        self.intents.values().map(|record| self.intent_view(record))
    }

    /// One intent.
    #[must_use]
    pub fn intent(&self, job: &JobId) -> Option<IntentView<'_>> {
        self.intents.get(job).map(|record| self.intent_view(record))
    }

    /// How many slices are not known to have reached their regions.
    #[must_use]
    pub fn puts_pending(&self) -> usize {
        self.outbox.len()
    }

    fn intent_view<'a>(&'a self, record: &'a IntentRecord) -> IntentView<'a> {
        let share_view = |(region, share): (&RegionId, &Share)| {
            let job = &record.spec.id;
            let known = self.regions.get(region);
            let refused = known.and_then(|known| known.refused.get(job));
            ShareView {
                region: known.map_or_else(|| view(region, &Region::default()), |known| view(region, known)),
                slots: share.slots.clone(),
                awaited: share.target.iter().filter(|slot| !share.slots.contains(*slot)).collect(),
                leaving: share.leaving.clone(),
                version: share.version,
                acked: known.and_then(|known| known.acked.get(job)).copied(),
                status: known.and_then(|known| known.statuses.get(job)).cloned(),
                refused: refused.filter(|(version, _)| *version == share.version).map(|(_, why)| why.clone()),
            }
        };
        IntentView { record, regions: record.regions.iter().map(share_view).collect() }
    }
}

fn view(id: &RegionId, region: &Region) -> RegionView {
    RegionView { region: id.clone(), health: region.health, as_of: region.as_of }
}
