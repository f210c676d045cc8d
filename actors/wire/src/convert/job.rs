//! Jobs and tasks as a region stores them.

use super::{
    Wire, from_json, list_from_proto, list_to_proto, one_of, optional, optional_to_proto, parsed, required, to_json,
};
use crate::{
    error::WireError,
    limits::{OLDER_MAX, PLACEMENTS_MAX, PORTS_MAX, SLOT_RANGES_MAX, TASKS_PER_VALUE_MAX},
    proto::records as pb,
};
use polder_core::job_shard::{
    JobRecord, LastExit, OlderTemplate, Origin, Outcome, Placement, Quarantine, StopOrdered, StopReason, TaskChunk,
    TaskRecord,
};
use polder_types::{Epoch, Generation, Slice, SliceVersion, SlotRange, Slots, Timestamp};

impl Wire for SlotRange {
    type Proto = pb::SlotRange;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        Ok(pb::SlotRange { first: self.first, count: self.count })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        Ok(Self { first: proto.first, count: proto.count })
    }
}

impl Wire for OlderTemplate {
    type Proto = pb::OlderTemplate;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        let template_json = to_json("job.older.template_json", &self.template)?;
        Ok(pb::OlderTemplate { generation: self.generation.0, template_json })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        let template = from_json("job.older.template_json", &proto.template_json)?;
        Ok(Self { generation: Generation(proto.generation), template })
    }
}

impl Wire for Quarantine {
    type Proto = pb::Quarantine;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        Ok(pb::Quarantine { since_ms: self.since.0, reason: self.reason.clone() })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        Ok(Self { since: Timestamp(proto.since_ms), reason: proto.reason })
    }
}

impl Wire for JobRecord {
    type Proto = pb::Job;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        let origin = match self.origin {
            Origin::Local => pb::Origin::Local,
            Origin::Federation => pb::Origin::Federation,
        };
        Ok(pb::Job {
            spec_json: to_json("job.spec_json", &self.slice.spec)?,
            slots: list_to_proto("number of ranges of slots", self.slice.slots.ranges(), SLOT_RANGES_MAX)?,
            slice_version: self.slice.version.0,
            stopped: self.slice.stopped,
            generation: self.generation.0,
            older: list_to_proto("number of older templates", &self.older, OLDER_MAX)?,
            origin: origin.into(),
            created_at_ms: self.created_at.0,
            changed_at_ms: self.changed_at.0,
            quarantine: optional_to_proto(self.quarantine.as_ref())?,
        })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        let ranges = list_from_proto("number of ranges of slots", proto.slots, SLOT_RANGES_MAX)?;
        let slots = Slots::from_ranges(ranges)
            .ok_or_else(|| WireError::bad("job.slots", "the ranges are not ascending, or touch"))?;
        let slice = Slice {
            spec: from_json("job.spec_json", &proto.spec_json)?,
            slots,
            version: SliceVersion(proto.slice_version),
            stopped: proto.stopped,
        };
        let origin = one_of("job.origin", proto.origin, |origin| match origin {
            pb::Origin::Unspecified => None,
            pb::Origin::Local => Some(Origin::Local),
            pb::Origin::Federation => Some(Origin::Federation),
        })?;
        Ok(Self {
            slice,
            generation: Generation(proto.generation),
            older: list_from_proto("number of older templates", proto.older, OLDER_MAX)?,
            origin,
            created_at: Timestamp(proto.created_at_ms),
            changed_at: Timestamp(proto.changed_at_ms),
            quarantine: optional(proto.quarantine)?,
        })
    }
}

impl Wire for TaskChunk {
    type Proto = pb::TaskChunk;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        Ok(pb::TaskChunk {
            job: self.job.to_string(),
            number: self.number,
            tasks: list_to_proto("number of tasks in a chunk", &self.tasks, TASKS_PER_VALUE_MAX)?,
        })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        Ok(Self {
            job: parsed("chunk.job", &proto.job)?,
            number: proto.number,
            tasks: list_from_proto("number of tasks in a chunk", proto.tasks, TASKS_PER_VALUE_MAX)?,
        })
    }
}

