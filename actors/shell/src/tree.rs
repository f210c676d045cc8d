//! The supervision tree: who started whom, who restarts whom, and in which order all of it ends.

use crate::{
    ActorOptions, ActorStatus, Clock, Handle, Port, RestartPolicy, SystemClock,
    driver::Exit,
    faults::{Faults, Verdict},
    inbox::Inbox,
    launch::{Ended, Home, Identity, Launch},
    query::QUERIES_WAITING_MAX,
    role::{EventOf, RestoreReason, Role},
    shell::Control,
    spawner::{SpawnError, Spawner},
    status::{ActorState, Probe},
};
use actix::prelude::Recipient;
use polder_core::machine::Machine;
use polder_types::{Millis, Timestamp};
use std::{
    collections::VecDeque,
    fmt,
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use tokio::sync::mpsc;

/// Actors of one tree at most.
const ACTORS_MAX: usize = 16_384;
/// How long one actor may take to finish its commits when the tree is shut down.
const STOP_GRACE: Millis = Millis::from_secs(10);

/// The top of the tree gave up: whoever runs the process decides, and mostly ends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Escalation {
    /// The actor whose failure it began with.
    pub actor: String,
    /// What went wrong with it last.
    pub error: String,
}

/// How a tree is run.
#[derive(Clone)]
pub struct TreeOptions {
    /// Threads that actors are spread over; each actor stays on one.
    pub threads: NonZeroUsize,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// How many failures of its children the root bears.
    pub restarts: RestartPolicy,
    /// Called when the root gives up.
    pub on_escalation: Arc<dyn Fn(&Escalation) + Send + Sync>,
}

impl fmt::Debug for TreeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeOptions")
            .field("threads", &self.threads)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            clock: Arc::new(SystemClock),
            restarts: RestartPolicy::default(),
            on_escalation: Arc::new(|escalation| {
                tracing::error!(
                    actor = escalation.actor,
                    error = escalation.error,
                    "gave up; nobody was told what to do then"
                );
            }),
        }
    }
}

/// How a shutdown went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Stopped, in this order.
    pub stopped: Vec<String>,
    /// Did not finish in time; their last commits may or may not be durable.
    pub abandoned: Vec<String>,
}

/// Why an actor was not stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// No such actor.
    #[error("there is no actor `{name}`")]
    Unknown {
        /// The name.
        name: String,
    },
    /// It did not finish in time.
    #[error("`{name}` did not finish its commits in time; they may or may not be durable")]
    TooSlow {
        /// The name.
        name: String,
    },
}

struct Slot {
    id: u64,
    group: usize,
    actor: Arc<dyn Launch>,
    /// While there is an actor.
    control: Option<Recipient<Control>>,
    /// Not any more: it is to end, and not to be started again.
    wanted: bool,
}

struct GroupNode {
    name: String,
    parent: Option<usize>,
    faults: Faults<String>,
}

struct State {
    /// In the order of their first start.
    slots: Vec<Slot>,
    /// The root is the first.
    groups: Vec<GroupNode>,
    next_id: u64,
    down: bool,
}

struct Inner {
    state: Mutex<State>,
    spawner: Spawner,
    options: TreeOptions,
    ended: mpsc::Sender<Ended>,
}

/// All actors of a process.
///
/// Actors belong to groups, groups to groups. An actor that fails too often ends, and its group starts a fresh one
/// behind the same port; a group that had to do that too often has all its actors started again by the group above; when
/// the root has had enough, [`TreeOptions::on_escalation`] is called and the actor stays down, in the open, as
/// [`ActorState::Escalated`], with its port still there and filling up.
#[derive(Clone)]
pub struct Tree(Arc<Inner>);

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.status()).finish()
    }
}

/// A node of the tree that holds actors.
#[derive(Clone, Debug)]
pub struct Group {
    tree: Tree,
    at: usize,
}

/// A name with a port, whose actor does not run yet: for actors that must know each other's ports.
#[must_use = "the actor does not run until it is started"]
pub struct Prepared<M: Machine> {
    tree: Tree,
    group: usize,
    id: u64,
    options: ActorOptions,
    handle: Handle<M>,
    inbox: Inbox<M>,
    probe: Arc<Probe>,
}

impl<M: Machine> fmt::Debug for Prepared<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("handle", &self.handle).finish_non_exhaustive()
    }
}

