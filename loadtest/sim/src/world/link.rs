//! Links between hosts and nodes: a stream each way, in order, that breaks or stands still as a whole.
//!
//! What meets a cut waits, and arrives when the cut is mended, unless the link was given up meanwhile.

use super::World;
use crate::{
    happening::{Down, Happening, Process, Up},
    names::{BrokerAt, HostAt, NodeAt, ShardAt},
    plan::Fault,
};
use polder_core::{
    broker, host, job_shard,
    message::{HostOrder, HostReport, Refusal, ReplyId},
};
use polder_types::{BootId, ContainerId, ContainerPhase, ContainerStatus, ShardId};
use std::collections::{BTreeMap, BTreeSet};

/// A link over which nothing comes for so long is closed by the node.
const NODE_IDLE: u64 = 30_000;
/// And by the host: pings show that nothing comes back.
const HOST_IDLE: u64 = 20_000;
const PING_EVERY: u64 = 5_000;
/// How long opening a link may take.
const CONNECT_TIMEOUT: u64 = 5_000;
/// Waits between attempts.
const RECONNECT: u64 = 200;
const RECONNECT_MAX: u64 = 10_000;
/// How often a shard that had no room is tried again.
const OWED_TICK: u64 = 200;
/// How long a host may take to say what it has.
const INVENTORY_TIMEOUT: u64 = 10_000;
/// How long a broker may take to let a host in.
const ANSWER_TIMEOUT: u64 = 15_000;

/// A host's link as a node has it.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) session: u64,
    pub(crate) heard_at: u64,
    boot: Option<BootId>,
    seen: BTreeMap<ContainerId, ContainerPhase>,
    /// What the host said first, while its broker has not let it in; and what it has said since.
    entering: Option<Entering>,
    owed: BTreeSet<u16>,
    /// Whether the debts are looked at again already.
    paying: bool,
}

#[derive(Debug)]
struct Entering {
    boot: BootId,
    containers: Vec<ContainerStatus>,
    since: Vec<HostReport>,
}

/// A host's link as the host has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Linker {
    #[default]
    Waiting,
    Connecting(NodeAt, u64),
    Open(NodeAt, u64),
}

/// Both directions of a host's network.
#[derive(Debug, Default)]
pub(crate) struct HostNet {
    pub(crate) cut_up: bool,
    pub(crate) cut_down: bool,
    /// Counts cuts.
    pub(crate) cut: u32,
    held_up: Vec<Happening>,
    held_down: Vec<Happening>,
    last_up: u64,
    last_down: u64,
    /// The next attempt's wait.
    pub(crate) wait: u64,
}

impl World {
    fn send_up(&mut self, from: HostAt, to: NodeAt, session: u64, message: Up) {
        let at = self.now + self.link_delay();
        let life = self.node(to).process.life;
        let net = &mut self.host_mut(from).net;
        net.last_up = at.max(net.last_up);
        let at = net.last_up;
        self.queue.push(at, Happening::Up(to, life, from, session, message));
    }

    fn send_down(&mut self, from: NodeAt, to: HostAt, session: u64, message: Down) {
        let at = self.now + self.link_delay();
        let life = self.host(to).agent.life;
        let net = &mut self.host_mut(to).net;
        net.last_down = at.max(net.last_down);
        let at = net.last_down;
        self.queue.push(at, Happening::Down(to, life, from, session, message));
    }

    /// Cuts a host's network, one way or both.
    pub(crate) fn cut(&mut self, at: HostAt, up: bool, down: bool) -> u32 {
        let now = self.now;
        let net = &mut self.host_mut(at).net;
        net.cut += 1;
        (net.cut_up, net.cut_down) = (up, down);
        let cut = net.cut;
        self.trace.note(&at, format_args!("is cut off: up {up}, down {down}"));
        let idle = now + HOST_IDLE + self.dice.net.between(0, PING_EVERY);
        let life = self.host(at).agent.life;
        self.queue.push(idle, Happening::HostIdle(at, life, u64::from(cut)));
        if up {
            self.watch_silence(at);
        }
        cut
    }

