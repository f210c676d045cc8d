//! What the repository has for people who look at Polder: rules, dashboards, the list of metrics.

use super::promql::{Selector, selectors};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The root of the repository.
#[must_use]
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is there")
}

fn files(folder: &str, end: &str) -> Vec<PathBuf> {
    let folder = repository().join(folder);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(end));
    files.sort();
    assert!(!files.is_empty(), "{} has no {end}", folder.display());
    files
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A recording rule or an alert.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The file's name.
    pub file: String,
    /// What is recorded, or the alert.
    pub name: String,
    /// Whether it is an alert.
    pub is_alert: bool,
    /// Its query.
    pub expr: String,
    /// `severity`, `summary`, `description`, `runbook_url`.
    pub says: BTreeMap<String, String>,
}

/// The files of rules.
#[must_use]
pub fn rule_files() -> Vec<PathBuf> {
    files("observability/rules", "rules.yml")
}

/// All rules.
#[must_use]
pub fn rules() -> Vec<Rule> {
    rule_files().iter().flat_map(|path| rules_of(path)).collect()
}

/// The rules of a file. They are written one way, so lines say enough: promtool reads them as YAML.
fn rules_of(path: &Path) -> Vec<Rule> {
    let file = path.file_name().unwrap_or_default().display().to_string();
    let mut rules: Vec<Rule> = Vec::new();
    // A key whose value stands on the lines below, and how far it is indented.
    let mut open: Option<(String, usize)> = None;
    for line in read(path).lines() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if let Some(rule) = rules.last_mut()
            && let Some((key, _)) = open.as_ref().filter(|(_, key)| indent > *key || text.is_empty())
        {
            let value = if key == "expr" { &mut rule.expr } else { rule.says.entry(key.clone()).or_default() };
            value.push_str(text);
            value.push(' ');
            continue;
        }
        open = None;
        let Some((key, value)) = text.split_once(": ") else { continue };
        let value = value.trim_matches('"').to_owned();
        match (key, rules.last_mut()) {
            ("- record" | "- alert", _) => rules.push(Rule {
                file: file.clone(),
                name: value,
                is_alert: key == "- alert",
                expr: String::new(),
                says: BTreeMap::new(),
            }),
            ("expr" | "description" | "summary", Some(_)) if value == "|" || value == ">-" => {
                open = Some((key.to_owned(), indent));
            }
            ("expr", Some(rule)) => rule.expr = value,
            (_, Some(rule)) => drop(rule.says.insert(key.to_owned(), value)),
            (_, None) => {}
        }
    }
    rules
}

/// A query of a dashboard.
#[derive(Clone, Debug)]
pub struct Query {
    /// The dashboard and the panel.
    pub place: String,
    /// As it stands there, with Grafana's variables.
    pub text: String,
}

impl Query {
    /// With everything that there is for Grafana's variables.
    #[must_use]
    pub fn expr(&self) -> String {
        self.text.replace("$__rate_interval", "10s").replace("$region", ".+")
    }
}

/// A dashboard.
#[derive(Clone, Debug)]
pub struct Dashboard {
    /// The file's name.
    pub file: String,
    /// All of it.
    pub json: Value,
}

impl Dashboard {
    /// Its panels.
    pub fn panels(&self) -> impl Iterator<Item = &Value> {
        self.json["panels"].as_array().into_iter().flatten()
    }

    /// The queries of its panels.
    #[must_use]
    pub fn queries(&self) -> Vec<Query> {
        let of = |panel: &Value| {
            let place = format!("{}: {}", self.file, panel["title"].as_str().unwrap_or_default());
            let targets = panel["targets"].as_array().cloned().unwrap_or_default();
            let exprs = targets.into_iter().filter_map(|target| Some(target["expr"].as_str()?.to_owned()));
            exprs.map(|text| Query { place: place.clone(), text }).collect::<Vec<_>>()
        };
        self.panels().flat_map(of).collect()
    }
}

/// All dashboards.
#[must_use]
pub fn dashboards() -> Vec<Dashboard> {
    let dashboard = |path: &PathBuf| Dashboard {
        file: path.file_name().unwrap_or_default().display().to_string(),
        json: serde_json::from_str(&read(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
    };
    files("observability/dashboards", ".json").iter().map(dashboard).collect()
}

/// The metrics that the reference declares, each with its kind and labels.
#[must_use]
pub fn declared_metrics() -> BTreeMap<String, (String, Vec<String>)> {
    let text = read(&repository().join("docs/reference/metrics.md"));
    let rows = text.lines().filter(|line| line.starts_with("| `polder_"));
    let declared: BTreeMap<_, _> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let labels = cells[3].split(',').map(|label| label.trim_matches([' ', '`']).to_owned());
            (
                cells[1].trim_matches('`').to_owned(),
                (cells[2].to_owned(), labels.filter(|label| !label.is_empty()).collect()),
            )
        })
        .collect();
    assert!(!declared.is_empty(), "the reference declares no metric");
    declared
}

impl Rule {
    /// What its query selects.
    #[must_use]
    pub fn selectors(&self) -> Vec<Selector> {
        selectors(&self.expr)
    }
}
