//! Checks of the workspace that no lint can make. `cargo xtask help` lists them.
#![expect(clippy::print_stdout, reason = "a command-line tool prints")]

mod layers;
mod no_std;
mod text;

use anyhow::{Context as _, Result, bail};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

const HELP: &str = "\
cargo xtask COMMAND

  layers       dependencies point one way, and the pure crates are `no_std`
  check-sizes  files are short, and nothing was left for later
  check        both";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let root = root()?;
    match std::env::args().nth(1).as_deref() {
        Some("layers") => layers(&root),
        Some("check-sizes") => sizes(&root),
        Some("check") => layers(&root).and_then(|()| sizes(&root)),
        Some("help" | "--help" | "-h") | None => {
            println!("{HELP}");
            Ok(())
        }
        Some(other) => bail!("there is no command `{other}`\n{HELP}"),
    }
}

fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(Path::to_owned).context("xtask has no folder above it")
}

fn layers(root: &Path) -> Result<()> {
    let packages = layers::packages(root)?;
    let mut faults = layers::check(&packages);
    faults.extend(no_std::check(&packages)?);
    report("layers", packages.len(), "packages", &faults)
}

fn sizes(root: &Path) -> Result<()> {
    let files = text::files(root)?;
    let (warnings, faults) = text::check(root, &files)?;
    for warning in warnings {
        println!("warning: {warning}");
    }
    report("check-sizes", files.len(), "files", &faults)
}

fn report(check: &str, looked_at: usize, what: &str, faults: &[String]) -> Result<()> {
    if faults.is_empty() {
        println!("{check}: {looked_at} {what}, all well");
        return Ok(());
    }
    for fault in faults {
        println!("error: {fault}");
    }
    bail!("{check}: {} fault(s)", faults.len())
}
