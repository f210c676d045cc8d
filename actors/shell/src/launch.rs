//! Starting the actor of a name, again and again.

use crate::{
    Clock, Handle, MailboxStatus, RestoreReason,
    driver::{Driver, Exit},
    inbox::{Inbox, Parking},
    panic::guard,
    role::Role,
    shell::{ActorOptions, Control, Shell},
    spawner::{SpawnError, Spawner},
    status::{ActorStatus, Probe},
};
use actix::prelude::Recipient;
use std::{fmt, sync::Arc};
use tokio::sync::mpsc;

/// Says that an actor ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) actor: u64,
    pub(crate) exit: Exit,
}

/// What stays when an actor ends: its inbox, its status, and how to make a new one.
pub(crate) struct Home<R: Role> {
    id: u64,
    parking: Parking<R::Machine>,
    handle: Handle<R::Machine>,
    make: Box<dyn Fn(Handle<R::Machine>) -> R + Send + Sync>,
    options: ActorOptions,
    clock: Arc<dyn Clock>,
    probe: Arc<Probe>,
    ended: mpsc::Sender<Ended>,
}

impl<R: Role> fmt::Debug for Home<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Home").field("handle", &self.handle).finish_non_exhaustive()
    }
}

/// The parts that don't depend on the role.
pub(crate) struct Identity {
    pub(crate) id: u64,
    pub(crate) options: ActorOptions,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) probe: Arc<Probe>,
    pub(crate) ended: mpsc::Sender<Ended>,
}

impl<R: Role> Home<R> {
    pub(crate) fn new(
        identity: Identity,
        inbox: Inbox<R::Machine>,
        handle: Handle<R::Machine>,
        make: impl Fn(Handle<R::Machine>) -> R + Send + Sync + 'static,
    ) -> Self {
        let Identity { id, options, clock, probe, ended } = identity;
        Self { id, parking: Parking::new(inbox), handle, make: Box::new(make), options, clock, probe, ended }
    }

    /// Takes the inbox back and tells the supervisor.
    pub(crate) fn ended(&self, inbox: Option<Inbox<R::Machine>>, exit: Exit) {
        if let Some(inbox) = inbox {
            self.parking.put(inbox);
        }
        if exit == Exit::Died {
            self.probe.error("its task was dropped under it".to_owned());
        }
        // An actor has at most one such notice waiting and the channel holds one for each actor, so it is full only
        // when nobody reads it any more.
        if self.ended.try_send(Ended { actor: self.id, exit }).is_err() {
            tracing::debug!(actor = self.probe.name(), "ended after its tree");
        }
    }
}

/// A [`Home`] whatever its role.
pub(crate) trait Launch: Send + Sync + fmt::Debug {
    /// Starts an actor; `None` while there is one.
    fn launch(
        self: Arc<Self>,
        spawner: &Spawner,
        reason: RestoreReason,
    ) -> Result<Option<Recipient<Control>>, SpawnError>;
    fn probe(&self) -> &Arc<Probe>;
    fn mailbox(&self) -> MailboxStatus;
    /// For good.
    fn close(&self);

    fn status(&self) -> ActorStatus {
        self.probe().status(self.mailbox())
    }
}

impl<R: Role> Launch for Home<R> {
    fn launch(
        self: Arc<Self>,
        spawner: &Spawner,
        reason: RestoreReason,
    ) -> Result<Option<Recipient<Control>>, SpawnError> {
        spawner.alive()?;
        let Some(inbox) = self.parking.take() else { return Ok(None) };
        let home = Arc::clone(&self);
        let start = move || {
            let role = guard(|| (home.make)(home.handle.clone()))
                .map_err(|panic| {
                    tracing::error!(actor = home.probe.name(), %panic, backtrace = panic.backtrace, "could not be made");
                    home.probe.error(format!("could not be made: {panic}"));
                })
                .ok();
            let (options, clock, probe) = (home.options, Arc::clone(&home.clock), Arc::clone(&home.probe));
            Shell::new(Driver::new(role, inbox, reason, options, clock, probe), home)
        };
        Ok(Some(spawner.start(start)))
    }

    fn probe(&self) -> &Arc<Probe> {
        &self.probe
    }

    fn mailbox(&self) -> MailboxStatus {
        self.handle.port().status()
    }

    fn close(&self) {
        self.parking.close();
    }
}
