//! What happened lately in the federation itself: a bounded list, and a stream for whoever watches.

use polder_api::dto::{EventView, Level};
use polder_core::message::Notice;
use polder_types::Timestamp;
use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};
use tokio::sync::broadcast;

/// Events that are kept for those who ask later.
pub(crate) const EVENTS_KEPT_MAX: usize = 2000;
/// Events that a slow watcher may lag behind before it misses some.
const WATCH_LAG_MAX: usize = 512;

/// The list.
#[derive(Debug)]
pub(crate) struct EventLog {
    kept: Mutex<VecDeque<EventView>>,
    watchers: broadcast::Sender<EventView>,
}

impl EventLog {
    /// An empty list.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self { kept: Mutex::default(), watchers: broadcast::Sender::new(WATCH_LAG_MAX) }
    }

    /// Adds what a machine had to say.
    pub(crate) fn add(&self, at: Timestamp, notice: Notice) {
        tracing::info!(kind = notice.kind, subject = %notice.subject, "{}", notice.message);
        let event = EventView {
            at,
            region: None,
            level: level(notice.kind),
            kind: notice.kind.to_owned(),
            subject: notice.subject,
            message: notice.message,
        };
        {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() == EVENTS_KEPT_MAX {
                kept.pop_front();
            }
            kept.push_back(event.clone());
        }
        // Nobody watching is fine.
        let _ = self.watchers.send(event);
    }

    /// What is kept, newest last.
    #[must_use]
    pub(crate) fn recent(&self) -> Vec<EventView> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// What comes from now on.
    #[must_use]
    pub(crate) fn watch(&self) -> broadcast::Receiver<EventView> {
        self.watchers.subscribe()
    }
}

/// How much a kind of event matters: by the words that its name is made of, so that machines need not say it twice.
fn level(kind: &str) -> Level {
    const ERRORS: [&str; 2] = ["failed", "quarantined"];
    const WARNINGS: [&str; 3] = ["silent", "refused", "overtaken"];
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

    #[test]
    fn keeps_the_newest_and_streams_them() {
        let log = EventLog::new();
        let mut watch = log.watch();
        for number in 0..EVENTS_KEPT_MAX + 3 {
            let notice =
                Notice { kind: "slice_refused", subject: format!("a/b/{number}"), message: "it runs".to_owned() };
            log.add(Timestamp(number as u64), notice);
        }
        let kept = log.recent();
        assert_eq!((kept.len(), kept[0].subject.as_str()), (EVENTS_KEPT_MAX, "a/b/3"));
        assert!(matches!(watch.try_recv(), Err(broadcast::error::TryRecvError::Lagged(_))));
    }

    #[test]
    fn levels_follow_from_names() {
        assert_eq!(level("region_heard"), Level::Info);
        assert_eq!(level("region_silent"), Level::Warning);
        assert_eq!(level("step_failed"), Level::Error);
    }
}
