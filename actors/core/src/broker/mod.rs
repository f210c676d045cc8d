#![doc = include_str!("README.md")]

mod drain;
mod event;
mod explain;
mod home;
mod hosts;
mod invariant;
pub mod limits;
mod state;
mod step;
mod view;

pub use event::{Config, Delta, Done, Effect, Event, Refused, Session};
pub use hosts::Broker;
pub use state::{Cordon, DrainRecord, DrainState, HostRecord};
pub use view::{DrainProgress, HostView};
