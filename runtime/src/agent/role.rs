//! What the host machine's effects mean here.

use std::sync::Arc;

use polder_core::{
    host::{Effect, Event, Host, HostConfig},
    message::Notice,
};
use polder_shell::{ActorKind, Handle, Journal, RestoreError, Restored, Restoring, Role};
use polder_types::{ContainerId, Timestamp};

use super::{AgentError, containers::Containers, disk::Disk, error::chain, outbox::Outbox, probe};

/// What the machine works with.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) config: HostConfig,
    pub(super) disk: Disk,
    pub(super) containers: Containers,
    pub(super) outbox: Outbox,
    /// Where work is done: not on the actor's thread.
    pub(super) workers: tokio::runtime::Handle,
}

#[derive(Debug)]
pub(super) struct HostRole {
    parts: Parts,
    handle: Handle<Host>,
}

impl HostRole {
    pub(super) const fn new(parts: Parts, handle: Handle<Host>) -> Self {
        Self { parts, handle }
    }

    /// Tells a machine that was just restored what there is.
    fn introduce(&self) {
        let (containers, outbox) = (self.parts.containers.clone(), self.parts.outbox.clone());
        let events = self.handle.port().clone();
        self.parts.workers.spawn(async move {
            let adopted = Event::Adopted { found: containers.found() };
            let mut sent = events.send(adopted).await.is_ok();
            if let Some(session) = outbox.session() {
                sent &= events.send(Event::LinkOpened { session }).await.is_ok();
            }
            if !sent {
                tracing::debug!("the agent is ending");
            }
        });
    }
}

impl Role for HostRole {
    const KIND: ActorKind = ActorKind::Host;

    type Machine = Host;
    // A container is not quarantined by itself: leaving it out would mean not knowing a process that runs.
    type Key = ContainerId;

    async fn restore(&mut self, restoring: Restoring<'_, ContainerId>) -> Result<Restored<Host>, RestoreError> {
        let records = self.parts.disk.load().await.map_err(|error| match error {
            AgentError::Stored { .. } => RestoreError::Broken { what: chain(&error) },
            other => RestoreError::Unavailable { what: chain(&other) },
        })?;
        self.introduce();
        Ok(Host::restore(self.parts.config.clone(), records, restoring.now))
    }

    fn journal(&self) -> Arc<dyn Journal<polder_core::host::Delta>> {
        Arc::new(self.parts.disk.clone())
    }

    fn execute(&mut self, _now: Timestamp, effect: Effect) {
        let _workers = self.parts.workers.enter();
        let containers = &self.parts.containers;
        match effect {
            Effect::Launch { id, spec } => containers.launch(id, spec),
            Effect::Signal { id, signal } => containers.signal(id, signal),
            Effect::Kill { id } => containers.kill(id),
            Effect::Remove { id } => containers.remove(id),
            Effect::Prepare { id, image } => containers.prepare(id, image),
            Effect::Probe { id, probe } => {
                let events = self.handle.port().clone();
                tokio::spawn(async move {
                    let ok = probe::ask(&probe).await;
                    // Asked for again if it gets lost.
                    let _ = events.send(Event::Probed { id, ok }).await;
                });
            }
            Effect::Report(report) => self.parts.outbox.report(report),
            Effect::Notice(Notice { kind, subject, message }) => tracing::info!(kind, subject, "{message}"),
        }
    }
}
