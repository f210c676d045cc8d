//! The layout of the federation's keys in its store.
//!
//! ```text
//! meta/identity                   name, incarnation, format
//! epochs/<actor>  owners/<actor>  who leads, and how often that changed
//! nodes/<node>    actors/<actor>  who is here, under the node's lease
//! intents/<account>/<job>         what was applied, and which region has which slots
//! quotas/<account>                what was set, and what each region has agreed to
//! ```

use polder_types::{AccountId, JobId};

/// All intents.
pub const INTENTS: &str = "intents/";

/// All quotas.
pub const QUOTAS: &str = "quotas/";

/// One intent.
#[must_use]
pub fn intent(job: &JobId) -> String {
    format!("{INTENTS}{job}")
}

/// One quota.
#[must_use]
pub fn quota(account: &AccountId) -> String {
    format!("{QUOTAS}{account}")
}
