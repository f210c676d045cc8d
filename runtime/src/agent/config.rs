//! What an agent is told when it starts.

use std::{collections::BTreeMap, path::PathBuf, thread::available_parallelism};

use polder_types::{
    Bytes, Capacity, Cpu, DatacenterId, HostId, HostInfo, Label, PortRange, PowerDomainId, RackId, RegionId,
};

use super::{AgentError, link::websocket_url};

/// Ports that are handed out to tasks if nothing else is said.
const PORTS_DEFAULT: PortRange = PortRange { first: 20_000, last: 29_999 };
/// The part of a machine's memory that is kept for everything but tasks: one in so many.
const MEMORY_KEPT: u64 = 10;

/// What an agent is told when it starts.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// The host's name, unique in its region.
    pub id: HostId,
    /// The region.
    pub region: RegionId,
    /// Where it stands.
    pub datacenter: DatacenterId,
    /// Its power domain.
    pub power_domain: PowerDomainId,
    /// Its rack.
    pub rack: RackId,
    /// What else is known of it.
    pub labels: BTreeMap<Label, String>,
    /// What it offers to tasks; [`detect_capacity`] says what the machine has.
    pub capacity: Capacity,
    /// The address at which the ports of its tasks can be reached.
    pub address: String,
    /// Where everything is kept. One directory belongs to one host for ever.
    pub data_dir: PathBuf,
    /// Where unpacked images are kept; none means in the data directory. Agents of one machine may share one.
    pub image_dir: Option<PathBuf>,
    /// Base addresses of the region's nodes (`http://10.0.0.5:7001`); others are learnt from them.
    pub region_addresses: Vec<String>,
    /// Where the agent answers `/metrics`, `/healthz` and `/readyz`; none means nowhere.
    pub metrics: Option<std::net::SocketAddr>,
    /// The shim program; none means the one beside this program.
    pub shim: Option<PathBuf>,
}

impl HostConfig {
    pub(super) fn info(&self) -> HostInfo {
        HostInfo {
            id: self.id.clone(),
            datacenter: self.datacenter.clone(),
            power_domain: self.power_domain.clone(),
            rack: self.rack.clone(),
            capacity: self.capacity,
            labels: self.labels.clone(),
            address: self.address.clone(),
            agent: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    pub(super) fn check(&self) -> Result<(), AgentError> {
        let wrong = |what: String| Err(AgentError::Config { what });
        if self.region_addresses.is_empty() {
            let example = "give at least one, such as http://10.0.0.5:7001";
            return wrong(format!("no address of a region node is given: {example}"));
        }
        for address in &self.region_addresses {
            websocket_url(address)?;
        }
        let PortRange { first, last } = self.capacity.ports;
        if first > last || first == 0 {
            return wrong(format!("{first}-{last} is not a range of ports: the lower number comes first"));
        }
        if self.address.is_empty() {
            return wrong("the host's address is empty: give the one at which its tasks can be reached".to_owned());
        }
        Ok(())
    }
}

/// What this machine offers to tasks: all its processors, its memory but for a tenth, and ports 20000 to 29999.
#[must_use]
pub fn detect_capacity() -> Capacity {
    let cores = available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX));
    let memory = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_memory(&text)).unwrap_or(0);
    Capacity {
        cpu: Cpu::from_centi_cores(cores.saturating_mul(100)),
        memory: Bytes::new(memory - memory / MEMORY_KEPT),
        ports: PORTS_DEFAULT,
    }
}

fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_kernel() {
        assert_eq!(total_memory("MemTotal:        8000 kB\nMemFree: 1 kB\n"), Some(8_192_000));
        assert_eq!(total_memory("nonsense"), None);
        let found = detect_capacity();
        assert!(found.cpu.centi_cores() >= 100 && found.memory.get() > 0);
    }
}
