//! Allotments as a region stores them.

use super::{Wire, parsed, required};
use crate::{error::WireError, proto::records as pb};
use polder_types::{Allotment, Amounts, Bytes, Cpu};

impl Wire for Amounts {
    type Proto = pb::Amounts;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        Ok(pb::Amounts { cpu_centi_cores: self.cpu.centi_cores(), memory_bytes: self.memory.get(), tasks: self.tasks })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        Ok(Self {
            cpu: Cpu::from_centi_cores(proto.cpu_centi_cores),
            memory: Bytes::new(proto.memory_bytes),
            tasks: proto.tasks,
        })
    }
}

impl Wire for Allotment {
    type Proto = pb::Allotment;

    fn to_proto(&self) -> Result<Self::Proto, WireError> {
        Ok(pb::Allotment {
            account: self.account.to_string(),
            version: self.version,
            limit: Some(self.limit.to_proto()?),
        })
    }

    fn from_proto(proto: Self::Proto) -> Result<Self, WireError> {
        Ok(Self {
            account: parsed("allotment.account", &proto.account)?,
            version: proto.version,
            limit: required("allotment.limit", proto.limit)?,
        })
    }
}
