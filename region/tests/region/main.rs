//! A region over its real protocols: people by HTTP, hosts by WebSocket.

mod drains;
mod links;
mod logs;
mod main_job;
mod metrics;
mod quotas;
mod support;
mod takeover;
mod updates;
