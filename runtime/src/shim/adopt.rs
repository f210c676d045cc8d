//! Taking over what an earlier agent left.
//!
//! What a state directory says, and what is found:
//!
//! ```text
//! lock held   shim.json says started    it runs, and its shim lives
//!             exit.json                 its shim is cleaning up: wait for that
//!             otherwise                 the old agent died between create and start: the shim undoes it, wait for that
//! lock free   exit.json                 it ended
//!             started, process lives    it runs without a shim
//!             started                   it ended and nobody saw how
//!             otherwise                 it never ran: clear it away
//! an order of an earlier boot
//!             exit.json                 it ended
//!             otherwise                 it ended with the machine, and nobody saw how
//! ```
//!
//! A directory that can't be understood is left alone, and reported.

use std::{collections::BTreeSet, io, sync::Arc};

use polder_shim::{ExitRecord, Launch, Outcome, ShimRecord, read_record};
use polder_types::{ContainerId, Timestamp};
use tokio::{
    sync::watch as state,
    time::{Instant, sleep},
};

use super::{
    Adopted, Exit, RuntimeError,
    container::{Container, Stage, exit_of},
    limits::{SETTLE_LIMIT, SETTLE_PAUSE},
    process::Process,
    runtime::{Host, blocking},
    spawn::clear,
    state_dir::{StateDir, is_being_removed, remove_all},
    watch::unknown,
};

type Found = (Adopted, Option<Container>);

/// Every container that has a state directory and isn't one of the agent's own.
pub(crate) async fn all(host: &Arc<Host>, own: &BTreeSet<String>) -> Result<Vec<Found>, RuntimeError> {
    let root = &host.config.state_root;
    let names = names(root).map_err(RuntimeError::io(format!("list the containers in {}", root.display())))?;
    let mut found = Vec::with_capacity(names.len());
    let mut known = Vec::with_capacity(names.len());
    for name in names {
        if is_being_removed(&name) {
            let dir = root.join(&name);
            if let Err(error) = blocking(move || remove_all(&dir)).await {
                tracing::error!(name, %error, "the rest of a removed container can't be removed");
            }
            continue;
        }
        if own.contains(&name) {
            known.push(name);
            continue;
        }
        match one(host, &name).await {
            Ok(one) => found.push(one),
            Err(reason) => {
                let dir = root.join(&name);
                tracing::error!(dir = %dir.display(), reason, "a container's directory can't be understood; it is left alone");
                found.push((Adopted::Unreadable { dir, reason }, None));
            }
        }
        known.push(name);
    }
    drop_orphans(host, &known).await;
    Ok(found)
}

