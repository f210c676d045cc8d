//! The host machine, alone and against a runtime that is played.

mod drains;
mod orders;
mod property;
mod restarts;
mod timing;
mod world;
