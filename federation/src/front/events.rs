//! Events of all regions and of the federation itself, in one list and one stream.

use super::FederationApi;
use crate::link::RegionLink;
use futures::{StreamExt as _, stream};
use polder_api::{
    client::{self, Client},
    dto::{EventList, EventView},
    server::Stream,
};
use polder_node::EVENTS_KEPT_MAX;
use polder_types::Timestamp;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// How long until the events of a region that broke off are asked for again.
const PAUSE: Duration = Duration::from_secs(2);

impl FederationApi {
    pub(super) async fn latest_events(&self) -> EventList {
        let mut events = self.federation.events.recent();
        let links = self.federation.links.values();
        for (link, answer) in self.ask_regions(links, |client: Client| async move { client.events().await }).await {
            match answer {
                Ok(list) => events.extend(list.events),
                Err(error) => tracing::debug!(region = %link.region, %error, "its events are missing in the list"),
            }
        }
        events.sort_by_key(|event| event.at);
        let surplus = events.len().saturating_sub(EVENTS_KEPT_MAX);
        events.drain(..surplus);
        EventList { events }
    }

    pub(super) fn event_stream(&self) -> Stream<EventView> {
        let own = self.federation.events.follow().boxed_local();
        let of_regions = self.federation.links.values().cloned().map(|link| follow(link).boxed_local());
        stream::select_all(std::iter::once(own).chain(of_regions)).boxed_local()
    }
}

/// A region's events, for as long as somebody listens; after a break, from where it broke off.
fn follow(link: Arc<RegionLink>) -> impl futures::Stream<Item = EventView> {
    let state = Follow { link, events: None, seen: Seen::default() };
    stream::unfold(state, |mut follow| async move { follow.next().await.map(|event| (event, follow)) })
}

struct Follow {
    link: Arc<RegionLink>,
    events: Option<client::Stream<EventView>>,
    seen: Seen,
}

impl Follow {
    async fn next(&mut self) -> Option<EventView> {
        loop {
            let Some(events) = &mut self.events else {
                match self.link.client().follow_events().await {
                    Ok(events) => self.events = Some(events),
                    Err(_) => tokio::time::sleep(PAUSE).await,
                }
                continue;
            };
            match events.next().await {
                Some(Ok(event)) if self.seen.is_new(&event) => return Some(event),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => {
                    self.events = None;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

/// What was passed on: a region begins each stream with what it has kept.
#[derive(Debug, Default)]
struct Seen {
    newest: Timestamp,
    /// Those of that very moment.
    at_newest: BTreeSet<(String, String)>,
}

impl Seen {
    fn is_new(&mut self, event: &EventView) -> bool {
        if event.at < self.newest {
            return false;
        }
        if event.at > self.newest {
            self.newest = event.at;
            self.at_newest.clear();
        }
        self.at_newest.insert((event.kind.clone(), event.subject.clone()))
    }
}
