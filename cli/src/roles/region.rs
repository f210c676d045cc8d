//! `polder region`: one node of a region's control plane.

use super::{StoreArgs, addresses, shutdown};
use crate::failure::Failure;
use polder_region::RegionConfig;
use polder_types::{Millis, Name, RegionId};
use std::net::SocketAddr;

/// Runs one node of a region's control plane
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  polder region --region eu --data /var/lib/polder/region\n  polder region --region eu --node eu-2 --listen 0.0.0.0:7001 --advertise http://10.0.0.5:7001 --etcd http://10.0.0.1:2379\n\nStopping or killing it stops no container."
)]
pub(crate) struct RegionArgs {
    /// The region's name
    #[arg(long)]
    region: RegionId,
    /// This node's name, unique in the region
    #[arg(long, default_value = "node-1")]
    node: Name,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:7001")]
    listen: SocketAddr,
    /// Address at which hosts and the federation reach this node [default: http://LISTEN]
    #[arg(long, value_name = "URL")]
    advertise: Option<String>,
    #[command(flatten)]
    store: StoreArgs,
    /// Number of job shards; only counts when the region is created
    #[arg(long, default_value_t = polder_region::SHARDS_DEFAULT, value_parser = clap::value_parser!(u16).range(1..=i64::from(polder_region::SHARDS_MAX.0)))]
    shards: u16,
    /// How long a host may be silent before it counts as unknown
    #[arg(long, default_value = "10s", value_name = "TIME")]
    silent_after: Millis,
    /// How long this node may lose sight of the store before another takes over
    #[arg(long, default_value = "10s", value_name = "TIME")]
    lease: Millis,
    /// The federation's address; quotas are then set there
    #[arg(long, value_name = "URL")]
    federation: Option<String>,
}

impl RegionArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let config = RegionConfig {
            store: self.store.resolve(&format!("/polder/{}/", self.region))?,
            advertise: addresses::advertise(self.advertise, self.listen)?,
            region: self.region,
            node: self.node,
            listen: self.listen,
            shards: self.shards,
            silent_after: self.silent_after,
            lease_ttl: self.lease.to_duration(),
            federation: self.federation,
        };
        super::in_actix(
            async move { polder_region::run(config, shutdown()).await.map_err(|error| super::chain(&error)) },
        )
    }
}
