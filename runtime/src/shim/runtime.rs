//! The real [`Runtime`].

use std::{
    collections::{BTreeMap, btree_map::Entry},
    io,
    num::NonZero,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use polder_shim::{Launch, PROTOCOL_VERSION, ShimRecord, boot_id, cgroup::Cgroups, read_record};
use polder_types::ContainerId;
use rustix::process::Signal;
use tokio::{
    net::UnixStream,
    sync::{Semaphore, mpsc, watch as state},
    task::spawn_blocking,
};

use super::{
    Adopted, ContainerUsage, Created, Exit, LaunchSpec, Runtime, RuntimeError, ShimBinary, adopt,
    container::{Container, Stage},
    handshake::{self, Failure},
    limits::{CREATE_LIMIT, CREATES_PER_CORE, EXITS_QUEUED_MAX, START_LIMIT},
    spawn::{self, Spawned},
    spec::{self, HostFacts},
    state_dir::{StateDir, container_name},
    watch::watch,
};

/// Where an agent keeps its containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShimRuntimeConfig {
    /// One directory for each container's state. Best on a file system in memory (`/run/polder/HOST/containers`): it
    /// is of no use after a reboot.
    pub state_root: PathBuf,
    /// One directory for each container's own layer, what it writes. On a disk that overlayfs can use.
    pub scratch_root: PathBuf,
    /// The cgroup below which each container has its own (`/polder/HOST`), absolute from each hierarchy's root.
    pub cgroup_parent: PathBuf,
}

/// What all containers of an agent share.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) config: ShimRuntimeConfig,
    pub(crate) cgroups: Cgroups,
    /// Of this boot.
    pub(crate) boot_id: String,
    facts: HostFacts,
    binary: ShimBinary,
    limits: Limits,
    /// Held while a container is created.
    creates: Semaphore,
}

/// How long a shim may take.
#[derive(Clone, Copy, Debug)]
struct Limits {
    create: Duration,
    start: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { create: CREATE_LIMIT, start: START_LIMIT }
    }
}

impl Host {
    pub(crate) fn dir(&self, name: &str) -> StateDir {
        StateDir::new(&self.config.state_root, &self.config.scratch_root, name)
    }

    pub(crate) fn cgroup(&self, name: &str) -> PathBuf {
        self.config.cgroup_parent.join(name)
    }
}

/// What an id stands for.
#[derive(Debug)]
enum Slot {
    /// It is being created or removed.
    Busy(&'static str),
    Here(Arc<Container>),
}

type Slots = BTreeMap<ContainerId, Slot>;

/// Runs containers, each under a shim of its own.
///
/// Dropping it leaves started containers running; those that were only created are undone by their shims.
#[derive(Debug)]
pub struct ShimRuntime {
    host: Arc<Host>,
    slots: Arc<Mutex<Slots>>,
    exits: mpsc::Sender<Exit>,
}

impl ShimRuntime {
    /// Makes the directories. Ends of containers come out of the receiver.
    ///
    /// # Errors
    /// When a directory can't be made or the host's cgroups can't be found.
    pub fn new(binary: ShimBinary, config: ShimRuntimeConfig) -> Result<(Self, mpsc::Receiver<Exit>), RuntimeError> {
        for dir in [&config.state_root, &config.scratch_root] {
            std::fs::create_dir_all(dir).map_err(RuntimeError::io(format!("make the directory {}", dir.display())))?;
        }
        if !config.cgroup_parent.is_absolute() || config.cgroup_parent == Path::new("/") {
            let wrong = io::Error::from(io::ErrorKind::InvalidInput);
            return Err(RuntimeError::io("use that cgroup: it must be absolute and not the root")(wrong));
        }
        let cgroups = Cgroups::of_host().map_err(RuntimeError::io("find the host's cgroups"))?;
        let boot_id = boot_id().map_err(RuntimeError::io("read the boot id"))?;
        let facts = HostFacts::of(&cgroups);
        let (exits, receiver) = mpsc::channel(EXITS_QUEUED_MAX);
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let creates = Semaphore::new(cores * CREATES_PER_CORE);
        let host = Arc::new(Host { config, cgroups, boot_id, facts, binary, limits: Limits::default(), creates });
        Ok((Self { host, slots: Arc::default(), exits }, receiver))
    }

