//! As much of HTTP as a scraper and a probe need: `GET`, one request to a connection.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};

use super::HostMeter;
use crate::agent::AgentError;

/// Connections served at once; others wait.
const CONNECTIONS_MAX: usize = 16;
/// Longest request that is read.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// How long a request may take, from its first byte to the last of the answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause when the system gives no more connections.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Begins to listen.
///
/// # Errors
/// When the address can't be had.
pub(in crate::agent) async fn listen(address: SocketAddr) -> Result<TcpListener, AgentError> {
    let what = format!("listen on {address} for --metrics; is another process using it?");
    TcpListener::bind(address).await.map_err(|source| AgentError::Io { what, source })
}

/// Answers for as long as it is not dropped.
pub(in crate::agent) async fn serve(listener: TcpListener, meter: HostMeter) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // Never closed.
        let Ok(turn) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let meter = meter.clone();
                tokio::spawn(async move {
                    let answered = timeout(REQUEST_TIMEOUT, answer(stream, &meter)).await;
                    if !matches!(answered, Ok(Ok(()))) {
                        tracing::debug!("a request for metrics broke off");
                    }
                    drop(turn);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "no connection can be taken");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn answer(mut stream: TcpStream, meter: &HostMeter) -> std::io::Result<()> {
    let Some(request) = read_head(&mut stream).await? else {
        return respond(&mut stream, "431 Request Header Fields Too Large", TEXT, "the request is too long\n").await;
    };
    match target(&request) {
        Ok("/metrics") => {
            respond(&mut stream, "200 OK", polder_observability::CONTENT_TYPE, &meter.encode().await).await
        }
        Ok("/healthz") => respond(&mut stream, "200 OK", TEXT, "ok\n").await,
        Ok("/readyz") => match meter.ready() {
            Ok(()) => respond(&mut stream, "200 OK", TEXT, "ok\n").await,
            Err(why) => respond(&mut stream, "503 Service Unavailable", TEXT, &format!("{why}\n")).await,
        },
        Ok(_) => {
            let there_is = "there are /metrics, /healthz and /readyz\n";
            respond(&mut stream, "404 Not Found", TEXT, there_is).await
        }
        Err(status) => respond(&mut stream, status, TEXT, "only GET is answered\n").await,
    }
}

const TEXT: &str = "text/plain; charset=utf-8";

/// A request up to its empty line; none when it is too long.
async fn read_head(stream: &mut TcpStream) -> std::io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    loop {
        let read = stream.read(&mut piece).await?;
        if read == 0 {
            return Ok(Some(head));
        }
        head.extend_from_slice(&piece[..read]);
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(Some(head));
        }
        if head.len() >= REQUEST_BYTES_MAX {
            return Ok(None);
        }
    }
}

/// The path that is asked for, without its query; or the status that refuses the request.
fn target(request: &[u8]) -> Result<&str, &'static str> {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = std::str::from_utf8(line).map_err(|_| "400 Bad Request")?;
    let mut words = line.split(' ');
    match (words.next(), words.next(), words.next()) {
        (Some("GET"), Some(target), Some(version)) if version.starts_with("HTTP/1.") => {
            Ok(target.split('?').next().unwrap_or_default())
        }
        (Some(_), Some(_), Some(version)) if version.starts_with("HTTP/1.") => Err("405 Method Not Allowed"),
        _ => Err("400 Bad Request"),
    }
}

async fn respond(stream: &mut TcpStream, status: &str, kind: &str, body: &str) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_understood_or_refused() {
        assert_eq!(target(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n"), Ok("/metrics"));
        assert_eq!(target(b"GET /metrics?x=1 HTTP/1.0\r\n\r\n"), Ok("/metrics"));
        assert_eq!(target(b"POST /metrics HTTP/1.1\r\n\r\n"), Err("405 Method Not Allowed"));
        for wrong in ["", "GET", "GET /metrics", "GET /metrics SPDY\r\n", "\u{0}\r\n"] {
            assert_eq!(target(wrong.as_bytes()), Err("400 Bad Request"), "{wrong:?}");
        }
        assert_eq!(target(b"GET /\xff HTTP/1.1\r\n"), Err("400 Bad Request"));
    }
}