impl Wire for TaskRecord {
    type Proto = pb::Task;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        let outcome = match self.outcome {
            None => pb::Outcome::None,
            Some(Outcome::Completed) => pb::Outcome::Completed,
            Some(Outcome::Failed) => pb::Outcome::Failed,
        };
        Ok(pb::Task {
            index: self.index,
            epoch: self.epoch.0,
            want: self.want.0,
            current: optional_to_proto(self.current.as_ref())?,
            next: optional_to_proto(self.next.as_ref())?,
            lingering: list_to_proto("number of lingering containers", &self.lingering, PLACEMENTS_MAX)?,
            failures: self.failures,
            restarts: self.restarts,
            restart_at_ms: self.restart_at.map(|at| at.0),
            last_exit: optional_to_proto(self.last_exit.as_ref())?,
            outcome: outcome.into(),
        })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        let outcome = one_of("task.outcome", proto.outcome, |outcome| {
            Some(match outcome {
                pb::Outcome::None => None,
                pb::Outcome::Completed => Some(Outcome::Completed),
                pb::Outcome::Failed => Some(Outcome::Failed),
            })
        })?;
        Ok(Self {
            index: proto.index,
            epoch: Epoch(proto.epoch),
            want: Generation(proto.want),
            current: optional(proto.current)?,
            next: optional(proto.next)?,
            lingering: list_from_proto("number of lingering containers", proto.lingering, PLACEMENTS_MAX)?,
            failures: proto.failures,
            restarts: proto.restarts,
            restart_at: proto.restart_at_ms.map(Timestamp),
            last_exit: optional(proto.last_exit)?,
            outcome,
        })
    }
}

impl Wire for Placement {
    type Proto = pb::Placement;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        Ok(pb::Placement {
            epoch: self.epoch.0,
            host: self.host.to_string(),
            generation: self.generation.0,
            resources: Some(self.resources.to_proto()?),
            ports: list_to_proto("number of ports", &self.ports, PORTS_MAX)?,
            placed_at_ms: self.placed_at.0,
            stop: optional_to_proto(self.stop.as_ref())?,
        })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        Ok(Self {
            epoch: Epoch(proto.epoch),
            host: parsed("placement.host", &proto.host)?,
            generation: Generation(proto.generation),
            resources: required("placement.resources", proto.resources)?,
            ports: list_from_proto("number of ports", proto.ports, PORTS_MAX)?,
            placed_at: Timestamp(proto.placed_at_ms),
            stop: optional(proto.stop)?,
        })
    }
}

impl Wire for StopOrdered {
    type Proto = pb::StopOrdered;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        let why = match self.why {
            StopReason::JobStopped => pb::StopReason::JobStopped,
            StopReason::SlotRemoved => pb::StopReason::SlotRemoved,
            StopReason::Updated => pb::StopReason::Updated,
            StopReason::Drained => pb::StopReason::Drained,
            StopReason::Replaced => pb::StopReason::Replaced,
        };
        Ok(pb::StopOrdered { at_ms: self.at.0, why: why.into() })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        let why = one_of("placement.stop.why", proto.why, |why| match why {
            pb::StopReason::Unspecified => None,
            pb::StopReason::JobStopped => Some(StopReason::JobStopped),
            pb::StopReason::SlotRemoved => Some(StopReason::SlotRemoved),
            pb::StopReason::Updated => Some(StopReason::Updated),
            pb::StopReason::Drained => Some(StopReason::Drained),
            pb::StopReason::Replaced => Some(StopReason::Replaced),
        })?;
        Ok(Self { at: Timestamp(proto.at_ms), why })
    }
}

impl Wire for LastExit {
    type Proto = pb::LastExit;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        Ok(pb::LastExit {
            epoch: self.epoch.0,
            host: self.host.to_string(),
            status: Some(self.status.to_proto()?),
            at_ms: self.at.0,
        })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        Ok(Self {
            epoch: Epoch(proto.epoch),
            host: parsed("last_exit.host", &proto.host)?,
            status: required("last_exit.status", proto.status)?,
            at: Timestamp(proto.at_ms),
        })
    }
}
