//! Which crate may know which.
//!
//! ```text
//! types ◀─ core ◀─ wire, shell ◀┬─ runtime ◀────────────────────┐
//!   ▲       ▲───── sim          │
//!   ▲──── store ◀───────────────┤     └─▶ shim                  cli
//!   ▲──── api ◀─────────────────┴─ node ◀─ region, federation ◀─┘
//!
//! observability ◀── shell, store, node, runtime, region, federation: whoever counts. Never types and core.
//! ```

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// What a crate may depend on that is run by a node.
const ON_A_NODE: &[&str] = &[
    "polder-types",
    "polder-core",
    "polder-wire",
    "polder-shell",
    "polder-store",
    "polder-api",
    "polder-node",
    "polder-observability",
];

/// A crate of the workspace, and the others of the workspace that it may depend on.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("polder-types", &[]),
    ("polder-core", &["polder-types"]),
    ("polder-wire", &["polder-types", "polder-core"]),
    ("polder-observability", &[]),
    ("polder-shell", &["polder-types", "polder-core", "polder-observability"]),
    ("polder-store", &["polder-types", "polder-observability"]),
    ("polder-api", &["polder-types", "polder-core"]),
    (
        "polder-node",
        &[
            "polder-types",
            "polder-core",
            "polder-wire",
            "polder-shell",
            "polder-store",
            "polder-api",
            "polder-observability",
        ],
    ),
    ("polder-region", ON_A_NODE),
    ("polder-federation", ON_A_NODE),
    (
        "polder-runtime",
        &[
            "polder-types",
            "polder-core",
            "polder-wire",
            "polder-shell",
            "polder-store",
            "polder-shim",
            "polder-observability",
        ],
    ),
    ("polder-shim", &[]),
    ("polder-demo", &[]),
    (
        "polder-cli",
        &[
            "polder-types",
            "polder-core",
            "polder-wire",
            "polder-shell",
            "polder-store",
            "polder-api",
            "polder-region",
            "polder-federation",
            "polder-runtime",
        ],
    ),
    ("polder-sim", &["polder-types", "polder-core"]),
    ("polder-e2e", &["polder-types", "polder-api", "polder-store"]),
    ("xtask", &[]),
];

/// A crate from outside, and the only ones of the workspace that may depend on it.
const MAY_BE_KNOWN_BY: &[(&str, &[&str])] = &[
    ("actix", &["polder-shell"]),
    ("actix-web", &["polder-api", "polder-node", "polder-region", "polder-federation", "polder-cli"]),
    ("actix-ws", &["polder-region", "polder-federation"]),
    ("etcd-client", &["polder-store"]),
    ("fjall", &["polder-store"]),
    ("libcontainer", &["polder-shim"]),
    ("prometheus", &["polder-observability"]),
];

/// A dependency that a package declares.
#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// For tests only.
    pub(crate) dev: bool,
    pub(crate) default_features: bool,
    pub(crate) features: Vec<String>,
}

/// A package of the workspace.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
}

/// Asks cargo.
pub(crate) fn packages(root: &Path) -> Result<Vec<Package>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(root)
        .output()
        .context("cargo metadata could not be run")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata gave no JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    packages.iter().map(package).collect()
}

fn package(value: &Value) -> Result<Package> {
    let text = |value: &Value| value.as_str().map(str::to_owned).context("cargo metadata: not a text");
    let manifest = PathBuf::from(text(&value["manifest_path"])?);
    let dependencies = value["dependencies"].as_array().context("cargo metadata lists no dependencies")?;
    Ok(Package {
        name: text(&value["name"])?,
        folder: manifest.parent().context("a manifest without a folder")?.to_owned(),
        dependencies: dependencies
            .iter()
            .map(|dependency| {
                Ok(Dependency {
                    name: text(&dependency["name"])?,
                    dev: dependency["kind"].as_str() == Some("dev"),
                    default_features: dependency["uses_default_features"].as_bool().unwrap_or(true),
                    features: dependency["features"]
                        .as_array()
                        .map(|all| all.iter().filter_map(Value::as_str).map(str::to_owned).collect())
                        .unwrap_or_default(),
                })
            })
            .collect::<Result<_>>()?,
    })
}

/// Every arrow that is not allowed.
pub(crate) fn check(packages: &[Package]) -> Vec<String> {
    let mut faults = Vec::new();
    for package in packages {
        let name = &package.name;
        let Some((_, may_know)) = MAY_KNOW.iter().find(|(known, _)| known == name) else {
            faults.push(format!("`{name}` has no place among the layers: give it one in xtask/src/layers.rs"));
            continue;
        };
        for dependency in &package.dependencies {
            let other = dependency.name.as_str();
            // A crate's tests may use the crate itself with other features.
            if other == name && dependency.dev {
                continue;
            }
            let ours = packages.iter().any(|package| package.name == other);
            if ours && !may_know.contains(&other) {
                faults.push(format!("`{name}` depends on `{other}`: that arrow is not allowed"));
            }
            if let Some((_, known_by)) = MAY_BE_KNOWN_BY.iter().find(|(known, _)| *known == other)
                && !known_by.contains(&name.as_str())
            {
                faults.push(format!("`{name}` depends on `{other}`: only {} may", known_by.join(", ")));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[(&str, bool)]) -> Package {
        let dependencies = dependencies
            .iter()
            .map(|&(name, dev)| Dependency {
                name: name.to_owned(),
                dev,
                default_features: false,
                features: Vec::new(),
            })
            .collect();
        Package { name: name.to_owned(), folder: PathBuf::new(), dependencies }
    }

    #[test]
    fn arrows_point_one_way() {
        let types = package("polder-types", &[("serde", false)]);
        let core = package("polder-core", &[("polder-types", false), ("polder-core", true)]);
        assert!(check(&[types, core]).is_empty());

        let types = package("polder-types", &[("polder-core", true)]);
        let core = package("polder-core", &[("actix", false)]);
        let stray = package("polder-stray", &[]);
        let faults = check(&[types, core, stray]);
        assert_eq!(faults.len(), 3, "{faults:?}");
        assert!(faults[0].contains("`polder-types` depends on `polder-core`"));
        assert!(faults[1].contains("only polder-shell may"));
        assert!(faults[2].contains("has no place"));
    }

    #[test]
    fn this_workspace_is_in_order() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        assert_eq!(check(&packages(root).unwrap()), [""; 0]);
    }

    #[test]
    fn nobody_knows_the_command_line() {
        assert!(MAY_KNOW.iter().all(|(_, may_know)| !may_know.contains(&"polder-cli")));
    }
}
