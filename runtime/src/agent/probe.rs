//! Asking a container over HTTP whether it is well.

use std::net::Ipv4Addr;

use polder_core::host::HttpProbe;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::limits::PROBE_ANSWER_BYTES_MAX;

/// Whether the container answers with 2xx or 3xx in time.
pub(super) async fn ask(probe: &HttpProbe) -> bool {
    matches!(timeout(probe.timeout.to_duration(), status(probe)).await, Ok(Some(200..=399)))
}

async fn status(probe: &HttpProbe) -> Option<u16> {
    if probe.path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return None;
    }
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, probe.port)).await.ok()?;
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: localhost:{}\r\nUser-Agent: polder\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        probe.path, probe.port
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    let mut piece = [0; 256];
    while !answer.contains(&b'\n') && answer.len() < PROBE_ANSWER_BYTES_MAX {
        let read = stream.read(&mut piece).await.ok()?;
        if read == 0 {
            break;
        }
        answer.extend_from_slice(&piece[..read]);
    }
    parse_status(&answer)
}

/// The number in `HTTP/1.1 200 OK`.
fn parse_status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    words.next().filter(|version| version.starts_with("HTTP/1."))?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use polder_types::Millis;
    use tokio::net::TcpListener;

    #[test]
    fn the_status_is_read_from_the_first_line() {
        assert_eq!(parse_status(b"HTTP/1.1 204 No Content\r\nA: b\r\n"), Some(204));
        assert_eq!(parse_status(b"HTTP/1.0 503\r\n"), Some(503));
        for other in [&b""[..], b"SSH-2.0-x\r\n", b"HTTP/1.1\r\n", b"HTTP/1.1 abc\r\n", &[0xff; 20]] {
            assert_eq!(parse_status(other), None);
        }
    }

    #[tokio::test]
    async fn a_container_is_well_when_it_says_so() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let probe = |path: &str| HttpProbe { port, path: path.to_owned(), timeout: Millis(20_000) };
        let server = tokio::spawn(async move {
            for answer in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 500 No\r\n\r\n", ""] {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = vec![0; 512];
                let read = stream.read(&mut request).await.unwrap();
                assert!(request[..read].starts_with(b"GET /health HTTP/1.1\r\n"));
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        assert!(ask(&probe("/health")).await);
        assert!(!ask(&probe("/health")).await);
        assert!(!ask(&probe("/health")).await, "one that says nothing is not well");
        server.await.unwrap();
        assert!(!ask(&probe("/health")).await, "nor one that is not there");
        assert!(!ask(&probe("/x\r\nEvil: 1")).await);
    }
}
