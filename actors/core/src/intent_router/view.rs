//! What others may read of the intent router.

use super::state::{IntentRecord, RegionHealth};
use crate::message::SliceStatus;
use alloc::{string::String, vec::Vec};
use polder_types::{RegionId, SliceVersion, Slots, Timestamp};

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
