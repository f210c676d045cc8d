//! Threads for actors.

use crate::{
    panic::guard,
    role::Role,
    shell::{Control, Shell},
};
use actix::{Actor as _, Arbiter, ArbiterHandle, System, prelude::Recipient};
use std::{
    io,
    num::NonZeroUsize,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread::JoinHandle,
};

/// Why an actor could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The system has no thread to spare.
    #[error("the threads for actors could not be started")]
    Threads(#[source] io::Error),
    /// The tree was shut down.
    #[error("the actor tree was shut down: it starts no more actors")]
    Down,
    /// The name is in use.
    #[error("there is an actor `{name}` already; stop it first")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// There are too many actors.
    #[error("the actor tree is full: it holds {limit} actors at most")]
    TooMany {
        /// The limit.
        limit: usize,
    },
}

/// Where actors run. The threads are an actix system of their own, so that a tree can be made from anywhere: from a
/// plain tokio program, or within another actix system.
#[derive(Debug)]
pub(crate) enum Spawner {
    Threads {
        arbiters: Vec<ArbiterHandle>,
        next: AtomicUsize,
        system: System,
        thread: Mutex<Option<JoinHandle<()>>>,
    },
    /// On the thread that asks, which must be one of an actix system: for tests that pause tokio's clock.
    Here,
}

impl Spawner {
    pub(crate) fn threads(count: NonZeroUsize) -> Result<Self, SpawnError> {
        let (ready, when_ready) = mpsc::sync_channel(1);
        let run = move || {
            let runner = System::new();
            let arbiters: io::Result<Vec<Arbiter>> = (0..count.get()).map(|_| Arbiter::try_new()).collect();
            let handles = arbiters.as_ref().map(|all| all.iter().map(Arbiter::handle).collect::<Vec<_>>());
            let failed = handles.is_err();
            // If nobody waits for this any more, the program is ending.
            let _ = ready.send(
                handles
                    .map(|handles| (handles, System::current()))
                    .map_err(|error| io::Error::new(error.kind(), error.to_string())),
            );
            if failed {
                return;
            }
            if let Err(error) = runner.run() {
                tracing::error!(%error, "the actor system ended badly");
            }
            for arbiter in arbiters.into_iter().flatten() {
                arbiter.stop();
                if arbiter.join().is_err() {
                    tracing::error!("an actor thread panicked");
                }
            }
        };
        let thread = std::thread::Builder::new().name("actors".to_owned()).spawn(run).map_err(SpawnError::Threads)?;
        let (arbiters, system) = when_ready
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("the actor system did not come up")))
            .map_err(SpawnError::Threads)?;
        Ok(Self::Threads { arbiters, next: AtomicUsize::new(0), system, thread: Mutex::new(Some(thread)) })
    }

    pub(crate) fn alive(&self) -> Result<(), SpawnError> {
        match self {
            Self::Threads { arbiters, .. } if !arbiters.iter().all(ArbiterHandle::alive) => Err(SpawnError::Down),
            _ => Ok(()),
        }
    }

    fn next(arbiters: &[ArbiterHandle], next: &AtomicUsize) -> usize {
        next.fetch_add(1, Ordering::Relaxed) % arbiters.len().max(1)
    }

    /// Starts an actor on the next thread.
    pub(crate) fn start<R: Role>(&self, make: impl FnOnce() -> Shell<R> + Send + 'static) -> Recipient<Control> {
        match self {
            Self::Threads { arbiters, next, .. } => {
                let at = Self::next(arbiters, next);
                Shell::start_in_arbiter(&arbiters[at], move |_| make()).recipient()
            }
            Self::Here => Shell::create(move |_| make()).recipient(),
        }
    }

    /// Runs the supervisor.
    pub(crate) fn supervise(&self, work: impl Future<Output = ()> + Send + 'static) {
        match self {
            Self::Threads { arbiters, .. } => {
                arbiters[0].spawn(work);
            }
            Self::Here => {
                actix::spawn(work);
            }
        }
    }

    /// Ends the threads and waits for them, unless called on one of them.
    pub(crate) fn stop(&self) {
        let Self::Threads { system, thread, .. } = self else { return };
        system.stop();
        let thread = thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A tree may be dropped by one of its own actors; a thread can't wait for itself.
        let on_own_thread =
            guard(System::try_current).ok().flatten().is_some_and(|current| current.id() == system.id());
        if let Some(thread) = thread
            && !on_own_thread
            && thread.join().is_err()
        {
            tracing::error!("the actor system panicked");
        }
    }
}
