//! What waits to be said to the region.

use polder_core::message::HostReport;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tokio::sync::mpsc;

use super::limits::REPORTS_QUEUED_MAX;

/// Takes reports from the machine, and knows whether there is a link.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    reports: mpsc::Sender<HostReport>,
    /// The session of the open link; zero if there is none.
    session: Arc<AtomicU64>,
}

impl Outbox {
    pub(super) fn new() -> (Self, mpsc::Receiver<HostReport>) {
        let (reports, queue) = mpsc::channel(REPORTS_QUEUED_MAX);
        (Self { reports, session: Arc::default() }, queue)
    }

    /// Queues a report, or drops it if the region does not take them: it is said again.
    pub(super) fn report(&self, report: HostReport) {
        if self.session().is_some() && self.reports.try_send(report).is_err() {
            tracing::warn!("the region does not take reports fast enough; one is dropped, and said again later");
        }
    }

    pub(super) fn session(&self) -> Option<u64> {
        Some(self.session.load(Ordering::Acquire)).filter(|session| *session != 0)
    }

    pub(super) fn opened(&self, session: u64) {
        self.session.store(session, Ordering::Release);
    }

    pub(super) fn closed(&self) {
        self.session.store(0, Ordering::Release);
    }
}