    /// With other limits on how long a shim may take to create and to start its container.
    #[must_use]
    pub fn with_limits(mut self, create: Duration, start: Duration) -> Self {
        if let Some(host) = Arc::get_mut(&mut self.host) {
            host.limits = Limits { create, start };
        }
        self
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: &ContainerId) -> Result<Arc<Container>, RuntimeError> {
        match self.slots().get(id) {
            Some(Slot::Here(container)) => Ok(Arc::clone(container)),
            Some(Slot::Busy(state)) => Err(RuntimeError::WrongState { id: id.clone(), state }),
            None => Err(RuntimeError::NotFound { id: id.clone() }),
        }
    }

    /// Takes over a container and waits for its end from now on.
    fn keep(&self, container: Container) -> Arc<Container> {
        let container = Arc::new(container);
        let known = container.has_ended();
        self.slots().insert(container.id.clone(), Slot::Here(Arc::clone(&container)));
        if !known {
            tokio::spawn(watch(Arc::clone(&self.host), Arc::clone(&container), self.exits.clone()));
        }
        container
    }

    async fn launch(&self, spec: LaunchSpec) -> Result<Container, RuntimeError> {
        let id = spec.id.clone();
        spec::check(&spec).map_err(|reason| RuntimeError::BadSpec { id: id.clone(), reason })?;
        // Nobody closes it.
        let _turn = self.host.creates.acquire().await;
        let name = container_name(&id);
        let (dir, cgroup) = (self.host.dir(&name), self.host.cgroup(&name));
        if dir.state.exists() {
            return Err(RuntimeError::Exists { id });
        }
        let launch = Launch {
            version: PROTOCOL_VERSION,
            id: id.to_string(),
            boot_id: self.host.boot_id.clone(),
            name,
            lower_layers: spec.layers.iter().rev().cloned().collect(),
            upper: dir.upper(),
            work: dir.work(),
            stdout: spec.stdout.clone(),
            stderr: spec.stderr.clone(),
            user: spec.user.clone(),
            spec: spec::oci(&spec, &self.host.facts, &dir, &cgroup),
        };
        let (host, at) = (Arc::clone(&self.host), dir.clone());
        let spawned = blocking(move || {
            host.cgroups.make(&host.config.cgroup_parent)?;
            spawn::spawn(&host.binary, &at, &launch, &spec.hostname)
        })
        .await;
        let result = match spawned {
            Ok(Spawned { shim, socket }) => self.shake(&id, &dir, shim, socket).await,
            Err(error) => Err(RuntimeError::io(format!("start the shim of container {id}"))(error)),
        };
        match result {
            Ok((shim, init, socket)) => {
                let stage = Mutex::new(Stage::Created(socket));
                let (ended, _) = state::channel(None);
                Ok(Container { id, dir, cgroup, init: Some(init), shim: Some(shim), stage, ended })
            }
            Err(error) => {
                let cgroups = self.host.cgroups.clone();
                if let Err(error) = blocking(move || spawn::clear(&cgroups, &cgroup, &dir)).await {
                    tracing::error!(%id, %error, "a container that could not be created left something behind");
                }
                Err(error)
            }
        }
    }

