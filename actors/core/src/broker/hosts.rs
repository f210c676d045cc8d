//! A broker in memory, and what it hears of hosts.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    sync::Arc,
    vec::Vec,
};
use polder_types::{BootId, ContainerId, HomeId, HostId, HostInfo, Millis, Timestamp};

use super::{
    event::{Config, Delta, Effect, Refused, Session},
    limits::{HOSTS_MAX, ORDER_REPEAT, ORDER_REPEAT_MAX, SILENCE_MAX},
    state::HostRecord,
};
use crate::{
    machine::Effects,
    message::{HostCondition, HostHealth, HostNotice, HostOrder, Notice},
};

/// The record of a datacenter's hosts. See this module's page.
#[derive(Debug)]
pub struct Broker {
    pub(super) config: Config,
    pub(super) hosts: BTreeMap<HostId, Host>,
    pub(super) due: BTreeSet<(Timestamp, HostId)>,
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) record: HostRecord,
    /// What shards and the allocator are told: shared by all who hear of it.
    pub(super) info: Arc<HostInfo>,
    /// The newest link; also after it has closed, so that an older one can't speak for the host.
    pub(super) session: Session,
    pub(super) linked: bool,
    pub(super) heard_at: Option<Timestamp>,
    pub(super) health: HostHealth,
    /// Since when it is heard without a break.
    pub(super) healthy_since: Timestamp,
    /// Silence that was not made up for.
    pub(super) silence: Millis,
    /// The order that the host has not shown to know yet.
    pub(super) order: Option<Pending>,
    /// Whether the host has said that it knows of the drain in progress.
    pub(super) accepted: bool,
    /// What the host said is left.
    pub(super) remaining: Vec<ContainerId>,
    pub(super) due: Option<Timestamp>,
}

/// An order about a drain that is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) what: What,
    pub(super) tries: u32,
    pub(super) at: Timestamp,
}

/// What a host is to know of its drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Drain,
    Force,
    End(polder_types::DrainVersion),
}

/// One step's effects.
pub(super) type Out = Effects<Broker>;

/// The next time that an order is repeated.
pub(super) fn again(now: Timestamp, tries: u32) -> Timestamp {
    let factor = 1_u64.checked_shl(tries.min(16)).unwrap_or(u64::MAX);
    now + Millis(ORDER_REPEAT.0.saturating_mul(factor).min(ORDER_REPEAT_MAX.0))
}

impl Host {
    pub(super) fn restored(record: HostRecord, now: Timestamp) -> Self {
        Self {
            info: Arc::new(record.info.clone()),
            record,
            session: Session(0),
            linked: false,
            heard_at: None,
            // Nothing was heard yet, and silence counts from no earlier than somebody listened.
            health: HostHealth::Unknown { since: now },
            healthy_since: now,
            silence: Millis(0),
            order: None,
            accepted: false,
            remaining: Vec::new(),
            due: None,
        }
    }

    pub(super) const fn is_silent(&self) -> bool {
        matches!(self.health, HostHealth::Unknown { .. })
    }

    pub(super) fn notice(&self) -> HostNotice {
        HostNotice {
            info: Arc::clone(&self.info),
            condition: HostCondition {
                host: self.record.info.id.clone(),
                health: self.health,
                cordoned: self.record.cordon.is_some(),
                drain: self.record.closing_drain(),
            },
        }
    }
}

pub(super) fn tell(out: &mut Out, kind: &'static str, host: &HostId, message: String) {
    out.after(Effect::Notice(Notice { kind, subject: format!("{host}"), message }));
}

impl Broker {
    pub(super) fn save(&self, out: &mut Out, host: &HostId) {
        if let Some(entry) = self.hosts.get(host) {
            out.persist(Delta::PutHost(Box::new(entry.record.clone())));
            out.after(Effect::Host(entry.notice()));
        }
    }

    /// Takes in what a host said it is, and says whether that was news to be kept.
    pub(super) fn linked(
        &mut self,
        out: &mut Out,
        now: Timestamp,
        info: HostInfo,
        boot: BootId,
        home: HomeId,
        session: Session,
    ) -> Result<bool, Refused> {
        let id = info.id.clone();
        if info.datacenter != self.config.datacenter {
            return Err(Refused::Misdirected { host: id, datacenter: info.datacenter });
        }
        let full = self.hosts.len() >= HOSTS_MAX;
        let Some(entry) = self.hosts.get_mut(&id) else {
            if full {
                return Err(Refused::Full { host: id, max: HOSTS_MAX });
            }
            let message = format!(
                "it was registered: rack {}, {} CPU, {}, agent {}",
                info.rack, info.capacity.cpu, info.capacity.memory, info.agent
            );
            let record = HostRecord {
                info,
                boot,
                home: Some(home),
                registered_at: now,
                cordon: None,
                drain: None,
                drains: Default::default(),
            };
            let mut host = Host::restored(record, now);
            (host.session, host.linked) = (session, true);
            (host.heard_at, host.health) = (Some(now), HostHealth::Ready);
            self.hosts.insert(id.clone(), host);
            self.save(out, &id);
            tell(out, "host_registered", &id, message);
            return Ok(true);
        };
        entry.belongs_to(now, home)?;
        if session < entry.session {
            return Err(Refused::OldLink { host: id });
        }
        entry.linked = true;
        if let Some(pending) = &mut entry.order {
            (pending.at, pending.tries) = (now, 0);
        }
        self.heard(out, now, &id, home, session);
        let Some(entry) = self.hosts.get_mut(&id) else { return Err(Refused::UnknownHost { host: id }) };
        let rebooted = entry.record.boot != boot;
        if rebooted {
            entry.remaining.clear();
            let message = format!("it has rebooted: boot {boot} after {}", entry.record.boot);
            tell(out, "host_rebooted", &id, message);
        }
        let changed = rebooted || entry.record.info != info || entry.record.home != Some(home);
        if changed {
            entry.info = Arc::new(info.clone());
            entry.record.info = info;
            entry.record.boot = boot;
            entry.record.home = Some(home);
            self.save(out, &id);
        }
        Ok(changed)
    }

