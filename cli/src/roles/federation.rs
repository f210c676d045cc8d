//! `polder federation`: the global service.

use super::{StoreArgs, addresses, shutdown};
use crate::failure::Failure;
use polder_federation::{FederationConfig, RegionAddress};
use polder_types::{Millis, Name, RegionId};
use std::net::SocketAddr;

/// Runs one node of the global service
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  polder federation --data /var/lib/polder/federation --region eu=http://10.0.0.5:7001 --region us=http://10.1.0.5:7001\n\nRegions and their containers go on without it."
)]
pub(crate) struct FederationArgs {
    /// The federation's name, to know its store by
    #[arg(long, default_value = "global")]
    name: Name,
    /// This node's name, unique in the federation
    #[arg(long, default_value = "node-1")]
    node: Name,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:7000")]
    listen: SocketAddr,
    /// Address at which others reach this node [default: http://LISTEN]
    #[arg(long, value_name = "URL")]
    advertise: Option<String>,
    /// A region and the address of one of its nodes; once for each node
    #[arg(long = "region", value_name = "NAME=URL", value_parser = region, required = true)]
    regions: Vec<(RegionId, String)>,
    #[command(flatten)]
    store: StoreArgs,
    /// How long this node may lose sight of the store before another takes over
    #[arg(long, default_value = "10s", value_name = "TIME")]
    lease: Millis,
    /// How long a region may be silent before it counts as unknown
    #[arg(long, default_value = "5s", value_name = "TIME")]
    silent_after: Millis,
}

fn region(text: &str) -> Result<(RegionId, String), String> {
    let (name, url) = text.split_once('=').ok_or("expected NAME=URL, such as eu=http://10.0.0.5:7001")?;
    let name = name.parse().map_err(|error: polder_types::NameError| error.to_string())?;
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(format!("`{url}` is not an address: write it as http://HOST:PORT"));
    }
    Ok((name, url.trim_end_matches('/').to_owned()))
}

impl FederationArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let store = self.store.resolve("/polder/federation/")?;
        let mut regions: Vec<RegionAddress> = Vec::new();
        for (region, address) in self.regions {
            match regions.iter_mut().find(|known| known.region == region) {
                Some(known) => known.addresses.push(address),
                None => regions.push(RegionAddress { region, addresses: vec![address] }),
            }
        }
        let config = FederationConfig {
            federation: self.name,
            node: self.node,
            listen: self.listen,
            advertise: addresses::advertise(self.advertise, self.listen)?,
            regions,
            lease_ttl: self.lease.to_duration(),
            silent_after: self.silent_after,
        };
        super::in_actix(async move {
            let store = polder_region::open_store(&store).await.map_err(|error| super::chain(&error))?;
            polder_federation::run(config, store, shutdown()).await.map_err(|error| super::chain(&error))
        })
    }
}
