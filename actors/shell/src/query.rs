//! Reading a machine from outside, between its steps.

use crate::{
    ActorStatus, Port,
    panic::guard,
    status::{ActorState, Probe},
};
use std::{fmt, sync::Arc};
use tokio::sync::{mpsc, oneshot};

/// Queries that wait for one actor at most.
pub(crate) const QUERIES_WAITING_MAX: usize = 64;

pub(crate) type Query<M> = Box<dyn FnOnce(&M) + Send>;

/// Why a query has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The actor was stopped for good.
    #[error("the actor was stopped")]
    Closed,
    /// The query panicked. The machine was only read, and lives on.
    #[error("the query panicked; the log says where")]
    Panicked,
}

/// All that one can do with a running actor from outside.
pub struct Handle<M: polder_core::machine::Machine> {
    port: Port<M::Event>,
    queries: mpsc::Sender<Query<M>>,
    probe: Arc<Probe>,
}

impl<M: polder_core::machine::Machine> Clone for Handle<M> {
    fn clone(&self) -> Self {
        Self { port: self.port.clone(), queries: self.queries.clone(), probe: Arc::clone(&self.probe) }
    }
}

impl<M: polder_core::machine::Machine> fmt::Debug for Handle<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("name", &self.probe.name()).field("port", &self.port).finish()
    }
}

impl<M: polder_core::machine::Machine> Handle<M> {
    pub(crate) fn new(port: Port<M::Event>, queries: mpsc::Sender<Query<M>>, probe: Arc<Probe>) -> Self {
        Self { port, queries, probe }
    }

    /// The actor's name, with its parents': `region/shard-3`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.probe.name()
    }

    /// Where to send events.
    #[must_use]
    pub const fn port(&self) -> &Port<M::Event> {
        &self.port
    }

    /// How the actor is.
    #[must_use]
    pub fn status(&self) -> ActorStatus {
        self.probe.status(self.port.status())
    }

    /// Waits until the actor handles events, or never will again; says which.
    pub async fn ready(&self) -> bool {
        let settled = |state: &ActorState| state.is_working() || state.is_over();
        self.probe.wait_for(settled).await.is_working()
    }

    /// Runs `read` on the machine between two steps. It waits while the machine is being restored, and while many
    /// other queries wait. Keep it short: copy out what you need.
    ///
    /// # Errors
    /// When the actor was stopped, or `read` panics.
    pub async fn query<T: Send + 'static>(&self, read: impl FnOnce(&M) -> T + Send + 'static) -> Result<T, QueryError> {
        let (answer, answered) = oneshot::channel();
        let name = self.name().to_owned();
        let query: Query<M> = Box::new(move |machine| {
            let result = guard(|| read(machine)).map_err(|panic| {
                tracing::error!(actor = name, %panic, backtrace = panic.backtrace, "a query panicked");
                QueryError::Panicked
            });
            // Whoever asked may have gone.
            let _ = answer.send(result);
        });
        self.queries.send(query).await.map_err(|_| QueryError::Closed)?;
        answered.await.unwrap_or(Err(QueryError::Closed))
    }
}
