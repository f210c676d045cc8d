//! The agent with real containers, and a region that is played. Needs root, a static busybox (Debian: `busybox-static`)
//! and the shim program (`runtime/shim/build.sh`; `POLDER_SHIM` says where it is, otherwise it is looked for in the
//! target directory). Without one of these the tests say so and pass.
//!
//! Each test leaves nothing behind and checks that: no process, mount, cgroup or file.

mod harness;
mod life;
mod link;
mod purge;
mod region;
mod restart;
