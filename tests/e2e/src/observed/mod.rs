//! What is needed to look at a cluster as a person on call does: the repository's rules, dashboards and runbooks, and a real
//! Prometheus and Alertmanager.

mod files;
mod http;
mod promql;
mod runbook;
mod servers;

pub use files::{Dashboard, Query, Rule, dashboards, declared_metrics, repository, rule_files, rules};
pub use promql::{Selector, selectors};
pub use runbook::{Runbook, runbooks};
pub use servers::{Alertmanager, Prometheus, Setup, missing_program};