    /// Every node with a link of this host looks whether it still hears it.
    pub(crate) fn watch_silence(&mut self, at: HostAt) {
        let nodes: Vec<(NodeAt, u64, u32)> = self
            .nodes()
            .filter(|(node, _)| node.region == at.region)
            .filter_map(|(node, sim)| {
                let link = sim.lead.as_ref()?.links.get(&at.host)?;
                Some((node, link.session, sim.process.life))
            })
            .collect();
        for (node, session, life) in nodes {
            self.queue.push(self.now + NODE_IDLE, Happening::NodeIdle(node, life, at, session));
        }
    }

    /// Mends a host's network: what waited arrives in its order.
    pub(crate) fn mend(&mut self, at: HostAt) {
        let now = self.now;
        let net = &mut self.host_mut(at).net;
        (net.cut_up, net.cut_down) = (false, false);
        let (up, down) = (std::mem::take(&mut net.held_up), std::mem::take(&mut net.held_down));
        net.last_up = net.last_up.max(now);
        net.last_down = net.last_down.max(now);
        self.trace.note(&at, format_args!("is connected again"));
        // At once, so that nothing that is on its way can come before.
        for happening in up.into_iter().chain(down) {
            self.happens(happening);
        }
    }

    // ---- the host's side ----

    pub(crate) fn connect(&mut self, at: HostAt) {
        let host = self.host(at);
        if host.linker != Linker::Waiting {
            return;
        }
        let nodes = self.region(at.region).nodes.len();
        let node = NodeAt { region: at.region, node: u8::try_from(self.dice.net.index(nodes)).unwrap_or(0) };
        let (now, local) = (self.now, self.clock(Process::Agent(at)).0);
        let host = self.host_mut(at);
        let session = local.max(host.session + 1);
        host.session = session;
        host.linker = Linker::Connecting(node, session);
        let life = host.agent.life;
        if !self.node(node).process.up && !self.host(at).net.cut_up {
            // Nobody listens: that is said at once.
            return self.queue.push(now + 1, Happening::ConnectTimeout(at, life, session));
        }
        self.send_up(at, node, session, Up::Hello);
        self.queue.push(now + CONNECT_TIMEOUT, Happening::ConnectTimeout(at, life, session));
    }

    pub(crate) fn connect_timeout(&mut self, at: HostAt, session: u64) {
        if matches!(self.host(at).linker, Linker::Connecting(_, of) if of == session) {
            self.link_lost(at);
        }
    }

    /// The host has no link any more, and tries to open one after a while.
    pub(crate) fn link_lost(&mut self, at: HostAt) {
        let was = std::mem::take(&mut self.host_mut(at).linker);
        let wait = self.host(at).net.wait.clamp(RECONNECT, RECONNECT_MAX);
        let some = self.dice.net.between(wait / 4, wait);
        self.host_mut(at).net.wait = wait * 2;
        let life = self.host(at).agent.life;
        self.queue.push(self.now + some, Happening::Connect(at, life));
        if let Linker::Open(_, session) = was {
            self.deliver(at, host::Event::LinkClosed { session });
        }
    }

    /// The host's agent closes its link, and the node hears of it.
    pub(crate) fn close_from_host(&mut self, at: HostAt) {
        if let Linker::Open(node, session) | Linker::Connecting(node, session) = self.host(at).linker {
            self.send_up(at, node, session, Up::Closed);
        }
    }

    pub(crate) fn host_idle(&mut self, at: HostAt, cut: u64) {
        let net = &self.host(at).net;
        let same = u64::from(net.cut) == cut && (net.cut_up || net.cut_down);
        if same && let Linker::Open(..) = self.host(at).linker {
            self.close_from_host(at);
            self.link_lost(at);
        }
    }

