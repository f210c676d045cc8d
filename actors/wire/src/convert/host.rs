//! Hosts as a broker stores them.

use super::{Wire, list_from_proto, list_to_proto, one_of, optional, optional_to_proto, required};
use crate::{error::WireError, limits::CONTAINERS_PER_REPORT_MAX, proto::records as pb};
use polder_core::broker::{Cordon, DrainRecord, DrainState, HostRecord};
use polder_types::{BootId, DrainVersion, HomeId, Timestamp};

const CONTAINERS: &str = "number of containers in a drain";

impl Wire for HostRecord {
    type Proto = pb::Host;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        Ok(pb::Host {
            info: Some(self.info.to_proto()?),
            boot: self.boot.0.clone(),
            registered_at_ms: self.registered_at.0,
            cordon: optional_to_proto(self.cordon.as_ref())?,
            drain: optional_to_proto(self.drain.as_ref())?,
            drains: self.drains.0,
            home: self.home.map(|home| home.0),
        })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        Ok(Self {
            info: required("host.info", proto.info)?,
            boot: BootId(proto.boot),
            registered_at: Timestamp(proto.registered_at_ms),
            cordon: optional(proto.cordon)?,
            drain: optional(proto.drain)?,
            drains: DrainVersion(proto.drains),
            home: proto.home.map(HomeId),
        })
    }
}

impl Wire for Cordon {
    type Proto = pb::Cordon;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        Ok(pb::Cordon { since_ms: self.since.0, by: self.by.clone(), reason: self.reason.clone() })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        Ok(Self { since: Timestamp(proto.since_ms), by: proto.by, reason: proto.reason })
    }
}

impl Wire for DrainRecord {
    type Proto = pb::HostDrain;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        let state = match self.state {
            DrainState::Draining => pb::HostDrainState::Draining,
            DrainState::Drained => pb::HostDrainState::Drained,
            DrainState::Forced => pb::HostDrainState::Forced,
            DrainState::Unattested => pb::HostDrainState::Unattested,
            DrainState::Aborted => pb::HostDrainState::Aborted,
        };
        Ok(pb::HostDrain {
            version: self.version.0,
            deadline_ms: self.deadline.0,
            reason: self.reason.clone(),
            by: self.by.clone(),
            started_at_ms: self.started_at.0,
            state: state.into(),
            forced: list_to_proto(CONTAINERS, &self.forced, CONTAINERS_PER_REPORT_MAX)?,
            left: list_to_proto(CONTAINERS, &self.left, CONTAINERS_PER_REPORT_MAX)?,
            ended_at_ms: self.ended_at.map(|at| at.0),
            attested_late_at_ms: self.attested_late_at.map(|at| at.0),
            lifted_at_ms: self.lifted_at.map(|at| at.0),
        })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        let state = one_of("host.drain.state", proto.state, |state| match state {
            pb::HostDrainState::Unspecified => None,
            pb::HostDrainState::Draining => Some(DrainState::Draining),
            pb::HostDrainState::Drained => Some(DrainState::Drained),
            pb::HostDrainState::Forced => Some(DrainState::Forced),
            pb::HostDrainState::Unattested => Some(DrainState::Unattested),
            pb::HostDrainState::Aborted => Some(DrainState::Aborted),
        })?;
        Ok(Self {
            version: DrainVersion(proto.version),
            deadline: Timestamp(proto.deadline_ms),
            reason: proto.reason,
            by: proto.by,
            started_at: Timestamp(proto.started_at_ms),
            state,
            forced: list_from_proto(CONTAINERS, proto.forced, CONTAINERS_PER_REPORT_MAX)?,
            left: list_from_proto(CONTAINERS, proto.left, CONTAINERS_PER_REPORT_MAX)?,
            ended_at: proto.ended_at_ms.map(Timestamp),
            attested_late_at: proto.attested_late_at_ms.map(Timestamp),
            lifted_at: proto.lifted_at_ms.map(Timestamp),
        })
    }
}
