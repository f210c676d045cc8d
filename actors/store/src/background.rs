//! The thread that keeps leases alive and watches open.
//!
//! It is one for the whole process and apart from every actor's thread, so that a long step of a machine can't cost
//! a lease, and a connection outlives the arbiter that opened it.

use std::{io, sync::OnceLock};
use tokio::runtime::{Builder, Handle, Runtime};

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// The background runtime, started when it is first asked for.
pub(crate) fn background() -> io::Result<&'static Handle> {
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime.handle());
    }
    let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("polder-store").enable_all().build()?;
    // Somebody else may have been faster; a runtime must not be dropped inside another one, so it is shut down aside.
    if let Err(spare) = RUNTIME.set(runtime) {
        spare.shutdown_background();
    }
    RUNTIME.get().map(Runtime::handle).ok_or_else(|| io::Error::other("the background runtime is gone"))
}