    pub(crate) fn down(&mut self, at: HostAt, from: NodeAt, session: u64, message: Down, happening_life: u32) {
        if self.host(at).net.cut_down {
            let held = Happening::Down(at, happening_life, from, session, message);
            return self.host_mut(at).net.held_down.push(held);
        }
        match (self.host(at).linker, message) {
            (Linker::Connecting(node, of), Down::Welcome) if of == session => {
                let host = self.host_mut(at);
                host.linker = Linker::Open(node, session);
                host.net.wait = RECONNECT;
                self.deliver(at, host::Event::LinkOpened { session });
            }
            (Linker::Connecting(_, of) | Linker::Open(_, of), Down::Reject | Down::Closed) if of == session => {
                self.link_lost(at);
            }
            (Linker::Open(_, of), Down::Order(order)) if of == session => {
                self.deliver(at, host::Event::Order(*order));
            }
            _ => {}
        }
    }

    /// A host's machine reports something.
    pub(crate) fn report(&mut self, at: HostAt, report: HostReport) {
        let Linker::Open(node, session) = self.host(at).linker else { return };
        if self.strikes(Fault::MessageDropped) {
            return;
        }
        self.send_up(at, node, session, Up::Report(Box::new(report)));
    }

    // ---- the node's side ----

    pub(crate) fn up(&mut self, node: NodeAt, from: HostAt, session: u64, message: Up, happening_life: u32) {
        if self.host(from).net.cut_up {
            let held = Happening::Up(node, happening_life, from, session, message);
            return self.host_mut(from).net.held_up.push(held);
        }
        if !self.is_life(Process::Node(node), happening_life) {
            // The process that it was sent to is gone; its successor answers that it knows of no such link.
            return self.send_down(node, from, session, Down::Closed);
        }
        match message {
            Up::Hello => self.hello(node, from, session),
            Up::Closed => self.node_link_over(node, from.host, session, false),
            Up::Report(report) => self.take_report(node, from, session, *report),
        }
    }

    fn hello(&mut self, node: NodeAt, from: HostAt, session: u64) {
        let now = self.now;
        let Some(lead) = &mut self.node_mut(node).lead else {
            return self.send_down(node, from, session, Down::Reject);
        };
        if let Some(older) = lead.links.get(&from.host).map(|link| link.session) {
            if older >= session {
                return self.send_down(node, from, session, Down::Reject);
            }
            // The older one says its last before the newer one may speak.
            self.node_link_over(node, from.host, older, true);
        }
        let Some(lead) = &mut self.node_mut(node).lead else { return };
        let link = Link {
            session,
            heard_at: now,
            boot: None,
            seen: BTreeMap::new(),
            entering: None,
            owed: BTreeSet::new(),
            paying: false,
        };
        lead.links.insert(from.host, link);
        self.send_down(node, from, session, Down::Welcome);
        let life = self.node(node).process.life;
        self.queue.push(now + NODE_IDLE, Happening::NodeIdle(node, life, from, session));
        self.queue.push(now + INVENTORY_TIMEOUT, Happening::EnteringEnds(node, life, from.host, session, false));
    }

    /// A link has said its last.
    pub(crate) fn node_link_over(&mut self, node: NodeAt, host: u32, session: u64, tell_host: bool) {
        let Some(lead) = &mut self.node_mut(node).lead else { return };
        if lead.links.get(&host).is_none_or(|link| link.session != session) {
            return;
        }
        lead.links.remove(&host);
        let at = HostAt { region: node.region, host };
        if tell_host {
            self.send_down(node, at, session, Down::Closed);
        }
        let broker = self.broker_of(node, at);
        let id = self.host(at).id.clone();
        self.deliver(broker, broker::Event::HostUnlinked { host: id, session: broker::Session(session) });
    }

    pub(crate) fn node_idle(&mut self, node: NodeAt, at: HostAt, session: u64) {
        let now = self.now;
        let Some(lead) = &self.node(node).lead else { return };
        let Some(link) = lead.links.get(&at.host).filter(|link| link.session == session) else { return };
        let due = link.heard_at + NODE_IDLE;
        if due <= now {
            self.node_link_over(node, at.host, session, true);
        } else if self.host(at).net.cut_up || !self.host(at).agent.up || self.host(at).agent.frozen_until > now {
            let life = self.node(node).process.life;
            self.queue.push(due, Happening::NodeIdle(node, life, at, session));
        }
    }

