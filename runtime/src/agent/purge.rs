//! Stopping and removing everything on a host.

use std::{collections::BTreeMap, fs, io::ErrorKind, path::Path, time::SystemTime};

use polder_core::host::Delta;
use polder_types::{ContainerId, ExitStatus, Timestamp};
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    AgentError,
    disk::Disk,
    error::chain,
    home::{Home, Identity},
    limits::{PURGE_GRACE, PURGE_PAUSE, PURGE_TIMEOUT, PURGE_TRIES},
    run::{blocking, shim_path},
};
use crate::shim::{Adopted, Runtime, RuntimeError, ShimBinary, ShimRuntime};

const SIGTERM: i32 = 15;

/// Stops and removes all containers of a data directory whose agent does not run: for a host that is taken out of
/// service, or a trial that is over. Data, images and logs stay. Should an agent run on the directory again, it
/// reports the containers as ended.
///
/// # Errors
/// When an agent uses the directory, or when something could not be removed: then it says what.
pub async fn purge(data_dir: &Path) -> Result<(), AgentError> {
    if !data_dir.exists() {
        return Ok(());
    }
    let home = Home::take(data_dir)?;
    // Without an identity no agent has ever begun anything here.
    let Some(identity) = home.identity()? else { return Ok(()) };
    end_records(&home).await?;
    let left = remove_all(&home, &identity).await?;
    if left.is_empty() {
        remove_run_dir(&home, &identity)?;
        Ok(())
    } else {
        Err(AgentError::Left { left })
    }
}

/// Notes that all containers have ended: first, so that no agent takes what is stopped here for running.
async fn end_records(home: &Home) -> Result<(), AgentError> {
    let disk = Disk::open(&home.store_dir()).await?;
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX));
    let records = disk.load().await?.containers;
    let ended = records.into_iter().filter(|record| record.ended.is_none()).map(|mut record| {
        let reason = "everything on the host was stopped and removed".to_owned();
        record.ended = Some((ExitStatus::Unknown { reason }, now));
        Delta::PutContainer(record)
    });
    disk.write(ended.collect()).await
}

async fn remove_all(home: &Home, identity: &Identity) -> Result<Vec<String>, AgentError> {
    let shim = if identity.shim.exists() { identity.shim.clone() } else { shim_path(None)? };
    let binary = blocking(move || ShimBinary::load(&shim)).await??;
    // Ends are waited for one by one, so nobody reads them from the channel.
    let (runtime, _exits) = ShimRuntime::new(binary, home.runtime_config(&identity.host))?;
    let mut running: BTreeMap<ContainerId, bool> = BTreeMap::new();
    let mut left = Vec::new();
    for adopted in runtime.adopt().await? {
        match adopted {
            Adopted::Running { id, .. } => running.insert(id, true),
            Adopted::Ended(exit) => running.insert(exit.id, false),
            Adopted::Cleaned { .. } => None,
            Adopted::Unreadable { dir, reason } => {
                left.push(format!("{} can't be read: {reason}", dir.display()));
                None
            }
        };
    }
    let live: Vec<&ContainerId> = running.iter().filter(|(_, runs)| **runs).map(|(id, _)| id).collect();
    for id in &live {
        if let Err(error) = runtime.signal(id, SIGTERM).await {
            tracing::debug!(container = %id, error = chain(&error), "could not be signalled; it is killed");
        }
    }
    let grace = Instant::now() + PURGE_GRACE;
    let mut stubborn = Vec::new();
    for id in live {
        if timeout_at(grace, runtime.wait(id)).await.is_err() {
            stubborn.push(id);
        }
    }
    for id in &stubborn {
        if let Err(error) = runtime.kill(id).await {
            left.push(format!("{id} could not be killed: {}", chain(&error)));
        }
    }
    let limit = Instant::now() + PURGE_TIMEOUT;
    for id in stubborn {
        if timeout_at(limit, runtime.wait(id)).await.is_err() {
            left.push(format!("{id} was killed and is still there"));
        }
    }
    for id in running.keys() {
        if let Err(error) = remove(&runtime, id).await {
            left.push(chain(&error));
        }
    }
    Ok(left)
}

async fn remove(runtime: &ShimRuntime, id: &ContainerId) -> Result<(), RuntimeError> {
    let mut tried = 0;
    loop {
        tried += 1;
        match runtime.remove(id).await {
            Ok(()) | Err(RuntimeError::NotFound { .. }) => return Ok(()),
            Err(error) if tried >= PURGE_TRIES => return Err(error),
            Err(_) => sleep(PURGE_PAUSE).await,
        }
    }
}

/// Removes the directory in memory, which is empty now, and the one above it if no other host is there.
fn remove_run_dir(home: &Home, identity: &Identity) -> Result<(), AgentError> {
    let dir = home.run_dir(&identity.host);
    match fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(AgentError::io(format!("remove {}", dir.display()))(error));
        }
        _ => {}
    }
    if let Some(parent) = dir.parent() {
        // Other hosts may be there.
        let _ = fs::remove_dir(parent);
    }
    Ok(())
}
