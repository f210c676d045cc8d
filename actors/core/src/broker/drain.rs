//! Cordons and drains: from the order of a person to the word of the host.

use alloc::{
    boxed::Box,
    format,
    string::{String, ToString as _},
    vec::Vec,
};
use polder_types::{DrainVersion, HostId, Timestamp};

use super::{
    event::{Done, Refused},
    hosts::{Broker, Host, Out, Pending, What, tell},
    limits::{DRAIN_MAX, TEXT_BYTES_MAX},
    state::{Cordon, DrainRecord, DrainState},
};
use crate::{message::DrainAttestation, wording::counted};

pub(super) fn cut(mut text: String) -> String {
    let mut end = TEXT_BYTES_MAX.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

pub(super) fn done(host: &Host, changed: bool) -> Done {
    Done {
        host: host.record.info.id.clone(),
        changed,
        cordoned: host.record.cordon.is_some(),
        drain: host.record.drain.clone(),
    }
}

const fn order(what: What, at: Timestamp) -> Option<Pending> {
    Some(Pending { what, tries: 0, at })
}

impl Host {
    /// The drain in progress.
    pub(super) fn draining(&self) -> Option<&DrainRecord> {
        self.record.drain.as_ref().filter(|drain| drain.state == DrainState::Draining)
    }
}

impl Broker {
    pub(super) fn known(&mut self, id: &HostId) -> Result<&mut Host, Refused> {
        self.hosts.get_mut(id).ok_or_else(|| Refused::UnknownHost { host: id.clone() })
    }

    pub(super) fn cordon(
        &mut self,
        out: &mut Out,
        now: Timestamp,
        id: &HostId,
        by: String,
        reason: String,
    ) -> Result<Done, Refused> {
        let entry = self.known(id)?;
        if entry.record.cordon.is_some() {
            return Ok(done(entry, false));
        }
        let (by, reason) = (cut(by), cut(reason));
        let message = format!("it was cordoned by {by} ({reason}): it takes no new tasks, and what it runs stays");
        entry.record.cordon = Some(Cordon { since: now, by, reason });
        let answer = done(entry, true);
        self.save(out, id);
        tell(out, "host_cordoned", id, message);
        Ok(answer)
    }

    pub(super) fn uncordon(&mut self, out: &mut Out, now: Timestamp, id: &HostId) -> Result<Done, Refused> {
        let entry = self.known(id)?;
        let cordoned = entry.record.cordon.take().is_some();
        let lifted = lift(entry, now);
        let answer = done(entry, cordoned || lifted.is_some());
        if answer.changed {
            self.save(out, id);
            let message = match lifted {
                Some(DrainState::Draining) => "it is open to new tasks again; its drain was called off",
                _ => "it is open to new tasks again",
            };
            tell(out, "host_uncordoned", id, message.to_string());
        }
        Ok(answer)
    }

    pub(super) fn drain(
        &mut self,
        out: &mut Out,
        now: Timestamp,
        id: &HostId,
        deadline: Timestamp,
        by: String,
        reason: String,
    ) -> Result<Done, Refused> {
        let entry = self.known(id)?;
        if deadline <= now || deadline.since(now) > DRAIN_MAX {
            return Err(Refused::Deadline { deadline, now, max: DRAIN_MAX });
        }
        let as_asked =
            entry.record.drain.as_ref().filter(|drain| drain.closes()).is_some_and(|drain| match drain.state {
                DrainState::Draining => drain.deadline == deadline,
                DrainState::Drained => true,
                DrainState::Forced | DrainState::Unattested | DrainState::Aborted => false,
            });
        if as_asked {
            return Ok(done(entry, false));
        }
        // Another deadline is another drain: the host compares versions, not deadlines.
        let version = entry.record.drains.next();
        let (by, reason) = (cut(by), cut(reason));
        let message = format!(
            "its drain {version} was ordered by {by} ({reason}): its tasks move away within their budgets, and what is left in {} is stopped by force",
            deadline.since(now)
        );
        entry.record.drains = version;
        entry.record.drain = Some(DrainRecord {
            version,
            deadline,
            reason,
            by,
            started_at: now,
            state: DrainState::Draining,
            forced: Vec::new(),
            left: Vec::new(),
            ended_at: None,
            attested_late_at: None,
            lifted_at: None,
        });
        entry.accepted = false;
        entry.order = order(What::Drain, now);
        let answer = done(entry, true);
        self.save(out, id);
        tell(out, "drain_started", id, message);
        Ok(answer)
    }

    pub(super) fn abort(&mut self, out: &mut Out, now: Timestamp, id: &HostId) -> Result<Done, Refused> {
        let entry = self.known(id)?;
        if entry.draining().is_none() {
            return Err(Refused::NotDraining { host: id.clone(), drain: entry.record.drain.clone().map(Box::new) });
        }
        lift(entry, now);
        let answer = done(entry, true);
        self.save(out, id);
        let rest = if answer.cordoned { ": it stays cordoned" } else { "" };
        tell(out, "drain_aborted", id, format!("its drain was called off{rest}"));
        Ok(answer)
    }

    /// What a host says of its drain when its link opens.
    pub(super) fn attested_on_link(
        &mut self,
        out: &mut Out,
        now: Timestamp,
        id: &HostId,
        said: Option<DrainAttestation>,
    ) {
        let Some(entry) = self.hosts.get_mut(id) else { return };
        match said {
            Some(attestation) => self.attested(out, now, id, attestation),
            None if entry.draining().is_some() => {
                entry.accepted = false;
                self.order_drain(now, id);
            }
            // It knows of no drain: one that ended it need not be told to end, one that stands it must be told anew.
            None if entry.record.closing_drain().is_some() => entry.order = order(What::Drain, now),
            None => entry.order = None,
        }
    }

    /// A host said how its drain goes.
    pub(super) fn attested(&mut self, out: &mut Out, now: Timestamp, id: &HostId, said: DrainAttestation) {
        let Some(entry) = self.hosts.get_mut(id) else { return };
        let Some(standing) = entry.record.closing_drain() else {
            self.end_drain(now, id, said.version);
            return;
        };
        if said.version != standing.version {
            entry.accepted = false;
            self.order_drain(now, id);
            return;
        }
        if said.boot != entry.record.boot {
            return;
        }
        if matches!(entry.order, Some(Pending { what: What::Drain | What::End(_), .. })) {
            entry.order = None;
        }
        entry.accepted = true;
        entry.remaining.clone_from(&said.remaining);
        let empty = said.remaining.is_empty();
        let Some(drain) = entry.record.drain.as_mut() else { return };
        let mut dirty = false;
        for container in said.forced {
            if !drain.forced.contains(&container) {
                drain.forced.push(container);
                dirty = true;
            }
        }
        let mut told = None;
        match drain.state {
            DrainState::Draining if empty => {
                let forced = drain.forced.len();
                drain.state = if forced == 0 { DrainState::Drained } else { DrainState::Forced };
                drain.ended_at = Some(now);
                entry.order = None;
                dirty = true;
                told = Some(if forced == 0 {
                    (
                        "drain_ended",
                        format!("its drain {} ended as drained: no process of a task is left", standing.version),
                    )
                } else {
                    let message = format!(
                        "its drain {} ended as forced: {} did not stop in time and had to be killed",
                        standing.version,
                        counted(forced, "container")
                    );
                    ("drain_forced", message)
                });
            }
            DrainState::Unattested if empty && drain.attested_late_at.is_none() => {
                drain.attested_late_at = Some(now);
                entry.order = None;
                dirty = true;
                let message = format!(
                    "it says now that nothing is left of what its drain {} was to remove; the drain stays unattested, because that word came too late",
                    standing.version
                );
                told = Some(("drain_attested_late", message));
            }
            // It was not heard at its deadline, or restarted since: what is left is still to go.
            DrainState::Unattested if !empty && entry.order.is_none() => entry.order = order(What::Force, now),
            _ => {}
        }
        if dirty {
            self.save(out, id);
        }
        if let Some((kind, message)) = told {
            tell(out, kind, id, message);
        }
    }

    /// A host refused a start because of a drain.
    pub(super) fn start_refused(&mut self, now: Timestamp, id: &HostId, version: DrainVersion) {
        if self.hosts.get(id).is_some_and(|entry| entry.record.closing_drain().is_none()) {
            self.end_drain(now, id, version);
        }
    }

    fn order_drain(&mut self, now: Timestamp, id: &HostId) {
        let Some(entry) = self.hosts.get_mut(id) else { return };
        if !matches!(entry.order, Some(Pending { what: What::Drain, .. })) {
            entry.order = order(What::Drain, now);
        }
    }

    fn end_drain(&mut self, now: Timestamp, id: &HostId, version: DrainVersion) {
        let Some(entry) = self.hosts.get_mut(id) else { return };
        if !matches!(entry.order, Some(Pending { what: What::End(known), .. }) if known == version) {
            entry.order = order(What::End(version), now);
        }
    }

    /// When a drain needs attention by itself.
    pub(super) fn drain_due(&self, entry: &Host) -> Option<Timestamp> {
        let drain = entry.draining()?;
        let forcing = matches!(entry.order, Some(Pending { what: What::Force, .. }));
        let silent = entry.is_silent();
        Some(if forcing || silent { drain.deadline + self.config.attest_margin } else { drain.deadline })
    }

    /// Brings a drain to its end when its time has come.
    pub(super) fn conclude(&mut self, out: &mut Out, now: Timestamp, id: &HostId) {
        let margin = self.config.attest_margin;
        let Some(entry) = self.hosts.get_mut(id) else { return };
        let Some(drain) = entry.draining() else { return };
        let (deadline, version) = (drain.deadline, drain.version);
        if deadline > now {
            return;
        }
        if deadline + margin > now {
            if !entry.is_silent() && !matches!(entry.order, Some(Pending { what: What::Force, .. })) {
                entry.order = order(What::Force, now);
                let message =
                    format!("the deadline of its drain {version} has passed: it was told to kill what is left");
                tell(out, "drain_deadline_passed", id, message);
            }
            return;
        }
        let left = entry.remaining.clone();
        let silent = entry.is_silent();
        let accepted = entry.accepted;
        // An order that the host never took may reach it still: it keeps the host closed until a person opens it.
        entry.order = order(if accepted { What::Force } else { What::Drain }, now);
        let why = if silent {
            String::from("it is not heard")
        } else if left.is_empty() {
            String::from("it did not say that nothing is left")
        } else {
            format!("{} could not be killed, such as {}", counted(left.len(), "container"), left[0])
        };
        if let Some(drain) = entry.record.drain.as_mut() {
            drain.state = DrainState::Unattested;
            drain.ended_at = Some(now);
            drain.left = left;
        }
        self.save(out, id);
        let message = format!(
            "its drain {version} ended as unattested: {why}; look at the machine before you rely on it being empty"
        );
        tell(out, "drain_unattested", id, message);
    }
}

/// Ends the drain that keeps a host closed, whatever state that is in, and says which state that was.
fn lift(entry: &mut Host, now: Timestamp) -> Option<DrainState> {
    let drain = entry.record.drain.as_mut().filter(|drain| drain.closes())?;
    let was = drain.state;
    drain.lifted_at = Some(now);
    if was == DrainState::Draining {
        drain.state = DrainState::Aborted;
        drain.ended_at = Some(now);
    }
    entry.order = order(What::End(drain.version), now);
    entry.accepted = false;
    entry.remaining.clear();
    Some(was)
}