    /// A node is gone: hosts see their links break, unless its machine vanished in silence.
    pub(crate) fn close_all_links(&mut self, node: NodeAt, hosts: Vec<(u32, u64)>) {
        for (host, session) in hosts {
            self.send_down(node, HostAt { region: node.region, host }, session, Down::Closed);
        }
    }

    pub(crate) fn broker_of(&self, node: NodeAt, at: HostAt) -> BrokerAt {
        BrokerAt { node, datacenter: self.host(at).datacenter }
    }

    fn link(&mut self, node: NodeAt, host: u32, session: u64) -> Option<&mut Link> {
        let lead = self.node_mut(node).lead.as_mut()?;
        lead.links.get_mut(&host).filter(|link| link.session == session)
    }

    /// A broker has answered a host that wants to be let in.
    pub(crate) fn link_replied(
        &mut self,
        node: NodeAt,
        reply: ReplyId,
        result: &Result<broker::Done, broker::Refused>,
    ) {
        let Some(lead) = &mut self.node_mut(node).lead else { return };
        let Some((host, session)) = lead.entering.remove(&reply.0) else { return };
        let Some(link) = self.link(node, host, session) else { return };
        let Some(entering) = link.entering.take() else { return };
        if result.is_err() {
            return self.node_link_over(node, host, session, true);
        }
        link.boot = Some(entering.boot);
        link.seen = entering.containers.into_iter().map(|status| (status.id, status.phase)).collect();
        let at = HostAt { region: node.region, host };
        for shard in 0..self.region(node.region).shards {
            if !self.pay(node, at, session, shard) {
                self.owe(node, host, shard);
            }
        }
        for report in entering.since {
            self.take_message(node, at, session, report);
        }
    }

    /// A host has not said what it has in time, or was not let in for too long.
    pub(crate) fn entering_ends(&mut self, node: NodeAt, host: u32, session: u64, said: bool) {
        let late = |link: &mut Link| link.boot.is_none() && link.entering.is_some() == said;
        if self.link(node, host, session).is_some_and(late) {
            self.node_link_over(node, host, session, true);
        }
    }

    fn take_report(&mut self, node: NodeAt, from: HostAt, session: u64, report: HostReport) {
        let now = self.now;
        let Some(link) = self.link(node, from.host, session) else { return };
        link.heard_at = now;
        // Nothing else is read before the host was let in.
        if let Some(entering) = &mut link.entering {
            return entering.since.push(report);
        }
        self.take_message(node, from, session, report);
    }

    fn take_message(&mut self, node: NodeAt, from: HostAt, session: u64, report: HostReport) {
        let (broker, home) = (self.broker_of(node, from), from.home());
        let id = self.host(from).id.clone();
        let number = broker::Session(session);
        if !self.strikes(Fault::MessageDropped) {
            // The next message of the host says the same.
            self.try_deliver(broker, broker::Event::HostHeard { host: id.clone(), home, session: number });
        }
        match report {
            HostReport::Alive => {}
            HostReport::Inventory { info, boot, containers, drain } => {
                let (ends, life) = (self.now + ANSWER_TIMEOUT, self.node(node).process.life);
                let Some(link) = self.link(node, from.host, session) else { return };
                link.entering = Some(Entering { boot: boot.clone(), containers, since: Vec::new() });
                let Some(lead) = &mut self.node_mut(node).lead else { return };
                lead.next_reply += 1;
                let reply = ReplyId(lead.next_reply);
                lead.entering.insert(reply.0, (from.host, session));
                self.queue.push(ends, Happening::EnteringEnds(node, life, from.host, session, true));
                let info = Box::new(info);
                let linked = broker::Event::HostLinked { reply, info, boot, home, session: number, drain };
                self.deliver(broker, linked);
            }
            HostReport::Changed { containers } => {
                let shards = self.region(node.region).shards;
                let Some(link) = self.link(node, from.host, session) else { return };
                let mut by_shard: BTreeMap<u16, Vec<ContainerStatus>> = BTreeMap::new();
                for status in containers {
                    link.seen.insert(status.id.clone(), status.phase.clone());
                    by_shard.entry(ShardId::of(&status.id.task.job, shards).0).or_default().push(status);
                }
                for (shard, statuses) in by_shard {
                    let reported = job_shard::Event::HostReported { host: id.clone(), statuses };
                    let lost = self.strikes(Fault::MessageDropped);
                    if lost || !self.try_deliver(ShardAt { node, shard }, reported) {
                        self.owe(node, from.host, shard);
                    }
                }
            }
            HostReport::Refused { container, why } => {
                if let Refusal::Draining { version } = why {
                    self.deliver(broker, broker::Event::StartRefused { host: id.clone(), version });
                }
                let shard = ShardId::of(&container.task.job, self.region(node.region).shards).0;
                let refused = job_shard::Event::HostRefused { host: id, container, why };
                self.try_deliver(ShardAt { node, shard }, refused);
            }
            HostReport::Prepared { container, preparation } => {
                let shard = ShardId::of(&container.task.job, self.region(node.region).shards).0;
                let prepared = job_shard::Event::HostPrepared { host: id, container, preparation };
                self.try_deliver(ShardAt { node, shard }, prepared);
            }
            HostReport::Drain(attestation) => {
                let attested = broker::Event::DrainAttested { host: id, home, session: number, attestation };
                self.deliver(broker, attested);
            }
        }
    }

