//! The store: an ordered map of versioned keys with compare-and-swap transactions, prefix watches and leases.
//!
//! ```text
//!   owner · identity · registry · follow      what Polder keeps in it, and how owners are fenced
//!                  │
//!            trait Store                      get, list, commit, watch, leases, compact
//!            ┌─────┴─────┐
//!      EmbeddedStore   EtcdStore              one directory of one process · an etcd cluster
//! ```
//!
//! Start at [`Store`]. Both implementations pass one suite (the module `conformance`), so nothing above may care which
//! one it has. What the store must never do: acknowledge what is not durable, or let a deposed owner write.

pub mod clock;
pub mod embedded;
pub mod etcd;
pub mod follow;
pub mod identity;
pub mod lease;
pub mod limits;
pub mod metered;
pub mod owner;
pub mod registry;
pub mod sequence;
pub mod store;
pub mod txn;
pub mod watch;

mod background;

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "testing")]
pub mod testing;

pub use clock::Moment;
pub use embedded::EmbeddedStore;
pub use etcd::EtcdStore;
pub use lease::{Lease, LeaseId};
pub use metered::MeteredStore;
pub use sequence::commit_all;
pub use store::{Commit, Conflict, Entry, Listing, Revision, Store, StoreError};
pub use txn::{Compare, Op, Txn, TxnRefused};
pub use watch::{WatchEvent, WatchStream};
