//! Ids, units and specs: the nouns of Polder.
//!
//! Everything here is plain data with a meaning in its type. Constructors parse; a value that exists is
//! valid. The crate is `no_std`, knows no clock, no network and no store, and depends on nothing of Polder's.
#![no_std]
#![deny(missing_docs)]

extern crate alloc;

mod container;
mod host;
mod ids;
mod job;
mod names;
mod quota;
mod units;

pub use container::{ContainerPhase, ContainerSpec, ContainerStatus, ExitStatus, PortBinding};
pub use host::{Capacity, HostInfo, PortRange, Usage};
pub use ids::{
    BootId, ContainerId, DrainVersion, Epoch, Generation, HomeId, Incarnation, OwnerEpoch, ShardId, SliceVersion,
    TaskId,
};
pub use job::{
    Constraint, ConstraintOp, Entrypoint, HealthCheck, JobKind, JobSpec, PortSpec, Priority, RegionSplit, Regions,
    Resources, RestartPolicy, RestartSpec, Slice, SlotRange, Slots, Spread, StopSignal, StopSpec, UpdateSpec,
};
pub use names::{
    ACCOUNT_BYTES_MAX, AccountId, DatacenterId, HostId, JobId, Label, NAME_BYTES_MAX, Name, NameError, PowerDomainId,
    RackId, RegionId,
};
pub use quota::{Allotment, Amounts, Quota};
pub use units::{Bytes, Cpu, Millis, Timestamp, UnitError};
