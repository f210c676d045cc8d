//! What others may read of a host, and what must always hold.

use super::{
    FLOORS_MAX,
    container::{Container, Run},
    state::Host,
};
use crate::{machine::Violation, message::DrainAttestation};
use alloc::{format, string::String};
use polder_types::{BootId, ContainerId, ContainerSpec, ContainerStatus, HostInfo, TaskId, Timestamp};

/// One container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerView<'a> {
    /// How it is.
    pub status: ContainerStatus,
    /// What it is; none for one that was found and never accepted.
    pub spec: Option<&'a ContainerSpec>,
}

impl Host {
    /// What the host says of itself.
    #[must_use]
    pub const fn info(&self) -> &HostInfo {
        &self.config.info
    }

    /// Its boot.
    #[must_use]
    pub const fn boot(&self) -> &BootId {
        &self.config.boot
    }

    /// All containers, ended ones that were not forgotten included.
    pub fn containers(&self, now: Timestamp) -> impl Iterator<Item = ContainerView<'_>> {
        self.containers.iter().map(move |(id, container)| ContainerView {
            status: container.status(id, now),
            spec: container.record.as_ref().map(|record| &*record.spec),
        })
    }

    /// One container.
    #[must_use]
    pub fn container(&self, id: &ContainerId, now: Timestamp) -> Option<ContainerStatus> {
        self.containers.get(id).map(|container| container.status(id, now))
    }

    /// The newest container of a task that the host has.
    #[must_use]
    pub fn newest(&self, task: &TaskId) -> Option<&ContainerId> {
        self.of_task(task).next_back().map(|(id, _)| id)
    }

    /// How its drain goes, if one is open.
    #[must_use]
    pub fn drain(&self) -> Option<DrainAttestation> {
        self.attestation()
    }

    /// Whether the region can hear it.
    #[must_use]
    pub const fn is_linked(&self) -> bool {
        self.link.is_some()
    }
}

pub(super) fn check(host: &Host) -> Result<(), Violation> {
    let broken = |rule: &'static str, found: String| Err(Violation { rule, found });
    if host.floors.len() > FLOORS_MAX {
        return broken("floors are bounded", format!("{} of {FLOORS_MAX}", host.floors.len()));
    }
    let mut live: Option<&ContainerId> = None;
    for (id, container) in &host.containers {
        check_container(host, id, container)?;
        let recorded = container.record.as_ref().is_some_and(|record| record.ended.is_none());
        if recorded && matches!(container.run, Run::Launching | Run::Running) {
            if let Some(other) = live.filter(|other| other.task == id.task) {
                return broken("one live container of a task on a host", format!("{id} was begun beside {other}"));
            }
            live = Some(id);
        }
    }
    Ok(())
}

fn check_container(host: &Host, id: &ContainerId, container: &Container) -> Result<(), Violation> {
    let broken = |rule: &'static str| Err(Violation { rule, found: format!("{id}: {container:?}") });
    if host.adopted && container.run == Run::Unseen {
        return broken("everything was looked at");
    }
    let Some(record) = &container.record else {
        return if container.run == Run::Waiting { broken("only what was accepted is launched") } else { Ok(()) };
    };
    if record.id != *id {
        return broken("a record is where its id says");
    }
    match container.run {
        Run::Removing { .. } | Run::Gone if record.ended.is_none() => broken("what is gone has an end"),
        Run::Waiting if record.launched.is_some() || record.ended.is_some() => broken("what waits has not begun"),
        _ => Ok(()),
    }
}
