//! The pure crates can't reach a clock, a disk or a network, because they have no standard library.

use crate::{layers::Package, text};
use anyhow::{Context as _, Result};
use std::{fs, path::Path};

const PURE: &[&str] = &["polder-types", "polder-core"];

/// What pure crates may depend on. Each of these was seen to do without the standard library when its default features
/// are off.
const PURE_DEPENDENCIES: &[&str] = &["polder-types", "serde", "thiserror", "hashbrown", "rand_chacha", "rand_core"];

/// Every way in which a pure crate is not.
pub(crate) fn check(packages: &[Package]) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for package in packages.iter().filter(|package| PURE.contains(&package.name.as_str())) {
        faults.extend(dependencies(package));
        let source = package.folder.join("src");
        let root = source.join("lib.rs");
        if !read(&root)?.lines().any(|line| line.trim() == "#![no_std]") {
            faults.push(format!("{}: `#![no_std]` is missing", root.display()));
        }
        for file in text::rust_files(&source)? {
            let lines = reaches_for_std(&read(&file)?);
            faults.extend(lines.into_iter().map(|line| {
                format!("{}:{line}: `extern crate std` outside of `#[cfg(test)]` in a pure crate", file.display())
            }));
        }
    }
    Ok(faults)
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("{} can't be read", file.display()))
}

fn dependencies(package: &Package) -> Vec<String> {
    let mut faults = Vec::new();
    for dependency in package.dependencies.iter().filter(|dependency| !dependency.dev) {
        let (name, other) = (&package.name, &dependency.name);
        if !PURE_DEPENDENCIES.contains(&other.as_str()) {
            faults.push(format!(
                "`{name}` depends on `{other}`, which is not known to do without the standard library \
                 (the list is in xtask/src/no_std.rs)"
            ));
        }
        let ours = other.starts_with("polder-");
        if !ours && (dependency.default_features || dependency.features.iter().any(|feature| feature == "std")) {
            faults.push(format!("`{name}` takes `{other}` with its standard-library features; turn them off"));
        }
    }
    faults
}

/// The lines that bring the standard library in, other than for tests.
fn reaches_for_std(source: &str) -> Vec<usize> {
    let mut faults = Vec::new();
    let mut before = "";
    for (at, line) in source.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("extern crate std") && before != "#[cfg(test)]" {
            faults.push(at + 1);
        }
        if !line.is_empty() {
            before = line;
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_library_is_for_tests() {
        assert!(reaches_for_std("#![no_std]\n#[cfg(test)]\nextern crate std;\n").is_empty());
        assert_eq!(reaches_for_std("#![no_std]\nextern crate alloc;\nextern crate std;\n"), [3]);
        assert_eq!(reaches_for_std("#[cfg(feature = \"x\")]\n  extern crate std as s;"), [2]);
    }
}