    /// Whether what was said counts: it came over the newest link of the agent that the name belongs to.
    pub(super) fn heard(&mut self, out: &mut Out, now: Timestamp, id: &HostId, home: HomeId, session: Session) -> bool {
        let Some(entry) = self.hosts.get_mut(id) else { return false };
        if session < entry.session || entry.belongs_to(now, home).is_err() {
            return false;
        }
        if session > entry.session {
            // Its link's opening was lost on the way: the host is there all the same.
            entry.session = session;
            entry.linked = true;
        }
        let silent_for = entry.heard_at.map(|heard| now.since(heard));
        entry.heard_at = Some(now);
        match entry.health {
            HostHealth::Unknown { since } => {
                // From `since` on it was silent, earlier silence counted in: all of it stands until made up for.
                // What came before this owner first heard it may have been its own deafness, and counts for nothing.
                let silence = if silent_for.is_some() { now.since(since) } else { Millis(0) };
                entry.silence = Millis(silence.0.min(SILENCE_MAX.0));
                entry.health = HostHealth::Ready;
                entry.healthy_since = now;
                let notice = entry.notice();
                out.after(Effect::Host(notice));
                let message = silent_for.map_or_else(
                    || String::from("it is heard, for the first time since its broker began"),
                    |silence| format!("it is heard again, after {silence}"),
                );
                tell(out, "host_heard", id, message);
            }
            HostHealth::Ready => {
                if entry.silence.0 > 0 && now.since(entry.healthy_since) >= self.config.recovered_after {
                    entry.silence = Millis(0);
                }
            }
        }
        true
    }

    pub(super) fn unlinked(&mut self, id: &HostId, session: Session) {
        if let Some(entry) = self.hosts.get_mut(id)
            && entry.session == session
        {
            entry.linked = false;
        }
    }

    /// Calls a host silent that was not heard for too long.
    pub(super) fn listen(&mut self, out: &mut Out, now: Timestamp, id: &HostId) {
        let silent_after = self.config.silent_after;
        let Some(entry) = self.hosts.get_mut(id) else { return };
        let Some(heard_at) = entry.heard_at.filter(|heard| !entry.is_silent() && *heard + silent_after <= now) else {
            return;
        };
        if now.since(entry.healthy_since) >= self.config.recovered_after
            && heard_at.since(entry.healthy_since) >= self.config.recovered_after
        {
            entry.silence = Millis(0);
        }
        entry.health = HostHealth::Unknown { since: heard_at - entry.silence };
        let notice = entry.notice();
        let earlier = entry.silence;
        out.after(Effect::Host(notice));
        let mut message = format!(
            "it has not been heard for {}: what it runs is left alone and stays charged to it",
            now.since(heard_at)
        );
        if earlier.0 > 0 {
            message = format!("{message}; earlier silence of {earlier} counts too");
        }
        tell(out, "host_silent", id, message);
    }

    /// Sets a host's deadline.
    pub(super) fn arm(&mut self, id: &HostId) {
        let Some(entry) = self.hosts.get(id) else { return };
        let mut times: Vec<Timestamp> = Vec::new();
        if !entry.is_silent() {
            times.extend(entry.heard_at.map(|heard| heard + self.config.silent_after));
            times.extend(entry.order.map(|order| order.at));
        }
        times.extend(self.drain_due(entry));
        let due = times.into_iter().min();
        if entry.due == due {
            return;
        }
        let old = entry.due;
        if let Some(old) = old {
            self.due.remove(&(old, id.clone()));
        }
        if let Some(at) = due {
            self.due.insert((at, id.clone()));
        }
        if let Some(entry) = self.hosts.get_mut(id) {
            entry.due = due;
        }
    }

    /// Sends what a host has to know and has not shown to know.
    pub(super) fn send(&mut self, out: &mut Out, now: Timestamp, id: &HostId) {
        let Some(entry) = self.hosts.get_mut(id) else { return };
        let silent = entry.is_silent();
        let Some(pending) = entry.order.as_mut().filter(|pending| pending.at <= now && !silent) else { return };
        let drain = entry.record.closing_drain();
        let order = match (pending.what, drain) {
            (What::Drain, Some(drain)) => HostOrder::Drain(drain),
            (What::Force, Some(drain)) => HostOrder::ForceDrain { version: drain.version },
            (What::End(version), _) => HostOrder::EndDrain { version },
            _ => {
                entry.order = None;
                return;
            }
        };
        pending.at = again(now, pending.tries);
        pending.tries += 1;
        let pending = *pending;
        let spent = matches!(pending.what, What::End(_)) && pending.tries >= super::limits::END_DRAIN_REPEATS;
        if spent {
            entry.order = None;
        }
        // A host can only force what it knows of.
        if let (What::Force, false, Some(drain)) = (pending.what, entry.accepted, drain) {
            out.after(Effect::Order { host: id.clone(), order: HostOrder::Drain(drain) });
        }
        out.after(Effect::Order { host: id.clone(), order });
    }
}
