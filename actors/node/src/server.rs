//! The HTTP server of a node.

use crate::{NodeError, requests::count};
use actix_web::{App, HttpServer, dev::ServerHandle, middleware::from_fn, web::ServiceConfig};
use std::net::SocketAddr;
use tokio::task::JoinHandle;

/// How long open requests may take when the node stops.
const SERVER_STOP_SECS: u64 = 2;

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    handle: ServerHandle,
    task: JoinHandle<std::io::Result<()>>,
}

impl Server {
    /// Begins to serve. `configure` is called once on each of the server's threads. Must be called within an actix
    /// system.
    ///
    /// # Errors
    /// When it can't listen there.
    pub fn start<C>(address: SocketAddr, configure: impl Fn() -> C + Clone + Send + 'static) -> Result<Self, NodeError>
    where
        C: FnOnce(&mut ServiceConfig),
    {
        let server = HttpServer::new(move || App::new().wrap(from_fn(count)).configure(configure()))
            // Whoever runs the node decides what signals mean.
            .disable_signals()
            .shutdown_timeout(SERVER_STOP_SECS)
            .bind(address)
            .map_err(|source| NodeError::Listen { address, source })?
            .run();
        Ok(Self { handle: server.handle(), task: actix_web::rt::spawn(server) })
    }

    /// Takes no more requests, and lets those that are open end, for a while.
    pub async fn stop(self) {
        self.handle.stop(true).await;
        match self.task.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the server did not stop in order"),
            Err(error) => tracing::warn!(%error, "the server did not stop in order"),
        }
    }
}
