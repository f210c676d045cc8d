//! The agent's side of the handshake with a shim.

use std::time::Duration;

use polder_shim::{BYTE_GO, ExitRecord, MESSAGE_CREATED, MESSAGE_ERROR, MESSAGE_RUNNING, read_record};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    time::timeout,
};

use super::{limits::MESSAGE_BYTES_MAX, process::Process, state_dir::StateDir};

/// Why a step didn't happen.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The shim says so, or ended.
    Said(String),
    /// It said nothing within the limit.
    Silent,
}

/// Waits until the container is created.
pub(crate) async fn created(
    socket: &mut UnixStream,
    shim: &Process,
    dir: &StateDir,
    limit: Duration,
) -> Result<(), Failure> {
    timeout(limit, answer(socket, shim, dir, MESSAGE_CREATED)).await.unwrap_or(Err(Failure::Silent))
}

/// Says go, and waits until the container runs.
pub(crate) async fn started(
    socket: &mut UnixStream,
    shim: &Process,
    dir: &StateDir,
    limit: Duration,
) -> Result<(), Failure> {
    // A shim that has gone can't be written to; the answer says why.
    let _ = socket.write_all(&[BYTE_GO]).await;
    timeout(limit, answer(socket, shim, dir, MESSAGE_RUNNING)).await.unwrap_or(Err(Failure::Silent))
}

async fn answer(socket: &mut UnixStream, shim: &Process, dir: &StateDir, wanted: &str) -> Result<(), Failure> {
    let mut text = Vec::new();
    // The end of the shim doesn't end the stream as long as the container's first process has a copy of it.
    let ended = tokio::select! {
        biased;
        () = read_line(socket, &mut text) => false,
        ended = shim.ended() => {
            ended.map_err(|error| Failure::Said(format!("its shim can't be watched: {error}")))?;
            true
        }
    };
    if ended {
        read_what_is_there(socket, &mut text);
    }
    let line = String::from_utf8_lossy(&text);
    let line = line.lines().next().unwrap_or("");
    if line == wanted {
        return Ok(());
    }
    if let Some(reason) = line.strip_prefix(MESSAGE_ERROR) {
        return Err(Failure::Said(reason.trim().to_owned()));
    }
    let reason = match read_record::<ExitRecord>(&dir.exit()) {
        Ok(ExitRecord { outcome: polder_shim::Outcome::NotStarted { reason }, .. }) => reason,
        _ => "its shim ended without saying why".to_owned(),
    };
    Err(Failure::Said(reason))
}

/// Reads up to the end of the first line, the end of the stream, or the limit.
async fn read_line(socket: &mut UnixStream, text: &mut Vec<u8>) {
    while !text.contains(&b'\n') && text.len() < MESSAGE_BYTES_MAX {
        match socket.read_buf(text).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

fn read_what_is_there(socket: &UnixStream, text: &mut Vec<u8>) {
    while text.len() < MESSAGE_BYTES_MAX {
        match socket.try_read_buf(text) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}
