//! The list of all metrics, for people.

use crate::{Actors, Api, Family, Federation, Host, Kind, Process, Region, Stores};

/// A part, and what is declared for it.
#[derive(Clone, Copy, Debug)]
pub struct Module {
    /// Its heading.
    pub title: &'static str,
    /// Which processes have it.
    pub processes: &'static str,
    /// Its families.
    pub families: &'static [Family],
}

/// Everything that is declared, part by part.
#[must_use]
pub const fn declared() -> &'static [Module] {
    &[
        Module { title: "Process", processes: "federation, region, host", families: Process::FAMILIES },
        Module { title: "API", processes: "federation, region", families: Api::FAMILIES },
        Module { title: "Actors", processes: "federation, region, host", families: Actors::FAMILIES },
        Module { title: "Store", processes: "federation, region, host", families: Stores::FAMILIES },
        Module { title: "Region", processes: "region", families: Region::FAMILIES },
        Module { title: "Federation", processes: "federation", families: Federation::FAMILIES },
        Module { title: "Host", processes: "host", families: Host::FAMILIES },
    ]
}

/// The families that a process of this role has and that `text`, as it answers at `/metrics`, does not show. For tests:
/// what is declared and never touched is a mistake.
#[must_use]
pub fn unseen(role: &str, text: &str) -> Vec<&'static str> {
    let has = |name: &str, kind: Kind| {
        let suffix = if matches!(kind, Kind::Histogram(_)) { "_count" } else { "" };
        text.lines().any(|line| {
            line.strip_prefix(name)
                .and_then(|rest| rest.strip_prefix(suffix))
                .is_some_and(|rest| rest.starts_with(['{', ' ']))
        })
    };
    let of_role = declared().iter().filter(|module| module.processes.contains(role));
    of_role
        .flat_map(|module| module.families)
        .map(|family| (family.name, family.kind))
        .filter_map(|(name, kind)| (!has(name, kind)).then_some(name))
        .collect()
}

/// `docs/reference/metrics.md`.
#[must_use]
pub fn reference() -> String {
    let mut text = String::from(
        "# Metrics\n\n\
         Generated from the declarations in `observability/src`. Every process answers `GET /metrics` in Prometheus's \
         text format: federation and region nodes on their API's address, a host's agent on the address given by \
         `--metrics`. What a process has is shown once it has been touched. Nothing is labelled by task, job, container or \
         host; `actor` is a kind, `account` shows at most 1,000 accounts. Beside these, each process has the \
         `process_*` metrics of the Prometheus client: memory, processor time, open files, threads.\n",
    );
    for module in declared() {
        text.push_str(&format!("\n## {}\n\nOn: {}.\n\n", module.title, module.processes));
        text.push_str("| name | kind | labels | what it is |\n| --- | --- | --- | --- |\n");
        for family in module.families {
            let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
            let Family { name, help, kind, .. } = family;
            text.push_str(&format!("| `{name}` | {} | {} | {help} |\n", kind.name(), labels.join(", ")));
        }
    }
    text
}
