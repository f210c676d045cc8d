//! Limits and repeat times of a broker.

use polder_types::Millis;

/// A host that was not heard for so long is silent.
pub const SILENT_AFTER: Millis = Millis::from_secs(10);
/// Being heard for so long without a break makes up for all earlier silence.
pub const RECOVERED_AFTER: Millis = Millis::from_secs(120);
/// Silence that is remembered, at most.
pub const SILENCE_MAX: Millis = Millis::from_secs(7 * 24 * 3600);
/// How long after its deadline a drain waits for the host's last word.
pub const ATTEST_MARGIN: Millis = Millis::from_secs(30);
/// First time after which an order is repeated; doubles up to [`ORDER_REPEAT_MAX`].
pub const ORDER_REPEAT: Millis = Millis(2_000);
/// Longest time between two sendings of an order.
pub const ORDER_REPEAT_MAX: Millis = Millis(30_000);
/// How often the end of a drain is told to a host by itself; after that whenever the host shows that it missed it.
pub const END_DRAIN_REPEATS: u32 = 6;
/// Longest time that a drain may be given.
pub const DRAIN_MAX: Millis = Millis::from_secs(30 * 24 * 3600);
/// Hosts of one datacenter.
pub const HOSTS_MAX: usize = 200_000;
/// Longest text of a person that is kept.
pub const TEXT_BYTES_MAX: usize = 1024;
/// Deadlines handled in one wake; the rest follow in the next.
pub const DUE_PER_WAKE: usize = 4096;
