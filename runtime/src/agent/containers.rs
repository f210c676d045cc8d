//! Carrying out what the machine wants done to containers.
//!
//! The machine asks for one thing after another; what takes long runs in tasks of its own, and its outcome comes back
//! as an event. The table here says at each moment what the runtime holds, so that a machine that was restored can be
//! told.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use polder_core::host::{Event, Found, FoundState};
use polder_shell::{Clock, Port};
use polder_types::{ContainerId, ContainerSpec, ExitStatus, Timestamp};
use tokio::{
    sync::{Notify, Semaphore, mpsc},
    time::timeout,
};

use super::{
    error::chain,
    launch::{Surroundings, launch_spec},
    limits::{FAILED_START_TIMEOUT, LAUNCHES_MAX, PREPARATIONS_MAX},
    logs::Logs,
    meter::StartPhases,
};
use crate::{
    image::{ImageReference, ImageStore, PreparedImage},
    shim::{Adopted, Exit, Runtime, RuntimeError, container_name},
};

/// What the runtime holds of a container.
#[derive(Clone, Debug)]
enum State {
    Launching { kill: Arc<Kill> },
    Running { pid: u32, started_at: Timestamp },
    Ended { status: ExitStatus, at: Timestamp },
}

/// That a container is to be killed, however far its launch is.
#[derive(Debug, Default)]
struct Kill {
    asked: std::sync::atomic::AtomicBool,
    tell: Notify,
}

impl Kill {
    fn ask(&self) {
        self.asked.store(true, std::sync::atomic::Ordering::Release);
        self.tell.notify_waiters();
        self.tell.notify_one();
    }

    fn is_asked(&self) -> bool {
        self.asked.load(std::sync::atomic::Ordering::Acquire)
    }
}

#[derive(Debug)]
struct Held {
    state: State,
    /// Keeps the image's layers until nothing of the container is left.
    image: Option<PreparedImage>,
}

/// All containers of this host. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Containers(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    runtime: Arc<dyn Runtime>,
    images: ImageStore,
    logs: Logs,
    around: Surroundings,
    events: Port<Event>,
    clock: Arc<dyn Clock>,
    launches: Semaphore,
    preparations: Semaphore,
    table: Mutex<BTreeMap<ContainerId, Held>>,
}