impl Slot {
    /// From now on it is to end.
    fn retire(&mut self) -> (Arc<dyn Launch>, Option<Recipient<Control>>) {
        self.wanted = false;
        (Arc::clone(&self.actor), self.control.clone())
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.spawner.stop();
    }
}

impl Tree {
    /// A tree with threads of its own.
    ///
    /// # Errors
    /// When the threads can't be started.
    pub fn new(options: TreeOptions) -> Result<Self, SpawnError> {
        let spawner = Spawner::threads(options.threads)?;
        Ok(Self::with(spawner, options))
    }

    /// A tree on the calling thread, which must be one of an actix system. With tokio's clock paused, tests decide how
    /// time passes for its actors.
    #[must_use]
    pub fn on_this_thread(options: TreeOptions) -> Self {
        Self::with(Spawner::Here, options)
    }

    fn with(spawner: Spawner, options: TreeOptions) -> Self {
        let (ended, notices) = mpsc::channel(ACTORS_MAX);
        let root = GroupNode { name: String::new(), parent: None, faults: Faults::new(options.restarts) };
        let state = State { slots: Vec::new(), groups: vec![root], next_id: 0, down: false };
        let inner = Arc::new(Inner { state: Mutex::new(state), spawner, options, ended });
        inner.spawner.supervise(supervise(Arc::downgrade(&inner), notices));
        Self(inner)
    }

    /// The root.
    #[must_use]
    pub fn root(&self) -> Group {
        Group { tree: self.clone(), at: 0 }
    }

    /// The status table, in the order in which the actors were first started.
    #[must_use]
    pub fn status(&self) -> Vec<ActorStatus> {
        self.0.state().slots.iter().map(|slot| slot.actor.status()).collect()
    }

    /// Lets an actor handle events of a quarantined key again; `key` is the key's text in the status table.
    ///
    /// # Errors
    /// When there is no such actor.
    pub async fn release(&self, name: &str, key: &str) -> Result<(), StopError> {
        let control = {
            let state = self.0.state();
            let slot = state.slots.iter().find(|slot| slot.actor.probe().name() == name);
            let slot = slot.ok_or_else(|| StopError::Unknown { name: name.to_owned() })?;
            slot.control.clone()
        };
        if let Some(control) = control {
            tell(&control, Control::Release(key.to_owned())).await;
        }
        Ok(())
    }

    /// Stops one actor for good: it takes no more events, finishes its commits, and its port closes.
    ///
    /// # Errors
    /// When there is no such actor, or when it does not finish in time.
    pub async fn stop(&self, name: &str) -> Result<(), StopError> {
        let found = {
            let mut state = self.0.state();
            let slot = state.slots.iter_mut().find(|slot| slot.actor.probe().name() == name);
            slot.map(Slot::retire)
        };
        let (actor, control) = found.ok_or_else(|| StopError::Unknown { name: name.to_owned() })?;
        if stop_one(&actor, control.as_ref()).await {
            Ok(())
        } else {
            Err(StopError::TooSlow { name: name.to_owned() })
        }
    }

    /// Stops all actors, the last started first, each when the one before it has finished; then the threads.
    pub async fn shutdown(&self) -> ShutdownReport {
        let actors: Vec<_> = {
            let mut state = self.0.state();
            state.down = true;
            state.slots.iter_mut().rev().map(Slot::retire).collect()
        };
        let mut report = ShutdownReport::default();
        for (actor, control) in actors {
            let name = actor.probe().name().to_owned();
            if stop_one(&actor, control.as_ref()).await {
                report.stopped.push(name);
            } else {
                tracing::error!(actor = name, "did not finish in time; its last commits may or may not be durable");
                report.abandoned.push(name);
            }
        }
        let inner = Arc::clone(&self.0);
        // Joining threads blocks.
        if tokio::task::spawn_blocking(move || inner.spawner.stop()).await.is_err() {
            tracing::error!("the actor threads could not be joined");
        }
        report
    }

    fn launch(&self, id: u64, reason: RestoreReason) {
        let mut state = self.0.state();
        let Some(slot) = state.slots.iter_mut().find(|slot| slot.id == id && slot.wanted) else { return };
        if slot.actor.probe().state().is_over() {
            return;
        }
        match Arc::clone(&slot.actor).launch(&self.0.spawner, reason) {
            Ok(Some(control)) => slot.control = Some(control),
            Ok(None) => {}
            Err(error) => tracing::error!(actor = slot.actor.probe().name(), %error, "could not be started again"),
        }
    }
}

