//! The shim: creates one container, starts it when the agent says so, waits for it, and writes down how it ended.
//!
//! One thread, always: libcontainer clones and then runs ordinary code in the child. Static, so that nothing of an
//! image is ever loaded into it. Run from a sealed memfd, so that a container that gets hold of it can't change it.
//! Files and handshake are described in the library of this package.

mod create;
mod log;
mod overlay;
mod user;
mod wait;

use std::{path::Path, process::ExitCode};

use polder_shim::VERSION_LINE;

const USAGE: &str =
    "polder-shim is started by `polder host`, one for each container. It has nothing for people but --version.";

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let args: Vec<Option<&str>> = args.iter().map(|arg| arg.to_str()).collect();
    let result = match args.as_slice() {
        [Some("--version")] => return say(VERSION_LINE),
        [Some("create"), Some(dir)] => create::run(Path::new(dir)),
        [Some("wait"), Some(dir), Some(pid)] => match pid.parse() {
            Ok(pid) => wait::run(Path::new(dir), pid),
            Err(_) => Err(format!("`{pid}` is not a process number")),
        },
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            log::line(&reason);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "this is the answer to --version")]
fn say(text: &str) -> ExitCode {
    println!("{text}");
    ExitCode::SUCCESS
}