    async fn shake(
        &self,
        id: &ContainerId,
        dir: &StateDir,
        shim: super::process::Process,
        socket: std::os::unix::net::UnixStream,
    ) -> Result<(super::process::Process, super::process::Process, UnixStream), RuntimeError> {
        let (step, limit) = ("created", self.host.limits.create);
        let failed = |reason: String| RuntimeError::Failed { id: id.clone(), step, reason };
        let opened = async {
            let mut socket = UnixStream::from_std(socket).map_err(|error| failed(error.to_string()))?;
            handshake::created(&mut socket, &shim, dir, limit).await.map_err(|failure| match failure {
                Failure::Said(reason) => failed(reason),
                Failure::Silent => RuntimeError::TimedOut { id: id.clone(), step, limit },
            })?;
            let record: ShimRecord = read_record(&dir.shim()).map_err(|error| failed(error.to_string()))?;
            let init = super::process::Process::open(record.init).map_err(|error| failed(error.to_string()))?;
            Ok((init, socket))
        };
        match opened.await {
            Ok((init, socket)) => Ok((shim, init, socket)),
            Err(error) => {
                let _ = shim.signal(Signal::KILL);
                // Reaps it.
                let _ = shim.ended().await;
                Err(error)
            }
        }
    }
}

/// File work, off the threads that must not wait.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Holds an id while something is done to it, and lets it go however that ends.
struct Hold {
    slots: Arc<Mutex<Slots>>,
    id: ContainerId,
    /// What the id stands for afterwards.
    after: Option<Arc<Container>>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        match self.after.take() {
            Some(container) => slots.insert(self.id.clone(), Slot::Here(container)),
            None => slots.remove(&self.id),
        };
    }
}

#[async_trait]
impl Runtime for ShimRuntime {
    async fn create(&self, spec: LaunchSpec) -> Result<Created, RuntimeError> {
        let id = spec.id.clone();
        match self.slots().entry(id.clone()) {
            Entry::Occupied(_) => return Err(RuntimeError::Exists { id }),
            Entry::Vacant(place) => place.insert(Slot::Busy("being created")),
        };
        let hold = Hold { slots: Arc::clone(&self.slots), id, after: None };
        // In a task of its own: whoever asked may stop waiting, but what was begun is always brought to an end.
        let this = self.share();
        let task = tokio::spawn(async move {
            let container = this.launch(spec).await?;
            let pid = container.init.as_ref().map_or(0, super::process::Process::pid);
            let mut hold = hold;
            hold.after = Some(this.keep(container));
            Ok(Created { pid })
        });
        task.await.unwrap_or_else(|error| Err(RuntimeError::io("create a container")(io::Error::other(error))))
    }

    async fn start(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let container = self.find(id)?;
        let wrong = |state| RuntimeError::WrongState { id: id.clone(), state };
        if container.has_ended() {
            return Err(wrong("at its end already"));
        }
        let (Some(mut socket), Some(shim)) = (container.take_created(), &container.shim) else {
            return Err(wrong("started already"));
        };
        let limit = self.host.limits.start;
        match handshake::started(&mut socket, shim, &container.dir, limit).await {
            Ok(()) => {
                container.set_started();
                Ok(())
            }
            Err(Failure::Said(reason)) => Err(RuntimeError::Failed { id: id.clone(), step: "started", reason }),
            Err(Failure::Silent) => {
                let _ = shim.signal(Signal::KILL);
                Err(RuntimeError::TimedOut { id: id.clone(), step: "started", limit })
            }
        }
    }

    async fn wait(&self, id: &ContainerId) -> Result<Exit, RuntimeError> {
        let container = self.find(id)?;
        let mut ended = container.ended.subscribe();
        let exit = ended.wait_for(Option::is_some).await.ok().and_then(|exit| exit.clone());
        exit.ok_or_else(|| RuntimeError::NotFound { id: id.clone() })
    }

    async fn signal(&self, id: &ContainerId, signal: i32) -> Result<(), RuntimeError> {
        let container = self.find(id)?;
        let what = || format!("send signal {signal} to container {id}");
        let signal = Signal::from_named_raw(signal)
            .ok_or_else(|| RuntimeError::io(what())(io::Error::from(io::ErrorKind::InvalidInput)))?;
        match &container.init {
            Some(init) if !container.has_ended() => init.signal(signal).map_err(RuntimeError::io(what())),
            _ => Ok(()),
        }
    }