async fn tell(control: &Recipient<Control>, what: Control) {
    if let Err(error) = control.send(what).await {
        tracing::debug!(%error, "the actor has ended already");
    }
}

async fn stop_one(actor: &Arc<dyn Launch>, control: Option<&Recipient<Control>>) -> bool {
    let stopping = async {
        // Without an actor there is nothing to wait for, and no new one is started.
        if let Some(control) = control {
            tell(control, Control::Stop).await;
            actor.probe().wait_for(ActorState::is_over).await;
        }
    };
    let in_time = tokio::time::timeout(STOP_GRACE.to_duration(), stopping).await.is_ok();
    if in_time {
        actor.close();
        actor.probe().set(ActorState::Stopped);
    }
    in_time
}

impl Group {
    fn path(&self, name: &str) -> String {
        let state = self.tree.0.state();
        let parent = &state.groups[self.at].name;
        if parent.is_empty() { name.to_owned() } else { format!("{parent}/{name}") }
    }

    /// Adds a group below this one.
    #[must_use]
    pub fn group(&self, name: &str, restarts: RestartPolicy) -> Self {
        let name = self.path(name);
        let mut state = self.tree.0.state();
        state.groups.push(GroupNode { name, parent: Some(self.at), faults: Faults::new(restarts) });
        Self { tree: self.tree.clone(), at: state.groups.len() - 1 }
    }

    /// The tree.
    #[must_use]
    pub const fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Makes a port for an actor that is started later. Events wait in it.
    pub fn prepare<M: Machine>(&self, name: &str, options: ActorOptions) -> Prepared<M> {
        let probe = Arc::new(Probe::new(self.path(name), Arc::clone(&self.tree.0.options.clock)));
        let (port, events) = Port::detached(options.capacity);
        let (asked, queries) = mpsc::channel(QUERIES_WAITING_MAX);
        let handle = Handle::new(port, asked, Arc::clone(&probe));
        let id = {
            let mut state = self.tree.0.state();
            state.next_id += 1;
            state.next_id
        };
        let inbox = Inbox { events, queries, held: VecDeque::new() };
        Prepared { tree: self.tree.clone(), group: self.at, id, options, handle, inbox, probe }
    }

    /// Starts an actor. `make` makes its role: on the actor's thread, and once more for each restart of the whole actor.
    ///
    /// # Errors
    /// When the name is in use, there are too many actors, or the tree was shut down.
    pub fn spawn<R: Role>(
        &self,
        name: &str,
        options: ActorOptions,
        make: impl Fn(Handle<R::Machine>) -> R + Send + Sync + 'static,
    ) -> Result<Handle<R::Machine>, SpawnError>
    where
        EventOf<R>: Send,
    {
        self.prepare(name, options).start(make)
    }
}

impl<M: Machine> Prepared<M> {
    /// The handle, with the port.
    #[must_use]
    pub const fn handle(&self) -> &Handle<M> {
        &self.handle
    }

    /// Starts the actor.
    ///
    /// # Errors
    /// When the name is in use, there are too many actors, or the tree was shut down.
    pub fn start<R: Role<Machine = M>>(
        self,
        make: impl Fn(Handle<M>) -> R + Send + Sync + 'static,
    ) -> Result<Handle<M>, SpawnError> {
        let Self { tree, group, id, options, handle, inbox, probe } = self;
        let inner = &tree.0;
        let identity = Identity {
            id,
            options,
            clock: Arc::clone(&inner.options.clock),
            probe: Arc::clone(&probe),
            ended: inner.ended.clone(),
        };
        let actor: Arc<dyn Launch> = Arc::new(Home::new(identity, inbox, handle.clone(), make));
        let mut state = inner.state();
        if state.down {
            return Err(SpawnError::Down);
        }
        if state.slots.len() >= ACTORS_MAX {
            state.slots.retain(|slot| !slot.actor.probe().state().is_over());
        }
        if state.slots.len() >= ACTORS_MAX {
            return Err(SpawnError::TooMany { limit: ACTORS_MAX });
        }
        // A name may be used again once its actor was stopped.
        let same_name = |slot: &Slot| slot.actor.probe().name() == probe.name();
        if state.slots.iter().any(|slot| same_name(slot) && !slot.actor.probe().state().is_over()) {
            return Err(SpawnError::NameTaken { name: probe.name().to_owned() });
        }
        state.slots.retain(|slot| !same_name(slot));
        let control = Arc::clone(&actor).launch(&inner.spawner, RestoreReason::Started)?;
        state.slots.push(Slot { id, group, actor, control, wanted: true });
        Ok(handle)
    }
}

