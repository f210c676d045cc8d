//! The long-running roles: federation, region, host, and all of them at once for development.

mod addresses;
pub(crate) mod dev;
pub(crate) mod federation;
pub(crate) mod host;
pub(crate) mod region;

use crate::failure::Failure;
use polder_region::StoreConfig;
use std::{future::Future, path::PathBuf};
use tokio::signal::unix::{SignalKind, signal};

/// What is logged unless POLDER_LOG says otherwise: libraries have little to say that an operator needs.
const LOG_DEFAULT: &str = "info,actix_server=warn,fjall=warn,lsm_tree=warn";

/// Where a role keeps its state.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// Folder of the embedded store
    #[arg(long, value_name = "DIR", conflicts_with = "etcd")]
    data: Option<PathBuf>,
    /// Addresses of etcd members, comma-separated, instead of a folder
    #[arg(long, value_name = "URLS", value_delimiter = ',')]
    etcd: Vec<String>,
    /// What every key in etcd begins with [default: one made of the role's name]
    #[arg(long, value_name = "PREFIX", requires = "etcd")]
    etcd_prefix: Option<String>,
}

impl StoreArgs {
    fn resolve(self, prefix: &str) -> Result<StoreConfig, Failure> {
        match (self.data, self.etcd.is_empty()) {
            (Some(dir), _) => Ok(StoreConfig::Embedded { dir }),
            (None, false) => Ok(StoreConfig::Etcd {
                endpoints: self.etcd,
                prefix: self.etcd_prefix.unwrap_or_else(|| prefix.to_owned()),
            }),
            (None, true) => Err(Failure::user("no place to keep state is given")
                .with_hint("give a folder with --data DIR, or an etcd with --etcd URLS")),
        }
    }
}

/// Ends at SIGTERM or SIGINT.
async fn shutdown() {
    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
        _ => {
            tracing::warn!("signals can't be caught: the process ends by SIGKILL only");
            std::future::pending().await
        }
    }
}

/// An error with all that caused it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some errors say their cause themselves.
        if !text.ends_with(&cause_text) {
            text.push_str(&format!(": {cause_text}"));
        }
        source = cause.source();
    }
    text
}

/// Runs a role on actix's runtime, with its log on stderr.
fn in_actix(role: impl Future<Output = Result<(), String>>) -> Result<(), Failure> {
    let filter = tracing_subscriber::EnvFilter::try_from_env("POLDER_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(LOG_DEFAULT));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    // Only a second call could fail, and then there is a log already.
    let _ = subscriber.try_init();
    actix_web::rt::System::new().block_on(role).map_err(Failure::system)
}
