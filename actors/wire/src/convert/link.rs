//! The opening of a link, and logs.

use super::{Wire, parsed};
use crate::{
    error::{WireError, within},
    limits::{LOG_CHUNK_BYTES_MAX, NODES_MAX},
    link::{Hello, LogCancel, LogChunk, LogRequest, Reject, ToHost, ToRegion, Welcome},
    proto::link as pb,
};
use polder_types::{BootId, Epoch, HomeId, Incarnation};

impl Wire for ToRegion {
    type Proto = pb::ToRegion;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        use pb::to_region::Body;
        let body = match self {
            Self::Hello(hello) => Body::Hello(hello.to_proto()?),
            Self::Report(report) => Body::Report(report.to_proto()?),
            Self::Log(chunk) => Body::Log(chunk.to_proto()?),
        };
        Ok(pb::ToRegion { body: Some(body) })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        use pb::to_region::Body;
        Ok(match proto.body.ok_or(WireError::UnknownKind { field: "message" })? {
            Body::Hello(hello) => Self::Hello(Wire::from_proto(hello)?),
            Body::Report(report) => Self::Report(Wire::from_proto(report)?),
            Body::Log(chunk) => Self::Log(Wire::from_proto(chunk)?),
        })
    }
}

impl Wire for ToHost {
    type Proto = pb::ToHost;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        use pb::to_host::Body;
        let body = match self {
            Self::Welcome(welcome) => Body::Welcome(welcome.to_proto()?),
            Self::Order(order) => Body::Order(order.to_proto()?),
            Self::Log(request) => Body::Log(request.to_proto()?),
            Self::LogCancel(cancel) => Body::LogCancel(pb::LogCancel { id: cancel.id }),
            Self::Reject(reject) => Body::Reject(pb::Reject { reason: reject.reason.clone() }),
        };
        Ok(pb::ToHost { body: Some(body) })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        use pb::to_host::Body;
        Ok(match proto.body.ok_or(WireError::UnknownKind { field: "message" })? {
            Body::Welcome(welcome) => Self::Welcome(Wire::from_proto(welcome)?),
            Body::Order(order) => Self::Order(Wire::from_proto(order)?),
            Body::Log(request) => Self::Log(Wire::from_proto(request)?),
            Body::LogCancel(cancel) => Self::LogCancel(LogCancel { id: cancel.id }),
            Body::Reject(reject) => Self::Reject(Reject { reason: reject.reason }),
        })
    }
}

impl Wire for Hello {
    type Proto = pb::Hello;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        Ok(pb::Hello {
            protocol: self.protocol,
            agent: self.agent.clone(),
            region: self.region.to_string(),
            host: self.host.to_string(),
            boot: self.boot.0.clone(),
            session: self.session,
            incarnation: self.incarnation.0,
            home: self.home.0,
        })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        Ok(Self {
            protocol: proto.protocol,
            agent: proto.agent,
            region: parsed("hello.region", &proto.region)?,
            host: parsed("hello.host", &proto.host)?,
            boot: BootId(proto.boot),
            session: proto.session,
            incarnation: Incarnation(proto.incarnation),
            home: HomeId(proto.home),
        })
    }
}

impl Wire for Welcome {
    type Proto = pb::Welcome;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        within("number of nodes in a welcome", self.nodes.len(), NODES_MAX)?;
        Ok(pb::Welcome {
            protocol: self.protocol,
            region: self.region.to_string(),
            nodes: self.nodes.clone(),
            incarnation: self.incarnation.0,
            node: self.node.clone(),
        })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        within("number of nodes in a welcome", proto.nodes.len(), NODES_MAX)?;
        Ok(Self {
            protocol: proto.protocol,
            region: parsed("welcome.region", &proto.region)?,
            incarnation: Incarnation(proto.incarnation),
            node: proto.node,
            nodes: proto.nodes,
        })
    }
}

impl Wire for LogRequest {
    type Proto = pb::LogRequest;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        Ok(pb::LogRequest {
            id: self.id,
            task: self.task.to_string(),
            epoch: self.epoch.map(|epoch| epoch.0),
            follow: self.follow,
            tail: self.tail,
        })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        Ok(Self {
            id: proto.id,
            task: parsed("log.task", &proto.task)?,
            epoch: proto.epoch.map(Epoch),
            follow: proto.follow,
            tail: proto.tail,
        })
    }
}

impl Wire for LogChunk {
    type Proto = pb::LogChunk;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        within("a piece of a log", self.bytes.len(), LOG_CHUNK_BYTES_MAX)?;
        Ok(pb::LogChunk {
            id: self.id,
            bytes: self.bytes.clone(),
            eof: self.eof,
            error: self.error.clone().unwrap_or_default(),
        })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        within("a piece of a log", proto.bytes.len(), LOG_CHUNK_BYTES_MAX)?;
        let error = Some(proto.error).filter(|error| !error.is_empty());
        Ok(Self { id: proto.id, bytes: proto.bytes, eof: proto.eof, error })
    }
}
