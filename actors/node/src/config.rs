//! Where a node keeps its state.

use polder_store::{EmbeddedStore, EtcdStore, MeteredStore, Store, StoreError};
use std::{path::PathBuf, sync::Arc, time::Duration};

/// How long a node may be unable to reach its store before others may take over.
pub const LEASE_TTL_DEFAULT: Duration = Duration::from_secs(10);

/// Where a node keeps its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreConfig {
    /// In a folder, for one node.
    Embedded {
        /// The folder.
        dir: PathBuf,
    },
    /// In an etcd, for any number of nodes.
    Etcd {
        /// Its members' addresses.
        endpoints: Vec<String>,
        /// What every key begins with, so that several regions can share an etcd.
        prefix: String,
    },
}

/// Opens a store.
///
/// # Errors
/// When it can't be opened.
pub async fn open_store(config: &StoreConfig) -> Result<Arc<dyn Store>, StoreError> {
    Ok(match config {
        StoreConfig::Embedded { dir } => {
            let dir = dir.join("store");
            let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(dir)).await;
            let opened = opened.map_err(|error| StoreError::Unavailable { why: error.to_string() })?;
            Arc::new(MeteredStore::new(opened?, "embedded"))
        }
        StoreConfig::Etcd { endpoints, prefix } => {
            Arc::new(MeteredStore::new(EtcdStore::connect(endpoints, prefix).await?, "etcd"))
        }
    })
}