/// What containers are run with.
#[derive(Debug)]
pub(super) struct Means {
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) images: ImageStore,
    pub(super) logs: Logs,
    pub(super) around: Surroundings,
    pub(super) events: Port<Event>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Containers {
    /// Takes over what an earlier agent left. `recorded` is what should be there.
    pub(super) async fn adopt(means: Means, recorded: &[ContainerId]) -> Result<Self, RuntimeError> {
        let Means { runtime, images, logs, around, events, clock } = means;
        let mut table = BTreeMap::new();
        for adopted in runtime.adopt().await? {
            match adopted {
                Adopted::Running { id, pid, started_at, shim_alive } => {
                    tracing::info!(container = %id, pid, shim_alive, "found running");
                    table.insert(id, Held { state: State::Running { pid, started_at }, image: None });
                }
                Adopted::Ended(Exit { id, status, at, .. }) => {
                    tracing::info!(container = %id, %status, "found at its end");
                    table.insert(id, Held { state: State::Ended { status, at }, image: None });
                }
                Adopted::Cleaned { id, reason } => {
                    tracing::info!(container = id.as_ref().map(tracing::field::display), reason, "cleaned up");
                }
                Adopted::Unreadable { dir, reason } => {
                    let name = dir.file_name().unwrap_or_default();
                    let id = recorded.iter().find(|id| container_name(id).as_str() == name);
                    let container = id.map(tracing::field::display);
                    tracing::error!(container, dir = %dir.display(), reason, "what is left of a container can't be read");
                    if let Some(id) = id {
                        // It may run. So it is neither over nor begun again, until somebody has looked at it.
                        let state = State::Launching { kill: Arc::default() };
                        table.insert(id.clone(), Held { state, image: None });
                    }
                }
            }
        }
        let launches = Semaphore::new(LAUNCHES_MAX);
        let preparations = Semaphore::new(PREPARATIONS_MAX);
        let table = Mutex::new(table);
        Ok(Self(Arc::new(Inner { runtime, images, logs, around, events, clock, launches, preparations, table })))
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<ContainerId, Held>> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the runtime holds now.
    pub(super) fn found(&self) -> Vec<Found> {
        let found = |(id, held): (&ContainerId, &Held)| Found {
            id: id.clone(),
            state: match held.state.clone() {
                State::Launching { .. } => FoundState::Launching,
                State::Running { pid, started_at } => FoundState::Running { pid, started_at },
                State::Ended { status, at } => FoundState::Ended { status, at },
            },
        };
        self.table().iter().map(found).collect()
    }

    /// Whether a container can still write to its log.
    pub(super) fn is_live(&self, id: &ContainerId) -> bool {
        self.table().get(id).is_some_and(|held| !matches!(held.state, State::Ended { .. }))
    }

    /// All that can.
    pub(super) fn live(&self) -> Vec<ContainerId> {
        let live = |held: &Held| !matches!(held.state, State::Ended { .. });
        self.table().iter().filter(|(_, held)| live(held)).map(|(id, _)| id.clone()).collect()
    }

    /// Takes ends from the runtime for as long as it gives any.
    pub(super) async fn take_exits(self, mut exits: mpsc::Receiver<Exit>) {
        while let Some(Exit { id, status, at, .. }) = exits.recv().await {
            {
                let mut table = self.table();
                // One whose creation failed may be gone from the table already.
                let Some(held) = table.get_mut(&id) else { continue };
                held.state = State::Ended { status: status.clone(), at };
            }
            tracing::info!(container = %id, %status, "ended");
            self.tell(Event::Exited { id, status, at }).await;
        }
    }

    async fn tell(&self, event: Event) {
        if self.0.events.send(event).await.is_err() {
            tracing::debug!("the agent is ending: an event is left for the next one to find out");
        }
    }

    // ---- what the machine asks for ----

    /// Has an image ready for a container that is to come.
    pub(super) fn prepare(&self, id: ContainerId, image: String) {
        let this = self.clone();
        tokio::spawn(async move {
            let preparing = {
                let this = this.clone();
                tokio::spawn(async move {
                    // Never closed.
                    let _turn = this.0.preparations.acquire().await.ok();
                    this.image(&image).await.map(drop)
                })
            };
            let failed = preparing.await.unwrap_or_else(|error| Err(format!("the agent failed: {error}"))).err();
            if let Some(reason) = &failed {
                tracing::warn!(container = %id, reason, "the image of a container that is to come can't be prepared");
            }
            this.tell(Event::Prepared { id, failed }).await;
        });
    }

    async fn image(&self, reference: &str) -> Result<PreparedImage, String> {
        let reference: ImageReference =
            reference.parse().map_err(|error: crate::image::ReferenceError| chain(&error))?;
        self.0.images.prepare(&reference).await.map_err(|error| chain(&error))
    }

    /// Creates and starts a container.
    pub(super) fn launch(&self, id: ContainerId, spec: Arc<ContainerSpec>) {
        let kill = Arc::new(Kill::default());
        match self.table().entry(id.clone()) {
            Entry::Vacant(place) => {
                place.insert(Held { state: State::Launching { kill: Arc::clone(&kill) }, image: None });
            }
            // Asked for twice: the first asking goes on.
            Entry::Occupied(_) => return,
        }
        let this = self.clone();
        tokio::spawn(async move {
            // In a task of its own, so that even a panic is an answer.
            let launching = {
                let (this, id, kill) = (this.clone(), id.clone(), Arc::clone(&kill));
                tokio::spawn(async move { this.try_launch(&id, &spec, &kill).await })
            };
            match launching.await.unwrap_or_else(|error| Err(format!("the agent failed: {error}"))) {
                Ok((pid, started_at)) => {
                    let running = {
                        let mut table = this.table();
                        match table.get_mut(&id) {
                            // It may have ended in the meantime.
                            Some(held) if matches!(held.state, State::Launching { .. }) => {
                                held.state = State::Running { pid, started_at };
                                true
                            }
                            _ => false,
                        }
                    };
                    if running {
                        tracing::info!(container = %id, pid, "started");
                        this.tell(Event::Launched { id: id.clone(), pid, started_at }).await;
                    }
                    if kill.is_asked() {
                        this.kill(id);
                    }
                }
                Err(reason) => {
                    let known = this.table().remove(&id);
                    if known.is_some() {
                        this.tell(Event::LaunchFailed { id, reason }).await;
                    }
                }
            }
        });
    }

    async fn try_launch(
        &self,
        id: &ContainerId,
        spec: &ContainerSpec,
        kill: &Kill,
    ) -> Result<(u32, Timestamp), String> {
        let stopped = || "it was stopped before it started".to_owned();
        let mut phase = StartPhases::begin();
        // Never closed.
        let _turn = self.0.launches.acquire().await.ok();
        let preparing = async {
            let image = self.image(&spec.image).await?;
            let log = self.0.logs.begin(id).await.map_err(|error| format!("its log can't be written: {error}"))?;
            Ok::<_, String>((image, log))
        };
        let (image, log) = tokio::select! {
            () = kill.tell.notified() => return Err(stopped()),
            prepared = preparing => prepared?,
        };
        if kill.is_asked() {
            return Err(stopped());
        }
        phase.ended("image");
        let launch = launch_spec(&self.0.around, id, spec, &image, log);
        if let Some(held) = self.table().get_mut(id) {
            held.image = Some(image);
        }
        let created = self.0.runtime.create(launch).await.map_err(|error| chain(&error))?;
        phase.ended("shim");
        if kill.is_asked() {
            self.undo(id).await;
            return Err(stopped());
        }
        match self.0.runtime.start(id).await {
            Ok(()) => {
                phase.ended("start");
                phase.all();
                Ok((created.pid, self.0.clock.now()))
            }
            Err(error) => {
                self.undo(id).await;
                Err(chain(&error))
            }
        }
    }

    /// Makes sure that a container that was created and won't run is at its end, so that it can be removed.
    async fn undo(&self, id: &ContainerId) {
        if let Err(error) = self.0.runtime.kill(id).await {
            tracing::debug!(container = %id, error = chain(&error), "could not be killed; most likely it is gone");
        }
        if timeout(FAILED_START_TIMEOUT, self.0.runtime.wait(id)).await.is_err() {
            tracing::warn!(container = %id, "failed to start and does not end; it is removed when it does");
        }
    }

    /// Sends a signal to a container's first process.
    pub(super) fn signal(&self, id: ContainerId, signal: i32) {
        let this = self.clone();
        tokio::spawn(async move {
            match this.0.runtime.signal(&id, signal).await {
                Ok(()) | Err(RuntimeError::NotFound { .. } | RuntimeError::WrongState { .. }) => {}
                Err(error) => tracing::warn!(container = %id, signal, error = chain(&error), "could not be signalled"),
            }
        });
    }

    /// Kills all of a container's processes.
    pub(super) fn kill(&self, id: ContainerId) {
        if let Some(Held { state: State::Launching { kill }, .. }) = self.table().get(&id) {
            kill.ask();
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            match this.0.runtime.kill(&id).await {
                Ok(()) | Err(RuntimeError::NotFound { .. }) => {}
                Err(error) => tracing::warn!(container = %id, error = chain(&error), "could not be killed"),
            }
        });
    }

    /// Removes what a container left.
    pub(super) fn remove(&self, id: ContainerId) {
        let this = self.clone();
        tokio::spawn(async move {
            match this.0.runtime.remove(&id).await {
                Ok(()) | Err(RuntimeError::NotFound { .. }) => {
                    this.table().remove(&id);
                    this.0.logs.prune(&id.task).await;
                    this.tell(Event::Removed { id }).await;
                }
                Err(error) => {
                    let reason = chain(&error);
                    this.tell(Event::RemoveFailed { id, reason }).await;
                }
            }
        });
    }
}