    async fn kill(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let container = self.find(id)?;
        if container.has_ended() {
            return Ok(());
        }
        let what = || format!("kill container {id}");
        // One that was only created is undone by its shim, when the socket closes.
        if container.take_created().is_some() {
            return Ok(());
        }
        if let Some(init) = &container.init {
            init.signal(Signal::KILL).map_err(RuntimeError::io(what()))?;
        }
        let (cgroups, cgroup) = (self.host.cgroups.clone(), container.cgroup.clone());
        let left = blocking(move || cgroups.kill(&cgroup)).await.map_err(RuntimeError::io(what()))?;
        if left > 0 {
            // In the kernel, most likely, where it will die when it comes out.
            tracing::warn!(%id, left, "processes were killed and are not gone yet");
        }
        Ok(())
    }

    async fn remove(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let container = self.find(id)?;
        if !container.has_ended() {
            return Err(RuntimeError::WrongState { id: id.clone(), state: "still running" });
        }
        let hold = {
            let mut slots = self.slots();
            match slots.get_mut(id) {
                Some(slot @ Slot::Here(_)) => *slot = Slot::Busy("being removed"),
                _ => return Err(RuntimeError::WrongState { id: id.clone(), state: "being removed" }),
            }
            Hold { slots: Arc::clone(&self.slots), id: id.clone(), after: Some(Arc::clone(&container)) }
        };
        let cgroups = self.host.cgroups.clone();
        let task = tokio::spawn(async move {
            let mut hold = hold;
            let result = blocking(move || spawn::clear(&cgroups, &container.cgroup, &container.dir)).await;
            if result.is_ok() {
                hold.after = None;
            }
            result
        });
        let result = task.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        result.map_err(RuntimeError::io(format!("remove container {id}")))?;
        self.drop_empty_parents();
        Ok(())
    }

    async fn adopt(&self) -> Result<Vec<Adopted>, RuntimeError> {
        // What this agent has begun itself is none of it.
        let own = self.slots().keys().map(container_name).collect();
        let found = adopt::all(&self.host, &own).await?;
        let mut answers = Vec::with_capacity(found.len());
        for (answer, container) in found {
            if let Some(container) = container {
                self.keep(container);
            }
            answers.push(answer);
        }
        self.drop_empty_parents();
        Ok(answers)
    }

    async fn usage(&self, id: &ContainerId) -> Result<ContainerUsage, RuntimeError> {
        let container = self.find(id)?;
        let host = Arc::clone(&self.host);
        blocking(move || Ok(crate::cgroup::usage(&host.cgroups, &container.cgroup)))
            .await
            .map_err(RuntimeError::io(format!("read what container {id} uses")))
    }

    async fn processes(&self, id: &ContainerId) -> Result<Vec<u32>, RuntimeError> {
        let container = self.find(id)?;
        let cgroups = self.host.cgroups.clone();
        let pids = blocking(move || cgroups.processes(&container.cgroup))
            .await
            .map_err(RuntimeError::io(format!("list the processes of container {id}")))?;
        Ok(pids.into_iter().filter_map(|pid| u32::try_from(pid).ok()).collect())
    }
}

impl ShimRuntime {
    /// The same runtime for a task of its own.
    fn share(&self) -> Self {
        Self { host: Arc::clone(&self.host), slots: Arc::clone(&self.slots), exits: self.exits.clone() }
    }

    /// Without containers the host keeps no cgroup of ours. Whoever creates one at this moment is not disturbed: what
    /// isn't empty can't be removed, and while something is being created its id is there.
    fn drop_empty_parents(&self) {
        let slots = self.slots();
        if !slots.is_empty() {
            return;
        }
        let parent = &self.host.config.cgroup_parent;
        for path in parent.ancestors().filter(|path| *path != Path::new("/")) {
            self.host.cgroups.remove_if_empty(path);
        }
    }
}