/// What the supervisor does about an end, decided under the lock and done outside of it.
enum Answer {
    Nothing,
    Start { ids: Vec<u64>, pause: Millis },
    Escalate(Escalation),
}

async fn supervise(inner: Weak<Inner>, mut notices: mpsc::Receiver<Ended>) {
    while let Some(ended) = notices.recv().await {
        let Some(inner) = inner.upgrade() else { return };
        let tree = Tree(inner);
        match tree.judge(&ended) {
            Answer::Nothing => {}
            Answer::Start { ids, pause } => {
                let weak = Arc::downgrade(&tree.0);
                let clock = Arc::clone(&tree.0.options.clock);
                // On a task of its own: other actors' ends are not to wait for this pause.
                actix::spawn(async move {
                    clock.sleep_until(clock.now() + pause).await;
                    if let Some(inner) = weak.upgrade() {
                        let tree = Tree(inner);
                        for id in ids {
                            tree.launch(id, RestoreReason::Restarted);
                        }
                    }
                });
            }
            Answer::Escalate(escalation) => (tree.0.options.on_escalation)(&escalation),
        }
    }
}

impl Tree {
    fn judge(&self, ended: &Ended) -> Answer {
        let now = self.0.options.clock.now();
        let mut state = self.0.state();
        let Some(slot) = state.slots.iter_mut().find(|slot| slot.id == ended.actor) else { return Answer::Nothing };
        slot.control = None;
        let probe = Arc::clone(slot.actor.probe());
        let group = slot.group;
        match ended.exit {
            Exit::Stopped | Exit::NotOwner => slot.wanted = false,
            Exit::Replaced if slot.wanted => return Answer::Start { ids: vec![ended.actor], pause: Millis(0) },
            Exit::GaveUp | Exit::Died if slot.wanted => {
                let error = slot.actor.status().last_error.unwrap_or_else(|| "nothing is known of it".to_owned());
                let answer = state.climb(group, ended.actor, now, Escalation { actor: probe.name().to_owned(), error });
                if matches!(answer, Answer::Escalate(_)) {
                    probe.set(ActorState::Escalated);
                }
                return answer;
            }
            Exit::Replaced | Exit::GaveUp | Exit::Died => {}
        }
        slot.actor.close();
        probe.set(ActorState::Stopped);
        Answer::Nothing
    }
}

impl State {
    /// Looks for the first group, upwards, that bears one more failure.
    fn climb(&mut self, group: usize, failed: u64, now: Timestamp, escalation: Escalation) -> Answer {
        let (mut at, mut ids) = (group, vec![failed]);
        loop {
            let faults = &mut self.groups[at].faults;
            if faults.judge(now, None) != Verdict::Escalate {
                let pause = faults.pause(now);
                self.replace(&ids, failed);
                tracing::warn!(group = self.groups[at].name, actors = ids.len(), "starting actors again");
                return Answer::Start { ids: vec![failed], pause };
            }
            let Some(parent) = self.groups[at].parent else { return Answer::Escalate(escalation) };
            ids = self.slots.iter().filter(|slot| self.is_within(slot.group, at)).map(|slot| slot.id).collect();
            at = parent;
        }
    }

    fn is_within(&self, group: usize, ancestor: usize) -> bool {
        let mut at = Some(group);
        while let Some(here) = at {
            if here == ancestor {
                return true;
            }
            at = self.groups[here].parent;
        }
        false
    }

    /// Has the others of a group end; each is started again when its end is noticed.
    fn replace(&self, ids: &[u64], failed: u64) {
        for slot in self.slots.iter().filter(|slot| slot.id != failed && ids.contains(&slot.id)) {
            if let Some(control) = &slot.control
                && let Err(error) = control.try_send(Control::Replace)
            {
                tracing::warn!(actor = slot.actor.probe().name(), %error, "could not be told to start again");
            }
        }
    }
}
