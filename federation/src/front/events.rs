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
        let own = self.federation.events.recent();
        let of_regions = self.events_of_regions().await.into_iter().flat_map(|(_, events)| events);
        EventList { events: in_order(own.into_iter().chain(of_regions)) }
    }

    /// What each region has kept; nothing of one that does not answer.
    async fn events_of_regions(&self) -> Vec<(Arc<RegionLink>, Vec<EventView>)> {
        let links = self.federation.links.values();
        let answers = self.ask_regions(links, |client: Client| async move { client.events().await }).await;
        let events = |(link, answer): (&Arc<RegionLink>, Result<EventList, _>)| match answer {
            Ok(list) => (Arc::clone(link), list.events),
            Err(error) => {
                tracing::debug!(region = %link.region, %error, "its past events are missing");
                (Arc::clone(link), Vec::new())
            }
        };
        answers.into_iter().map(events).collect()
    }

    /// First what is kept, in order of time, then what comes. A region that did not answer at first comes in, with its
    /// past, when it does.
    pub(super) async fn event_stream(&self) -> Stream<EventView> {
        let (mut past, own) = self.federation.events.recent_and_after();
        let mut after = vec![own.boxed_local()];
        for (link, events) in self.events_of_regions().await {
            let mut seen = Seen::default();
            past.extend(events.into_iter().filter(|event| seen.is_new(event)));
            after.push(follow(link, seen).boxed_local());
        }
        stream::iter(in_order(past)).chain(stream::select_all(after)).boxed_local()
    }
}

/// Events of several nodes in order of time: the newest, as many as each of them keeps.
fn in_order(events: impl IntoIterator<Item = EventView>) -> Vec<EventView> {
    let mut events: Vec<EventView> = events.into_iter().collect();
    events.sort_by_key(|event| event.at);
    let surplus = events.len().saturating_sub(EVENTS_KEPT_MAX);
    events.drain(..surplus);
    events
}

/// A region's events that were not seen yet, for as long as somebody listens; after a break, from where it broke off.
fn follow(link: Arc<RegionLink>, seen: Seen) -> impl futures::Stream<Item = EventView> {
    let state = Follow { link, events: None, seen };
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