    /// Has a shard told all that a host has of it, behind whatever the host has said so far.
    pub(crate) fn owe(&mut self, node: NodeAt, host: u32, shard: u16) {
        let (at, life) = (self.now + self.local_delay(), self.node(node).process.life);
        let Some(lead) = &mut self.node_mut(node).lead else { return };
        let Some(link) = lead.links.get_mut(&host) else { return };
        link.owed.insert(shard);
        if !std::mem::replace(&mut link.paying, true) {
            let session = link.session;
            let host = HostAt { region: node.region, host };
            self.queue.push(at, Happening::Owed(node, life, host, session));
        }
    }

    pub(crate) fn pay_owed(&mut self, node: NodeAt, at: HostAt, session: u64) {
        let Some(link) = self.link(node, at.host, session) else { return };
        link.paying = false;
        let owed = std::mem::take(&mut link.owed);
        let unpaid: BTreeSet<u16> = owed.into_iter().filter(|shard| !self.pay(node, at, session, *shard)).collect();
        if unpaid.is_empty() {
            return;
        }
        let (again, life) = (self.now + OWED_TICK, self.node(node).process.life);
        if let Some(link) = self.link(node, at.host, session) {
            link.owed.extend(unpaid);
            link.paying = true;
            self.queue.push(again, Happening::Owed(node, life, at, session));
        }
    }

    /// Tells a shard all that the host has of it. False when it has no room for that.
    fn pay(&mut self, node: NodeAt, at: HostAt, session: u64, shard: u16) -> bool {
        let shards = self.region(node.region).shards;
        let id = self.host(at).id.clone();
        // Before the inventory has come nothing can be said, and with it every shard is told.
        let Some(link) = self.link(node, at.host, session) else { return true };
        let Some(boot) = link.boot.clone() else { return true };
        let picked = link.seen.iter().filter(|(id, _)| ShardId::of(&id.task.job, shards).0 == shard);
        let statuses = picked.map(|(id, phase)| ContainerStatus { id: id.clone(), phase: phase.clone() }).collect();
        self.try_deliver(ShardAt { node, shard }, job_shard::Event::HostListed { host: id, boot, statuses })
    }

    pub(crate) fn send_order(&mut self, node: NodeAt, host: u32, order: HostOrder) {
        let Some(lead) = &mut self.node_mut(node).lead else { return };
        let Some(link) = lead.links.get_mut(&host) else { return };
        if let HostOrder::Forget { container, .. } = &order {
            link.seen.remove(container);
        }
        let session = link.session;
        self.send_down(node, HostAt { region: node.region, host }, session, Down::Order(Box::new(order)));
    }
}
