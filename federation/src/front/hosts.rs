//! Hosts of all regions, and which region a host is in.

use super::FederationApi;
use crate::link::RegionLink;
use polder_api::{
    Code, Problem,
    client::Client,
    dto::{HostList, HostView, Page, PartAge},
};
use polder_node::page;
use polder_types::{HostId, RegionId};
use std::sync::Arc;

impl FederationApi {
    /// Has every region tell its hosts; of those that don't answer, what they told last is left.
    async fn ask_hosts(&self) -> Vec<PartAge> {
        let answers =
            self.ask_regions(self.federation.links.values(), |client: Client| async move { client.all_hosts().await });
        let mut parts = Vec::new();
        for (link, answer) in answers.await {
            let reached = answer.is_ok();
            match answer {
                Ok(list) => link.remember_hosts(list.hosts, self.federation.now()),
                Err(error) => tracing::debug!(region = %link.region, %error, "its hosts are as it told them last"),
            }
            parts.push(PartAge { region: link.region.clone(), as_of: link.known_hosts().as_of, reached });
        }
        parts
    }

    pub(super) async fn host_list(&self, wanted: &Page) -> HostList {
        let parts = self.ask_hosts().await;
        let mut hosts: Vec<HostView> = Vec::new();
        for link in self.federation.links.values() {
            hosts.extend(link.known_hosts().hosts);
        }
        let key = |host: &HostView| format!("{}/{}", host.region, host.id);
        let (hosts, next) = page(hosts, wanted, key);
        HostList { hosts, parts, next }
    }

    /// The regions that have a host of this name, which may be written `REGION.HOST`; with the name it has there.
    fn holders(&self, name: &HostId) -> Vec<(Arc<RegionLink>, HostId)> {
        let mut holders = Vec::new();
        for link in self.federation.links.values() {
            let known = link.known_hosts();
            let short = name.as_str().strip_prefix(link.region.as_str()).and_then(|rest| rest.strip_prefix('.'));
            let is_it = |host: &&HostView| host.id == *name || short == Some(host.id.as_str());
            if let Some(host) = known.hosts.iter().find(is_it) {
                holders.push((Arc::clone(link), host.id.clone()));
            }
        }
        holders
    }

    /// The region that has a host, and the host's name there.
    pub(super) async fn find_host(&self, name: &HostId) -> Result<(Arc<RegionLink>, HostId), Problem> {
        let mut holders = self.holders(name);
        let mut unheard: Vec<RegionId> = Vec::new();
        if holders.len() != 1 {
            let parts = self.ask_hosts().await;
            unheard = parts.into_iter().filter(|part| !part.reached).map(|part| part.region).collect();
            holders = self.holders(name);
        }
        match (holders.pop(), holders.first()) {
            (Some(found), None) => Ok(found),
            (Some((one, host)), Some((other, _))) => {
                let detail = format!("regions {} and {} both have a host {name}", other.region, one.region);
                Err(Problem::new(Code::BadRequest, detail)
                    .with_hint(format!("name it with its region: `{}.{host}`", one.region)))
            }
            (None, _) if unheard.is_empty() => {
                Err(Problem::new(Code::HostNotFound, format!("no region has a host {name}"))
                    .with_hint("`polder hosts` lists those there are"))
            }
            (None, _) => {
                let names: Vec<&str> = unheard.iter().map(RegionId::as_str).collect();
                let detail =
                    format!("no region that is heard has a host {name}, and these are not heard: {}", names.join(", "));
                Err(Problem::new(Code::RegionUnreachable, detail))
            }
        }
    }
}
