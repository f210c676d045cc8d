//! Reports of a host to its region.

use super::{Wire, list_from_proto, list_to_proto, required};
use crate::{error::WireError, limits::CONTAINERS_PER_REPORT_MAX, proto::link as pb};
use polder_core::message::{DrainAttestation, HostReport, Preparation, Refusal};
use polder_types::{BootId, ContainerPhase, ContainerStatus, DrainVersion, Epoch, OwnerEpoch, Timestamp};

const CONTAINERS: &str = "number of containers in a report";

impl Wire for ContainerStatus {
    type Proto = pb::ContainerStatus;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        use pb::container_status::{Ended, Phase, Preparing, Running, Stopping};
        let phase = match &self.phase {
            ContainerPhase::Preparing => Phase::Preparing(Preparing {}),
            ContainerPhase::Running { started_at, pid, ready } => {
                Phase::Running(Running { started_at_ms: started_at.0, pid: *pid, ready: *ready })
            }
            ContainerPhase::Stopping { kill_at } => Phase::Stopping(Stopping { kill_at_ms: kill_at.0 }),
            ContainerPhase::Ended { status, at } => {
                Phase::Ended(Ended { status: Some(status.to_proto()?), at_ms: at.0 })
            }
        };
        Ok(pb::ContainerStatus { id: Some(self.id.to_proto()?), phase: Some(phase) })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        use pb::container_status::Phase;
        let phase = match proto.phase.ok_or(WireError::Missing { field: "status.phase" })? {
            Phase::Preparing(_) => ContainerPhase::Preparing,
            Phase::Running(running) => ContainerPhase::Running {
                started_at: Timestamp(running.started_at_ms),
                pid: running.pid,
                ready: running.ready,
            },
            Phase::Stopping(stopping) => ContainerPhase::Stopping { kill_at: Timestamp(stopping.kill_at_ms) },
            Phase::Ended(ended) => ContainerPhase::Ended {
                status: required("status.ended.status", ended.status)?,
                at: Timestamp(ended.at_ms),
            },
        };
        Ok(Self { id: required("status.id", proto.id)?, phase })
    }
}

impl Wire for DrainAttestation {
    type Proto = pb::DrainAttestation;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        Ok(pb::DrainAttestation {
            version: self.version.0,
            boot: self.boot.0.clone(),
            remaining: list_to_proto(CONTAINERS, &self.remaining, CONTAINERS_PER_REPORT_MAX)?,
            forced: list_to_proto(CONTAINERS, &self.forced, CONTAINERS_PER_REPORT_MAX)?,
        })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        Ok(Self {
            version: DrainVersion(proto.version),
            boot: BootId(proto.boot),
            remaining: list_from_proto(CONTAINERS, proto.remaining, CONTAINERS_PER_REPORT_MAX)?,
            forced: list_from_proto(CONTAINERS, proto.forced, CONTAINERS_PER_REPORT_MAX)?,
        })
    }
}

fn refusal_to_proto(why: &Refusal) -> pb::refused::Why {
    match why {
        Refusal::StaleOwner { seen } => pb::refused::Why::StaleOwnerSeen(seen.0),
        Refusal::StaleContainer { seen } => pb::refused::Why::StaleContainerSeen(seen.0),
        Refusal::Draining { version } => pb::refused::Why::DrainingVersion(version.0),
    }
}

fn refusal_from_proto(why: &pb::refused::Why) -> Refusal {
    match why {
        pb::refused::Why::StaleOwnerSeen(seen) => Refusal::StaleOwner { seen: OwnerEpoch(*seen) },
        pb::refused::Why::StaleContainerSeen(seen) => Refusal::StaleContainer { seen: Epoch(*seen) },
        pb::refused::Why::DrainingVersion(version) => Refusal::Draining { version: DrainVersion(*version) },
    }
}

fn preparation_to_proto(preparation: &Preparation) -> pb::prepared::Preparation {
    use pb::prepared::{Done, Failed, Preparation as Proto, UnderWay};
    match preparation {
        Preparation::UnderWay => Proto::UnderWay(UnderWay {}),
        Preparation::Done => Proto::Done(Done {}),
        Preparation::Failed { reason } => Proto::Failed(Failed { reason: reason.clone() }),
    }
}

fn preparation_from_proto(preparation: pb::prepared::Preparation) -> Preparation {
    use pb::prepared::Preparation as Proto;
    match preparation {
        Proto::UnderWay(_) => Preparation::UnderWay,
        Proto::Done(_) => Preparation::Done,
        Proto::Failed(failed) => Preparation::Failed { reason: failed.reason },
    }
}

impl Wire for HostReport {
    type Proto = pb::HostReport;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        use pb::host_report::Report;
        let report = match self {
            Self::Inventory { info, boot, containers, drain } => Report::Inventory(pb::Inventory {
                info: Some(info.to_proto()?),
                boot: boot.0.clone(),
                containers: list_to_proto(CONTAINERS, containers, CONTAINERS_PER_REPORT_MAX)?,
                drain: drain.as_ref().map(Wire::to_proto).transpose()?,
            }),
            Self::Changed { containers } => Report::Changed(pb::Changed {
                containers: list_to_proto(CONTAINERS, containers, CONTAINERS_PER_REPORT_MAX)?,
            }),
            Self::Refused { container, why } => Report::Refused(pb::Refused {
                container: Some(container.to_proto()?),
                why: Some(refusal_to_proto(why)),
            }),
            Self::Prepared { container, preparation } => Report::Prepared(pb::Prepared {
                container: Some(container.to_proto()?),
                preparation: Some(preparation_to_proto(preparation)),
            }),
            Self::Drain(attestation) => Report::Drain(attestation.to_proto()?),
            Self::Alive => Report::Alive(pb::Alive {}),
        };
        Ok(pb::HostReport { report: Some(report) })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        use pb::host_report::Report;
        Ok(match proto.report.ok_or(WireError::UnknownKind { field: "report" })? {
            Report::Inventory(inventory) => Self::Inventory {
                info: required("inventory.info", inventory.info)?,
                boot: BootId(inventory.boot),
                containers: list_from_proto(CONTAINERS, inventory.containers, CONTAINERS_PER_REPORT_MAX)?,
                drain: inventory.drain.map(Wire::from_proto).transpose()?,
            },
            Report::Changed(changed) => Self::Changed {
                containers: list_from_proto(CONTAINERS, changed.containers, CONTAINERS_PER_REPORT_MAX)?,
            },
            Report::Refused(refused) => Self::Refused {
                container: required("refused.container", refused.container)?,
                why: refusal_from_proto(&refused.why.ok_or(WireError::UnknownKind { field: "refused.why" })?),
            },
            Report::Prepared(prepared) => Self::Prepared {
                container: required("prepared.container", prepared.container)?,
                preparation: preparation_from_proto(
                    prepared.preparation.ok_or(WireError::UnknownKind { field: "prepared.preparation" })?,
                ),
            },
            Report::Drain(attestation) => Self::Drain(Wire::from_proto(attestation)?),
            Report::Alive(_) => Self::Alive,
        })
    }
}
