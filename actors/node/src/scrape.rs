//! What the gauges of every node have in common: they are read from machines when somebody scrapes, and not too often.

use polder_core::machine::Machine;
use polder_observability::{ActorKind, Gauges, Mailbox};
use polder_shell::Handle;
use polder_types::{AccountId, Amounts};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Gauges that are this new are shown again rather than asked for.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// How long machines may take to answer a scrape. One that does not is shown as it was.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(3);
/// Accounts of which quotas are shown.
pub const ACCOUNTS_SHOWN_MAX: usize = 1000;

/// Keeps scrapes from asking machines too often.
#[derive(Debug, Default)]
pub struct Scrapes(Mutex<Option<Instant>>);

impl Scrapes {
    /// Brings gauges up to date, unless they are.
    pub async fn refresh(&self, update: impl Future<Output = ()>) {
        let mut refreshed = self.0.lock().await;
        if refreshed.is_some_and(|at| at.elapsed() < FRESH_FOR) {
            return;
        }
        update.await;
        *refreshed = Some(Instant::now());
    }
}

/// What a machine shows; none when it does not answer in time.
pub async fn shown_by<M: Machine, T: Send + 'static>(
    actor: &Handle<M>,
    read: impl FnOnce(&M) -> T + Send + 'static,
) -> Option<T> {
    tokio::time::timeout(SCRAPE_TIMEOUT, actor.query(read)).await.ok()?.ok()
}

/// How full an actor's mailbox is.
pub fn mailbox<M: Machine>(kind: ActorKind, actor: &Handle<M>) -> Mailbox {
    let status = actor.port().status();
    Mailbox { kind, depth: status.depth, oldest: Duration::from_millis(status.oldest_ms_max) }
}

/// Shows amounts by account and resource.
pub fn show_amounts<'a>(gauges: &Gauges<2>, accounts: impl Iterator<Item = (&'a AccountId, Amounts)>) {
    gauges.show(accounts.flat_map(|(account, Amounts { cpu, memory, tasks })| {
        let account = account.to_string();
        let amounts = [
            ("cpu_cores", cores(u64::from(cpu.centi_cores()))),
            ("memory_bytes", float(memory.get())),
            ("tasks", f64::from(tasks)),
        ];
        amounts.map(|(resource, amount)| ([account.clone(), resource.to_owned()], amount))
    }));
}

/// Cores, of hundredths of them.
#[must_use]
pub const fn cores(centi_cores: u64) -> f64 {
    float(centi_cores) / 100.0
}

/// A gauge's value.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a gauge is a float; what is lost is less than a part in 2^52")]
pub const fn float(amount: u64) -> f64 {
    amount as f64
}

/// A gauge's value, of a count.
#[must_use]
pub fn number(count: usize) -> f64 {
    float(u64::try_from(count).unwrap_or(u64::MAX))
}
