//! What surrounds each machine of the federation: where its state lives and what its effects mean.

mod ledger;
mod router;

pub(crate) use ledger::LedgerRole;
pub(crate) use router::RouterRole;
