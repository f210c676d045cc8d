//! What the agent counts, and where it says so: a small HTTP server for `/metrics`, `/healthz` and `/readyz`.

mod http;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use polder_core::host::Host;
use polder_observability::{self as observability, ActorKind, Actors, Mailbox, Process};
use polder_shell::{Clock as _, Handle, SystemClock};
use polder_types::ContainerPhase;
use tokio::{sync::Mutex, time::timeout};

pub(super) use http::{listen, serve};

/// Gauges that are this new are shown again rather than asked for.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// How long the machine may take to answer a scrape. One that does not is shown as it was.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(3);

const CONTAINER_STATES: [&str; 5] = ["starting", "unready", "running", "stopping", "ended"];

/// Counts for one agent. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct HostMeter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    host: Handle<Host>,
    data: PathBuf,
    linked: AtomicBool,
    links: AtomicU32,
    refreshed: Mutex<Option<Instant>>,
}

impl HostMeter {
    pub(super) fn new(host: Handle<Host>, data: PathBuf) -> Self {
        Process::shared().introduce(env!("CARGO_PKG_VERSION"), "host");
        let shown = observability::Host::shared();
        shown.link_up.set([], 0.0);
        // Shown from the start, so that the first one is seen to happen.
        let _ = shown.link_reconnects.of([]);
        Self(Arc::new(Inner {
            host,
            data,
            linked: AtomicBool::new(false),
            links: AtomicU32::new(0),
            refreshed: Mutex::default(),
        }))
    }

    /// A link was opened.
    pub(super) fn linked(&self) {
        self.0.linked.store(true, Ordering::Relaxed);
        let shown = observability::Host::shared();
        shown.link_up.set([], 1.0);
        if self.0.links.fetch_add(1, Ordering::Relaxed) > 0 {
            shown.link_reconnects.count([]);
        }
    }

    /// It is over.
    pub(super) fn unlinked(&self) {
        self.0.linked.store(false, Ordering::Relaxed);
        observability::Host::shared().link_up.set([], 0.0);
    }

    /// Whether the agent can do its work; if not, why.
    fn ready(&self) -> Result<(), String> {
        let state = self.0.host.status().state;
        if !state.is_working() {
            return Err(format!("the host actor is {state}"));
        }
        if !self.0.linked.load(Ordering::Relaxed) {
            return Err("there is no link to the region; containers go on".to_owned());
        }
        Ok(())
    }

    /// All that was counted and measured.
    async fn encode(&self) -> String {
        self.refresh().await;
        observability::encode()
    }

    /// Brings the gauges up to date, unless they are.
    async fn refresh(&self) {
        let mut refreshed = self.0.refreshed.lock().await;
        if refreshed.is_some_and(|at| at.elapsed() < FRESH_FOR) {
            return;
        }
        let mailbox = self.0.host.port().status();
        let oldest = Duration::from_millis(mailbox.oldest_ms_max);
        Actors::shared().show_mailboxes([Mailbox { kind: ActorKind::Host, depth: mailbox.depth, oldest }]);
        self.show_containers().await;
        show_disk(&self.0.data);
        *refreshed = Some(Instant::now());
    }

    async fn show_containers(&self) {
        let now = SystemClock.now();
        let read = self.0.host.query(move |host| {
            let mut counts = [0_u32; CONTAINER_STATES.len()];
            for container in host.containers(now) {
                counts[state(&container.status.phase)] += 1;
            }
            (counts, host.drain().is_some())
        });
        let Ok(Ok((counts, draining))) = timeout(SCRAPE_TIMEOUT, read).await else { return };
        let shown = observability::Host::shared();
        for (state, count) in CONTAINER_STATES.into_iter().zip(counts) {
            shown.containers.set([state], f64::from(count));
        }
        shown.draining.set([], f64::from(u8::from(draining)));
    }
}

/// The place of a phase in [`CONTAINER_STATES`].
const fn state(phase: &ContainerPhase) -> usize {
    match phase {
        ContainerPhase::Preparing => 0,
        ContainerPhase::Running { ready: false, .. } => 1,
        ContainerPhase::Running { ready: true, .. } => 2,
        ContainerPhase::Stopping { .. } => 3,
        ContainerPhase::Ended { .. } => 4,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float; what is lost is less than a part in 2^52")]
fn show_disk(data: &Path) {
    match rustix::fs::statvfs(data) {
        Ok(disk) => {
            let shown = observability::Host::shared();
            shown.disk_size.set([], disk.f_blocks.saturating_mul(disk.f_frsize) as f64);
            shown.disk_free.set([], disk.f_bavail.saturating_mul(disk.f_frsize) as f64);
        }
        Err(error) => tracing::warn!(data = %data.display(), %error, "the size of the disk can't be read"),
    }
}

/// Times the phases of one start.
#[derive(Debug)]
pub(super) struct StartPhases {
    began: Instant,
    last: Instant,
}

impl StartPhases {
    pub(super) fn begin() -> Self {
        let now = Instant::now();
        Self { began: now, last: now }
    }

    /// A phase has ended, and the next begins.
    pub(super) fn ended(&mut self, phase: &'static str) {
        let now = Instant::now();
        observability::Host::shared().container_start_seconds.took([phase], now.duration_since(self.last));
        self.last = now;
    }

    /// The whole start is over.
    pub(super) fn all(&self) {
        observability::Host::shared().container_start_seconds.took(["total"], self.began.elapsed());
    }
}
