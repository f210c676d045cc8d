//! What rules a host out for a task.

use crate::message::{HostCondition, RejectReason, TaskShape};
use alloc::{collections::BTreeMap, vec::Vec};
use polder_types::{Capacity, Constraint, ConstraintOp, HostInfo, PortBinding, PortSpec, Resources, Usage};

/// What rules a host out whatever else is on it.
pub(super) fn closed(info: &HostInfo, condition: &HostCondition, shape: &TaskShape) -> Option<RejectReason> {
    condition.closed().or_else(|| {
        let fits = shape.constraints.iter().all(|constraint| matches(info, constraint));
        (!fits).then_some(RejectReason::Constraint)
    })
}

/// Whether a host's labels are as a constraint wants them.
fn matches(info: &HostInfo, constraint: &Constraint) -> bool {
    let value = match constraint.label.as_str() {
        "host" => Some(info.id.as_str()),
        "rack" => Some(info.rack.as_str()),
        "power_domain" => Some(info.power_domain.as_str()),
        "datacenter" => Some(info.datacenter.as_str()),
        _ => info.labels.get(&constraint.label).map(|value| value.as_str()),
    };
    let listed = value.is_some_and(|value| constraint.values.iter().any(|listed| listed == value));
    match constraint.op {
        ConstraintOp::In => listed,
        ConstraintOp::NotIn => !listed,
    }
}

/// Whether there is room for one more task.
pub(super) fn room(capacity: &Capacity, used: &Usage, task: &Resources) -> Option<RejectReason> {
    if used.cpu + task.cpu > capacity.cpu {
        return Some(RejectReason::Cpu);
    }
    (used.memory + task.memory > capacity.memory).then_some(RejectReason::Memory)
}

/// The ports of a host as one search sees them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports<'a> {
    /// What the host offers.
    pub(super) capacity: &'a Capacity,
    /// What is charged.
    pub(super) charged: &'a BTreeMap<u16, u32>,
    /// What this search has given away.
    pub(super) given: &'a [u16],
}

impl Ports<'_> {
    fn is_free(&self, port: u16) -> bool {
        !self.charged.contains_key(&port) && !self.given.contains(&port)
    }

    /// Whether a task's ports are to be had.
    pub(super) fn suffice(&self, wanted: &[PortSpec]) -> bool {
        if wanted.is_empty() {
            return true;
        }
        let fixed: Vec<u16> = wanted.iter().filter_map(|port| port.fixed).collect();
        let twice = |at: usize| fixed[..at].contains(&fixed[at]);
        if (0..fixed.len()).any(|at| twice(at) || !self.is_free(fixed[at])) {
            return false;
        }
        let any = wanted.len() - fixed.len();
        if any == 0 {
            return true;
        }
        let range = self.capacity.ports;
        if range.first > range.last {
            return false;
        }
        let inside = |port: &&u16| (range.first..=range.last).contains(*port);
        let size = usize::from(range.last - range.first) + 1;
        let charged = self.charged.range(range.first..=range.last).count();
        let taken = charged + self.given.iter().filter(inside).count() + fixed.iter().filter(inside).count();
        size.saturating_sub(taken) >= any
    }

    /// Picks a task's ports, in its order; those that may be any from `next` on. None if they don't suffice.
    pub(super) fn pick(&self, wanted: &[PortSpec], next: &mut u16) -> Option<Vec<PortBinding>> {
        if !self.suffice(wanted) {
            return None;
        }
        let range = self.capacity.ports;
        let mut taken: Vec<u16> = wanted.iter().filter_map(|port| port.fixed).collect();
        let mut bindings = Vec::with_capacity(wanted.len());
        for spec in wanted {
            let port = match spec.fixed {
                Some(port) => port,
                None => {
                    let from = if (range.first..=range.last).contains(next) { *next } else { range.first };
                    let free = |port: &u16| self.is_free(*port) && !taken.contains(port);
                    let port = (from..=range.last).chain(range.first..from).find(free)?;
                    *next = port.wrapping_add(1);
                    taken.push(port);
                    port
                }
            };
            bindings.push(PortBinding { name: spec.name.clone(), port });
        }
        Some(bindings)
    }
}
