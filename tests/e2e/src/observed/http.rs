//! Just enough HTTP to ask a server on this machine for JSON.

use serde_json::Value;
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(30);

/// The JSON at a path; none if there is no answer or it is no JSON.
pub(crate) fn json(address: &str, path: &str, query: &[(&str, &str)]) -> Option<Value> {
    let query: Vec<String> = query.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    // Version 1.0, so that the answer comes in one piece and ends with the connection.
    write!(stream, "GET {path}?{} HTTP/1.0\r\nHost: {address}\r\n\r\n", query.join("&")).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
