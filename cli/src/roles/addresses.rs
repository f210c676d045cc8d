//! Addresses that roles are given.

use crate::failure::Failure;
use std::net::SocketAddr;

/// The address that others use: the one that was given, or the one listened on if that names an interface.
pub(crate) fn advertise(given: Option<String>, listen: SocketAddr) -> Result<String, Failure> {
    match given {
        Some(url) if url.starts_with("http://") || url.starts_with("https://") => {
            Ok(url.trim_end_matches('/').to_owned())
        }
        Some(url) => Err(Failure::user(format!("`{url}` is not an address that others can use"))
            .with_hint("write it as http://HOST:PORT")),
        None if listen.ip().is_unspecified() => {
            Err(Failure::user(format!("listening on {listen} says nothing about how others reach this node"))
                .with_hint(format!("add --advertise http://HOST:{}", listen.port())))
        }
        None => Ok(format!("http://{listen}")),
    }
}
