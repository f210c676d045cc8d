//! Starting the agent, and ending it.

use std::{future::Future, num::NonZeroUsize, path::PathBuf, sync::Arc};

use polder_core::host;
use polder_shell::{ActorOptions, Clock, Escalation, Port, SystemClock, Tree, TreeOptions};
use polder_types::BootId;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use super::{
    AgentError, HostConfig,
    containers::{Containers, Means},
    disk::Disk,
    home::Home,
    launch::Surroundings,
    limits::{EVENTS_QUEUED_MAX, LOG_SWEEP_EVERY, LOG_TRIM_EVERY, TICK_EVERY},
    link::Linker,
    logs::Logs,
    meter::{self, HostMeter},
    outbox::Outbox,
    role::{HostRole, Parts},
};
use crate::{
    image::ImageStore,
    shim::{ShimBinary, ShimRuntime},
};

/// Runs a host's agent until `shutdown` is done, and then stops nothing: containers go on, and the next agent finds
/// them again. To be called within a tokio runtime.
///
/// # Errors
/// When the agent can't start (its configuration, its directory, its store, its shim), or when it fails again and
/// again. Containers are not touched by that either.
pub async fn run(config: HostConfig, shutdown: impl Future<Output = ()>) -> Result<(), AgentError> {
    config.check()?;
    let home = Home::take(&config.data_dir)?;
    let shim = shim_path(config.shim.as_ref())?;
    let binary = {
        let shim = shim.clone();
        blocking(move || ShimBinary::load(&shim)).await??
    };
    home.claim(&config.id, &config.region, &shim)?;
    let boot = boot_id()?;
    let disk = Disk::open(&home.store_dir()).await?;
    let image_dir = config.image_dir.clone().unwrap_or_else(|| home.image_dir());
    let images = blocking(move || ImageStore::open(image_dir)).await??;
    let logs = Logs::new(home.log_dir());
    let (runtime, exits) = ShimRuntime::new(binary, home.runtime_config(&config.id))?;

    let listener = match config.metrics {
        Some(address) => Some(meter::listen(address).await?),
        None => None,
    };
    let (gave_up, mut escalations) = mpsc::channel(1);
    let tree = Tree::new(options(gave_up))?;
    let prepared = tree.root().prepare::<host::Host>("host", ActorOptions::default().capacity(EVENTS_QUEUED_MAX));
    let events = prepared.handle().port().clone();
    let meter = HostMeter::new(prepared.handle().clone(), home.dir().to_owned());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let info = config.info();
    let around =
        Surroundings { host: config.id.clone(), region: config.region.clone(), address: config.address.clone() };
    let means = Means {
        runtime: Arc::new(runtime),
        images,
        logs: logs.clone(),
        around,
        events: events.clone(),
        clock: Arc::clone(&clock),
    };
    let recorded: Vec<_> = disk.load().await?.containers.into_iter().map(|record| record.id).collect();
    let containers = Containers::adopt(means, &recorded).await?;
    let (outbox, reports) = Outbox::new();

    let parts = Parts {
        config: host::HostConfig { info, boot: boot.clone() },
        disk: disk.clone(),
        containers: containers.clone(),
        outbox: outbox.clone(),
        workers: tokio::runtime::Handle::current(),
    };
    prepared.start(move |handle| HostRole::new(parts.clone(), handle))?;
    tracing::info!(host = %config.id, region = %config.region, data = %home.dir().display(), "the agent runs");

    // Dropped, and so ended, with this function.
    let mut tasks = JoinSet::new();
    tasks.spawn(containers.clone().take_exits(exits));
    tasks.spawn(look_after_logs(logs.clone(), containers.clone()));
    tasks.spawn(tick(events.clone()));
    let linker = Linker {
        host: config.id.clone(),
        region: config.region.clone(),
        boot,
        configured: config.region_addresses.clone(),
        disk,
        containers,
        logs,
        outbox,
        events,
        clock,
        meter: meter.clone(),
    };
    tasks.spawn(linker.run(reports));
    if let Some(listener) = listener {
        tasks.spawn(meter::serve(listener, meter));
    }

    let result = tokio::select! {
        () = shutdown => Ok(()),
        Some(error) = escalations.recv() => Err(AgentError::GaveUp { error }),
        Some(ended) = tasks.join_next() => {
            // They run for ever, so it was a panic.
            let error = ended.map_or_else(|error| error.to_string(), |()| "a part of the agent ended".to_owned());
            Err(AgentError::GaveUp { error })
        }
    };
    tasks.shutdown().await;
    let report = tree.shutdown().await;
    if !report.abandoned.is_empty() {
        tracing::warn!("the last changes may not be on disk; the next agent looks at what there is");
    }
    tracing::info!(host = %config.id, "the agent ends; containers go on");
    drop(home);
    result
}

fn options(gave_up: mpsc::Sender<String>) -> TreeOptions {
    let on_escalation = move |escalation: &Escalation| {
        // One is enough.
        let _ = gave_up.try_send(format!("{}: {}", escalation.actor, escalation.error));
    };
    TreeOptions { threads: NonZeroUsize::MIN, on_escalation: Arc::new(on_escalation), ..TreeOptions::default() }
}

pub(super) fn shim_path(given: Option<&PathBuf>) -> Result<PathBuf, AgentError> {
    match given {
        Some(path) => std::path::absolute(path).map_err(AgentError::io("find the shim program")),
        None => ShimBinary::beside_this_program().map_err(AgentError::io("find the shim program beside this one")),
    }
}

fn boot_id() -> Result<BootId, AgentError> {
    polder_shim::boot_id().map(BootId).map_err(AgentError::io("read the kernel's boot id"))
}

pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, AgentError> {
    let failed = |error: tokio::task::JoinError| AgentError::io("finish work on the disk")(error.into());
    tokio::task::spawn_blocking(work).await.map_err(failed)
}

async fn tick(events: Port<host::Event>) {
    let mut tick = interval(TICK_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        if events.send(host::Event::Ticked).await.is_err() {
            // The agent is ending, and ends this too.
            std::future::pending::<()>().await;
        }
    }
}

async fn look_after_logs(logs: Logs, containers: Containers) {
    let mut trim = interval(LOG_TRIM_EVERY);
    let mut sweep = interval(LOG_SWEEP_EVERY);
    trim.set_missed_tick_behavior(MissedTickBehavior::Delay);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = trim.tick() => logs.trim(containers.live()).await,
            _ = sweep.tick() => logs.sweep(containers.live()).await,
        }
    }
}
