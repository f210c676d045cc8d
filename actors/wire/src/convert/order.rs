//! Orders of a region to a host.

use super::{Wire, from_json, required, small, to_json};
use crate::{error::WireError, proto::link as pb};
use polder_core::message::{HostOrder, OrderOwner};
use polder_types::{ContainerSpec, DrainVersion, OwnerEpoch, ShardId};
use std::sync::Arc;

const SPEC: &str = "start.spec_json";

impl Wire for OrderOwner {
    type Proto = pb::OrderOwner;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        Ok(pb::OrderOwner { shard: u32::from(self.shard.0), epoch: self.epoch.0 })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        Ok(Self { shard: ShardId(small("owner.shard", proto.shard)?), epoch: OwnerEpoch(proto.epoch) })
    }
}

impl Wire for HostOrder {
    type Proto = pb::HostOrder;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        use pb::host_order::Order;
        let order = match self {
            Self::Start { owner, container, spec } => Order::Start(pb::Start {
                owner: Some(owner.to_proto()?),
                container: Some(container.to_proto()?),
                spec_json: to_json(SPEC, &**spec)?,
            }),
            Self::Stop { owner, container } => {
                Order::Stop(pb::Stop { owner: Some(owner.to_proto()?), container: Some(container.to_proto()?) })
            }
            Self::Forget { owner, container } => {
                Order::Forget(pb::Forget { owner: Some(owner.to_proto()?), container: Some(container.to_proto()?) })
            }
            Self::Prepare { owner, container, image } => Order::Prepare(pb::Prepare {
                owner: Some(owner.to_proto()?),
                container: Some(container.to_proto()?),
                image: image.clone(),
            }),
            Self::Drain(order) => Order::Drain(order.to_proto()?),
            Self::ForceDrain { version } => Order::ForceDrain(pb::ForceDrain { version: version.0 }),
            Self::EndDrain { version } => Order::EndDrain(pb::EndDrain { version: version.0 }),
        };
        Ok(pb::HostOrder { order: Some(order) })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        use pb::host_order::Order;
        Ok(match proto.order.ok_or(WireError::UnknownKind { field: "order" })? {
            Order::Start(start) => Self::Start {
                owner: required("start.owner", start.owner)?,
                container: required("start.container", start.container)?,
                spec: Arc::new(from_json::<ContainerSpec>(SPEC, &start.spec_json)?),
            },
            Order::Stop(stop) => Self::Stop {
                owner: required("stop.owner", stop.owner)?,
                container: required("stop.container", stop.container)?,
            },
            Order::Forget(forget) => Self::Forget {
                owner: required("forget.owner", forget.owner)?,
                container: required("forget.container", forget.container)?,
            },
            Order::Prepare(prepare) => Self::Prepare {
                owner: required("prepare.owner", prepare.owner)?,
                container: required("prepare.container", prepare.container)?,
                image: prepare.image,
            },
            Order::Drain(order) => Self::Drain(Wire::from_proto(order)?),
            Order::ForceDrain(order) => Self::ForceDrain { version: DrainVersion(order.version) },
            Order::EndDrain(order) => Self::EndDrain { version: DrainVersion(order.version) },
        })
    }
}