fn names(root: &std::path::Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let entry = entry?;
        if entry.file_type()?.is_dir()
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Layers of containers whose state has gone: their state was in memory before a reboot.
async fn drop_orphans(host: &Arc<Host>, known: &[String]) {
    let root = host.config.scratch_root.clone();
    let known: BTreeSet<String> = known.iter().cloned().collect();
    let done = blocking(move || {
        for name in names(&root)?.iter().filter(|name| !known.contains(*name)) {
            remove_all(&root.join(name))?;
        }
        Ok(())
    });
    if let Err(error) = done.await {
        tracing::error!(%error, "what removed containers wrote can't be removed");
    }
}

async fn one(host: &Arc<Host>, name: &str) -> Result<Found, String> {
    let dir = host.dir(name);
    let launch = match read_record::<Launch>(&dir.launch()) {
        Ok(launch) => launch,
        // The order is written before the shim is started.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return cleaned(host, &dir, name, None, "no order to start it was written").await;
        }
        Err(error) => return Err(error.to_string()),
    };
    let id: ContainerId = launch.id.parse().map_err(|error| format!("{error}"))?;

    if launch.boot_id != host.boot_id {
        // None of its processes can be there.
        return match read::<ExitRecord>(&dir.exit())? {
            Some(ExitRecord { outcome: Outcome::NotStarted { reason }, .. }) => {
                cleaned(host, &dir, name, Some(id), &reason).await
            }
            Some(exit) => Ok(ended(host, &dir, name, exit_of(&id, &exit))),
            None => {
                let mut exit = unknown(&id, "the machine was restarted".to_owned());
                let shim = read::<ShimRecord>(&dir.shim())?;
                exit.started_at = shim.and_then(|shim| shim.started_at_ms).map(Timestamp);
                Ok(ended(host, &dir, name, exit))
            }
        };
    }

    let alive = settled(&dir).await?;
    let shim: Option<ShimRecord> = read(&dir.shim())?;
    if !alive && let Some(exit) = read::<ExitRecord>(&dir.exit())? {
        return match exit.outcome {
            Outcome::NotStarted { reason } => cleaned(host, &dir, name, Some(id), &reason).await,
            _ => Ok(ended(host, &dir, name, exit_of(&id, &exit))),
        };
    }
    let Some((shim, started_at)) = shim.and_then(|shim| shim.started_at_ms.map(|at| (shim, Timestamp(at)))) else {
        return cleaned(host, &dir, name, Some(id), "it was never started").await;
    };
    let running = Container {
        id: id.clone(),
        cgroup: host.cgroup(name),
        init: Process::open(shim.init).ok(),
        shim: if alive { Process::open(shim.shim).ok() } else { None },
        stage: Stage::Started.into(),
        ended: state::channel(None).0,
        dir,
    };
    match (&running.init, &running.shim) {
        // The shim lives and will tell, even if the process has just ended.
        (init, Some(_)) => {
            let pid = init.as_ref().map_or(0, Process::pid);
            Ok((Adopted::Running { id, pid, started_at, shim_alive: true }, Some(running)))
        }
        (Some(init), None) => {
            let pid = init.pid();
            Ok((Adopted::Running { id, pid, started_at, shim_alive: false }, Some(running)))
        }
        (None, None) => {
            let reason = "it ended while neither its shim nor an agent was there";
            let mut exit = unknown(&id, reason.to_owned());
            exit.started_at = Some(started_at);
            exit.oom_kills = host.cgroups.oom_kills(&running.cgroup);
            let cgroup = running.cgroup.clone();
            let cgroups = host.cgroups.clone();
            let left = blocking(move || cgroups.kill(&cgroup)).await.map_err(|error| error.to_string())?;
            if left > 0 {
                return Err(format!("{left} of its processes don't die"));
            }
            running.ended.send_replace(Some(exit.clone()));
            Ok((Adopted::Ended(exit), Some(running)))
        }
    }
}

/// Whether the shim lives, once it is in a state that lasts: without one, or with a container that was started.
async fn settled(dir: &StateDir) -> Result<bool, String> {
    let until = Instant::now() + SETTLE_LIMIT;
    loop {
        if dir.lock().map_err(|error| error.to_string())?.is_some() {
            return Ok(false);
        }
        let started = read::<ShimRecord>(&dir.shim())?.is_some_and(|shim| shim.started_at_ms.is_some());
        let ending = dir.exit().exists();
        if started && !ending {
            return Ok(true);
        }
        if Instant::now() >= until {
            return Err(format!("its shim has done nothing for {} s", SETTLE_LIMIT.as_secs()));
        }
        sleep(SETTLE_PAUSE).await;
    }
}

async fn cleaned(
    host: &Arc<Host>,
    dir: &StateDir,
    name: &str,
    id: Option<ContainerId>,
    reason: &str,
) -> Result<Found, String> {
    let (host, dir, name) = (Arc::clone(host), dir.clone(), name.to_owned());
    blocking(move || clear(&host.cgroups, &host.cgroup(&name), &dir)).await.map_err(|error| error.to_string())?;
    Ok((Adopted::Cleaned { id, reason: reason.to_owned() }, None))
}

fn ended(host: &Arc<Host>, dir: &StateDir, name: &str, exit: Exit) -> Found {
    let container = Container {
        id: exit.id.clone(),
        dir: dir.clone(),
        cgroup: host.cgroup(name),
        init: None,
        shim: None,
        stage: Stage::Started.into(),
        ended: state::channel(Some(exit.clone())).0,
    };
    (Adopted::Ended(exit), Some(container))
}

/// A record, if it is there.
fn read<R: serde::de::DeserializeOwned + polder_shim::Versioned>(path: &std::path::Path) -> Result<Option<R>, String> {
    match read_record(path) {
        Ok(record) => Ok(Some(record)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}
