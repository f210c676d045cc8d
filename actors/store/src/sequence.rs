//! Changes that are too many for one transaction.

use crate::{
    limits::{TXN_BYTES_MAX, TXN_OPS_MAX},
    store::{Commit, Store},
    txn::{Compare, Op, Txn, TxnRefused},
};
use std::mem;

/// Commits operations in order, in as many transactions as they need, each under `fence`; stops at the first that is
/// not committed. So a beginning of them may be durable: each must be valid without those behind it.
///
/// Without operations it checks the fence.
///
/// # Errors
/// When an operation is too big for a transaction of its own, or one transaction would change a key twice. Nothing
/// has been written then.
pub async fn commit_all(store: &dyn Store, ops: Vec<Op>, fence: &[Compare]) -> Result<Commit, TxnRefused> {
    let mut last = None;
    for txn in split(ops, fence)? {
        match store.commit(txn).await {
            Commit::Committed { revision } => last = Some(revision),
            other => return Ok(other),
        }
    }
    match last {
        Some(revision) => Ok(Commit::Committed { revision }),
        None => Ok(store.commit(Txn::new(fence.to_vec(), Vec::new())?).await),
    }
}

/// Cuts operations into transactions, in order, each under `fence`.
///
/// # Errors
/// When one of them can't be made.
pub fn split(ops: Vec<Op>, fence: &[Compare]) -> Result<Vec<Txn>, TxnRefused> {
    let fence_bytes: usize = fence.iter().map(Compare::bytes).sum();
    let mut txns = Vec::new();
    let mut part = Vec::new();
    let mut bytes = fence_bytes;
    for op in ops {
        let full = part.len() == TXN_OPS_MAX || bytes + op.bytes() > TXN_BYTES_MAX;
        if full && !part.is_empty() {
            txns.push(Txn::new(fence.to_vec(), mem::take(&mut part))?);
            bytes = fence_bytes;
        }
        bytes += op.bytes();
        part.push(op);
    }
    if !part.is_empty() {
        txns.push(Txn::new(fence.to_vec(), part)?);
    }
    Ok(txns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_keeps_order_and_limits() {
        let ops: Vec<_> = (0..300).map(|n| Op::put(format!("k/{n:03}"), vec![0; 10_000])).collect();
        let fence = [Compare::value("epochs/x", "1")];
        let txns = split(ops.clone(), &fence).unwrap();
        assert!(txns.len() >= 3);
        assert!(txns.iter().all(|txn| txn.ops().len() <= TXN_OPS_MAX && txn.bytes() <= TXN_BYTES_MAX));
        assert!(txns.iter().all(|txn| txn.compares() == fence));
        let joined: Vec<_> = txns.into_iter().flat_map(|txn| txn.into_parts().1).collect();
        assert_eq!(joined, ops);
    }

    #[test]
    fn split_refuses_what_never_fits() {
        let ops = vec![Op::put("small", "x"), Op::put("big", vec![0; TXN_BYTES_MAX + 1])];
        assert!(matches!(split(ops, &[]), Err(TxnRefused::TooManyBytes { .. })));
    }
}
