//! Values that both the link and the store use.

use super::{Wire, parsed, required, small};
use crate::{error::WireError, proto::common as pb};
use polder_core::message::DrainOrder;
use polder_types::{
    Bytes, Capacity, ContainerId, Cpu, DrainVersion, Epoch, ExitStatus, HostInfo, PortBinding, PortRange, Resources,
    TaskId, Timestamp,
};

impl Wire for ContainerId {
    type Proto = pb::Container;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        Ok(pb::Container { job: self.task.job.to_string(), index: self.task.index, epoch: self.epoch.0 })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        let job = parsed("container.job", &proto.job)?;
        Ok(Self { task: TaskId { job, index: proto.index }, epoch: Epoch(proto.epoch) })
    }
}

impl Wire for PortBinding {
    type Proto = pb::PortBinding;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        Ok(pb::PortBinding { name: self.name.to_string(), port: u32::from(self.port) })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        Ok(Self { name: parsed("port.name", &proto.name)?, port: small("port.port", proto.port)? })
    }
}

impl Wire for Resources {
    type Proto = pb::Resources;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        Ok(pb::Resources { cpu_centi_cores: self.cpu.centi_cores(), memory_bytes: self.memory.get(), pids: self.pids })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        Ok(Self {
            cpu: Cpu::from_centi_cores(proto.cpu_centi_cores),
            memory: Bytes::new(proto.memory_bytes),
            pids: proto.pids,
        })
    }
}

impl Wire for ExitStatus {
    type Proto = pb::ExitStatus;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        use pb::exit_status::{Code, How, Signal};
        let how = match self {
            Self::Code { code } => How::Code(Code { code: *code }),
            Self::Signal { signal, oom } => How::Signal(Signal { signal: *signal, oom: *oom }),
            Self::NotStarted { reason } => How::NotStarted(reason.clone()),
            Self::Unknown { reason } => How::Unknown(reason.clone()),
        };
        Ok(pb::ExitStatus { how: Some(how) })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        use pb::exit_status::How;
        Ok(match proto.how {
            Some(How::Code(code)) => Self::Code { code: code.code },
            Some(How::Signal(signal)) => Self::Signal { signal: signal.signal, oom: signal.oom },
            Some(How::NotStarted(reason)) => Self::NotStarted { reason },
            Some(How::Unknown(reason)) => Self::Unknown { reason },
            // The end of a container must not be lost because a newer host knows one more way to end.
            None => Self::Unknown { reason: "the host gave a kind of end that this version does not know".to_owned() },
        })
    }
}

impl Wire for Capacity {
    type Proto = pb::Capacity;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        Ok(pb::Capacity {
            cpu_centi_cores: self.cpu.centi_cores(),
            memory_bytes: self.memory.get(),
            port_first: u32::from(self.ports.first),
            port_last: u32::from(self.ports.last),
        })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        let first = small("capacity.port_first", proto.port_first)?;
        let last = small("capacity.port_last", proto.port_last)?;
        Ok(Self {
            cpu: Cpu::from_centi_cores(proto.cpu_centi_cores),
            memory: Bytes::new(proto.memory_bytes),
            ports: PortRange { first, last },
        })
    }
}

impl Wire for HostInfo {
    type Proto = pb::HostInfo;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        Ok(pb::HostInfo {
            id: self.id.to_string(),
            datacenter: self.datacenter.to_string(),
            power_domain: self.power_domain.to_string(),
            rack: self.rack.to_string(),
            capacity: Some(self.capacity.to_proto()?),
            labels: self.labels.iter().map(|(label, value)| (label.to_string(), value.clone())).collect(),
            address: self.address.clone(),
            agent: self.agent.clone(),
        })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        let label = |(label, value): (String, String)| Ok((parsed("host.labels", &label)?, value));
        Ok(Self {
            id: parsed("host.id", &proto.id)?,
            datacenter: parsed("host.datacenter", &proto.datacenter)?,
            power_domain: parsed("host.power_domain", &proto.power_domain)?,
            rack: parsed("host.rack", &proto.rack)?,
            capacity: required("host.capacity", proto.capacity)?,
            labels: proto.labels.into_iter().map(label).collect::<Result<_, WireError>>()?,
            address: proto.address,
            agent: proto.agent,
        })
    }
}

impl Wire for DrainOrder {
    type Proto = pb::DrainOrder;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        Ok(pb::DrainOrder { version: self.version.0, deadline_ms: self.deadline.0 })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        Ok(Self { version: DrainVersion(proto.version), deadline: Timestamp(proto.deadline_ms) })
    }
}
