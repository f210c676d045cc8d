//! The one registry of a process.

use prometheus::{Registry, TextEncoder, core::Collector, process_collector::ProcessCollector};
use std::sync::LazyLock;

/// The content type of what [`encode`] gives.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let registry = Registry::new();
    // Memory, processor time, open files, threads. It can only be refused if it is there already.
    let _ = registry.register(Box::new(ProcessCollector::for_self()));
    registry
});

/// # Panics
/// When two families have one name, or one is no name: a mistake in a declaration, which the tests of this crate meet.
pub(crate) fn register(collector: impl Collector + 'static) {
    if let Err(error) = REGISTRY.register(Box::new(collector)) {
        panic!("a metric is declared wrongly: {error}");
    }
}

/// Everything that this process has counted and measured, as Prometheus reads it.
#[must_use]
pub fn encode() -> String {
    let mut text = String::new();
    if let Err(error) = TextEncoder::new().encode_utf8(&REGISTRY.gather(), &mut text) {
        // What is written already is of use; a scraper sees from this line that it is not all.
        text.push_str(&format!("\n# incomplete: {error}\n"));
    }
    text
}
