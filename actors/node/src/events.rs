//! What happened lately at a node: a bounded list, and a stream for whoever watches.

use futures::{Stream, StreamExt as _, stream};
use polder_api::dto::{EventView, Level};
use polder_core::message::Notice;
use polder_types::{RegionId, Timestamp};
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::sync::broadcast::{self, error::RecvError};

/// Events that are kept for those who ask later.
pub const EVENTS_KEPT_MAX: usize = 2000;
/// Events that a slow watcher may lag behind before it misses some.
const WATCH_LAG_MAX: usize = 512;

/// The list.
#[derive(Debug)]
pub struct EventLog {
    region: Option<RegionId>,
    kept: Mutex<VecDeque<EventView>>,
    watchers: broadcast::Sender<EventView>,
}

impl EventLog {
    /// An empty list; of no region, for what concerns the federation as a whole.
    #[must_use]
    pub fn new(region: Option<RegionId>) -> Self {
        Self { region, kept: Mutex::default(), watchers: broadcast::Sender::new(WATCH_LAG_MAX) }
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<EventView>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what a machine had to say.
    pub fn add(&self, at: Timestamp, notice: Notice) {
        tracing::info!(kind = notice.kind, subject = %notice.subject, "{}", notice.message);
        let event = EventView {
            at,
            region: self.region.clone(),
            level: level(notice.kind),
            kind: notice.kind.to_owned(),
            subject: notice.subject,
            message: notice.message,
        };
        let mut kept = self.kept();
        if kept.len() == EVENTS_KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(event.clone());
        // Nobody watching is fine. Within the lock, so that watchers see the order of the list.
        let _ = self.watchers.send(event);
    }

    /// What is kept, newest last.
    #[must_use]
    pub fn recent(&self) -> Vec<EventView> {
        self.kept().iter().cloned().collect()
    }

    /// What is kept, and then what comes, each event once. A watcher that is too slow misses some.
    pub fn follow(&self) -> impl Stream<Item = EventView> + use<> {
        let (before, after) = self.recent_and_after();
        stream::iter(before).chain(after)
    }

    /// What is kept, newest last, and apart from it what comes after: no event is in both, or in neither.
    pub fn recent_and_after(&self) -> (Vec<EventView>, impl Stream<Item = EventView> + use<>) {
        let (before, watch): (Vec<_>, _) = {
            // Under one lock.
            let kept = self.kept();
            (kept.iter().cloned().collect(), self.watchers.subscribe())
        };
        let after = stream::unfold(watch, |mut watch| async move {
            loop {
                match watch.recv().await {
                    Ok(event) => return Some((event, watch)),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            }
        });
        (before, after)
    }
}

/// How much a kind of event matters: by the words that its name is made of, so that machines need not say it twice.
fn level(kind: &str) -> Level {
    const ERRORS: [&str; 5] = ["failed", "quarantined", "forced", "unattested", "violated"];
    const WARNINGS: [&str; 11] = [
        "silent",
        "lost",
        "replaced",
        "crash",
        "refused",
        "exited",
        "late",
        "unknown",
        "overtaken",
        "missing",
        "dropped",
    ];
    let has = |words: &[&str]| kind.split('_').any(|word| words.contains(&word));
    if has(&ERRORS) {
        Level::Error
    } else if has(&WARNINGS) {
        Level::Warning
    } else {
        Level::Info
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    fn add(log: &EventLog, number: usize) {
        let notice = Notice { kind: "task_started", subject: format!("a/b/{number}"), message: "it runs".to_owned() };
        log.add(Timestamp(number as u64), notice);
    }

    #[test]
    fn keeps_the_newest() {
        let log = EventLog::new(Some("eu".parse().unwrap()));
        for number in 0..EVENTS_KEPT_MAX + 3 {
            add(&log, number);
        }
        let kept = log.recent();
        assert_eq!((kept.len(), kept[0].subject.as_str()), (EVENTS_KEPT_MAX, "a/b/3"));
    }

    #[test]
    fn whoever_follows_gets_each_event_once_unless_too_slow() {
        let log = EventLog::new(None);
        (0..3).for_each(|number| add(&log, number));
        let mut follow = Box::pin(log.follow());
        let mut next = || follow.next().now_or_never().flatten().map(|event| event.at.0);
        (3..5).for_each(|number| add(&log, number));
        assert_eq!((0..5).map(|_| next()).collect::<Vec<_>>(), (0..5).map(Some).collect::<Vec<_>>());
        assert_eq!(next(), None);
        (5..5 + WATCH_LAG_MAX + 2).for_each(|number| add(&log, number));
        assert_eq!(next(), Some(7), "the oldest are missed, and what follows is not");
    }

    #[test]
    fn levels_follow_from_names() {
        assert_eq!(level("task_started"), Level::Info);
        assert_eq!(level("host_silent"), Level::Warning);
        assert_eq!(level("slice_overtaken"), Level::Warning);
        assert_eq!(level("drain_forced"), Level::Error);
    }
}
