//! Rules, dashboards and runbooks are what they claim to be; shown without a cluster. `observed.rs` shows them with one.

use polder_e2e::observed::{
    Dashboard, Runbook, dashboards, declared_metrics, missing_program, repository, rule_files, rules, runbooks,
    selectors,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Runs a program in a folder of the repository, which must succeed; gives what it printed.
fn must(program: &str, args: &[&str], folder: &str) -> String {
    let output = Command::new(program).args(args).current_dir(repository().join(folder)).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {args:?}: {said}");
    said
}

fn names(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.file_name().unwrap().display().to_string()).collect()
}

#[test]
fn rules_and_configurations_pass_prometheus_own_checks() {
    if let Some(program) = missing_program(&["promtool", "amtool"]) {
        eprintln!(
            "SKIP rules_and_configurations_pass_prometheus_own_checks: {program} is not installed; `make deps` installs it"
        );
        return;
    }
    let folder = "observability/rules";
    let files = names(&rule_files());
    let tests: Vec<String> = files.iter().map(|file| file.replace("-rules.yml", "_test.yml")).collect();
    let said = must(
        "promtool",
        &[&["check", "rules"], &files.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat(),
        folder,
    );
    let found: usize = said
        .lines()
        .filter_map(|line| line.trim().strip_prefix("SUCCESS: ")?.split(' ').next()?.parse::<usize>().ok())
        .sum();
    assert_eq!(found, rules().len(), "this test and promtool read the same rules: {said}");
    must("promtool", &[&["test", "rules"], &tests.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat(), folder);
    must("promtool", &["check", "config", "prometheus.yml"], "deploy/prometheus");
    must("amtool", &["check-config", "alertmanager.yml"], "deploy/alertmanager");
}

#[test]
fn every_alert_says_what_to_do_and_is_tested_both_ways() {
    let rules = rules();
    let mut alerts = BTreeSet::new();
    let mut named = BTreeSet::new();
    for rule in rules.iter().filter(|rule| rule.is_alert) {
        let name = &rule.name;
        assert!(alerts.insert(name.clone()), "{name} is there twice");
        let says = |key: &str| rule.says.get(key).cloned().unwrap_or_else(|| panic!("{name} has no {key}"));
        assert!(["page", "ticket"].contains(&says("severity").as_str()), "{name}: {}", says("severity"));
        assert!(says("summary").len() > 10, "{name}: {}", says("summary"));
        assert!(says("description").len() > 40, "{name}: {}", says("description"));
        let runbook = says("runbook_url");
        assert!(runbook.starts_with("deploy/runbooks/"), "{name}: {runbook}");
        let page = fs::read_to_string(repository().join(&runbook))
            .unwrap_or_else(|error| panic!("{name}: {runbook}: {error}"));
        let alert = format!("`{}`", name.trim_end_matches("Steadily"));
        assert!(page.contains(&alert), "{runbook} does not know {alert}, which sends people there");
        named.insert(Path::new(&runbook).file_stem().unwrap().display().to_string());

        let tests = repository().join("observability/rules").join(rule.file.replace("-rules.yml", "_test.yml"));
        let tests = fs::read_to_string(&tests).unwrap_or_else(|error| panic!("{}: {error}", tests.display()));
        let cases: Vec<&str> = tests.split(&format!("alertname: {name}\n")).skip(1).collect();
        let quiet = |case: &&&str| case.trim_start().starts_with("exp_alerts: []");
        assert!(cases.iter().any(|case| quiet(&case)), "no test shows that {name} can be quiet");
        assert!(cases.iter().any(|case| !quiet(&case)), "no test shows that {name} fires");
    }
    for rule in &rules {
        assert!(!rule.expr.contains("vector("), "{}: data from nowhere: {}", rule.name, rule.expr);
    }
    let pages: BTreeSet<String> =
        runbooks().into_iter().map(|page| page.name).filter(|name| name != "README").collect();
    assert_eq!(pages, named, "runbooks, and those that alerts name");
}

/// Where Grafana's schemas lie: data of others that is no part of the repository.
fn schemas() -> Option<PathBuf> {
    let folder = std::env::var_os("POLDER_GRAFANA_SCHEMAS").map(PathBuf::from);
    Some(folder.unwrap_or_else(|| repository().join("../shared/data/schemas/grafana"))).filter(|folder| folder.exists())
}

fn faults(schema: &Value, value: &Value, what: &str) -> Vec<String> {
    let validator = jsonschema::validator_for(schema).unwrap_or_else(|error| panic!("{what}: {error}"));
    validator.iter_errors(value).map(|error| format!("{what}: {}: {error}", error.instance_path())).collect()
}

#[test]
fn dashboards_are_what_grafana_reads() {
    let Some(folder) = schemas() else {
        eprintln!(
            "SKIP dashboards_are_what_grafana_reads: Grafana's schemas are not there; POLDER_GRAFANA_SCHEMAS says where they are"
        );
        return;
    };
    let schema = |name: &str| -> Value {
        let path = folder.join(format!("{name}.jsonschema.json"));
        serde_json::from_str(&fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
            .unwrap()
    };
    let whole = schema("dashboard.patched");
    let mut wrong = Vec::new();
    for dashboard in dashboards() {
        let file = &dashboard.file;
        wrong.extend(faults(&whole, &dashboard.json, file));
        for panel in dashboard.panels() {
            let kind = panel["type"].as_str().unwrap();
            if kind == "row" {
                continue;
            }
            let mut of_panel = schema(&kind.replace('-', ""));
            let parts = [("Options", &panel["options"]), ("FieldConfig", &panel["fieldConfig"]["defaults"]["custom"])];
            for (part, value) in parts {
                if of_panel["definitions"].get(part).is_some() && !value.is_null() {
                    of_panel["$ref"] = json!(format!("#/definitions/{part}"));
                    wrong.extend(faults(&of_panel, value, &format!("{file}: {}", panel["title"])));
                }
            }
        }
        wrong.extend(overlaps(&dashboard));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // A check that refuses nothing would show nothing.
    let mut broken = dashboards().remove(0).json;
    broken["panels"][1]["gridPos"]["w"] = json!("wide");
    assert!(!faults(&whole, &broken, "").is_empty());
}

/// Panels that lie on each other, and numbers that two have.
fn overlaps(dashboard: &Dashboard) -> Vec<String> {
    let mut taken = BTreeMap::new();
    let mut ids = BTreeSet::new();
    let mut wrong = Vec::new();
    for panel in dashboard.panels() {
        let title = panel["title"].to_string();
        if !ids.insert(panel["id"].as_u64()) {
            wrong.push(format!("{}: {title} has the number of another panel", dashboard.file));
        }
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                if let Some(other) = taken.insert((x, y), title.clone()) {
                    wrong.push(format!("{}: {title} lies on {other}", dashboard.file));
                }
            }
        }
    }
    wrong
}

/// Metrics that no process of Polder declares: Prometheus's own, and those of its client for Rust.
const FOREIGN: [&str; 8] = [
    "up",
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_threads",
    "process_virtual_memory_bytes",
];

/// Labels that discovery and Prometheus give.
const GIVEN: [&str; 10] = ["job", "instance", "region", "node", "host", "account", "job_name", "task", "port", "le"];

#[test]
fn what_is_queried_is_declared_and_what_is_declared_is_queried() {
    let declared = declared_metrics();
    let recorded: BTreeSet<String> = rules().into_iter().filter(|rule| !rule.is_alert).map(|rule| rule.name).collect();
    let mut queries: Vec<(String, String)> = rules().into_iter().map(|rule| (rule.name, rule.expr)).collect();
    for dashboard in dashboards() {
        queries.extend(dashboard.queries().into_iter().map(|query| (query.place, query.text)));
    }
    let mut used = BTreeSet::new();
    let mut wrong = Vec::new();
    for (place, query) in &queries {
        let found = selectors(query);
        assert!(!found.is_empty(), "{place} asks for nothing: {query}");
        for selector in found {
            let metric = selector.metric.as_str();
            let ends = ["_bucket", "_sum", "_count"].iter().find_map(|end| metric.strip_suffix(end));
            let histogram = ends.filter(|name| declared.get(*name).is_some_and(|(kind, _)| kind == "histogram"));
            let known =
                histogram.or_else(|| declared.get(metric).filter(|(kind, _)| kind != "histogram").map(|_| metric));
            used.insert(known.unwrap_or(metric).to_owned());
            if let Some(name) = known {
                let (_, labels) = &declared[name];
                let strange = selector
                    .labels()
                    .into_iter()
                    .filter(|label| !labels.contains(label) && !GIVEN.contains(&label.as_str()));
                wrong.extend(strange.map(|label| format!("{place}: {metric} has no label {label}")));
            } else if !recorded.contains(metric) && !FOREIGN.contains(&metric) {
                wrong.push(format!("{place}: there is no {metric}"));
            }
        }
    }
    let unused = declared.keys().chain(&recorded).filter(|name| !used.contains(*name));
    wrong.extend(unused.map(|name| format!("no rule and no dashboard uses {name}")));
    let unused = FOREIGN.iter().filter(|name| !used.contains(**name));
    wrong.extend(unused.map(|name| format!("no rule and no dashboard uses {name}")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn runbooks_have_commands_that_a_shell_reads() {
    let pages = runbooks();
    for Runbook { name, sections } in pages.iter().filter(|page| page.name != "README") {
        let titles: Vec<&str> = sections.iter().map(|(title, _)| title.as_str()).collect();
        assert_eq!((titles[1], titles[2]), ("What you see", "Why"), "{name}");
        assert_eq!(titles.last(), Some(&"It is over when"), "{name}");
        assert!(sections.iter().any(|(_, blocks)| !blocks.is_empty()), "{name} has no commands");
        for block in sections.iter().flat_map(|(_, blocks)| blocks) {
            let output = Command::new("sh").args(["-n", "-c", block]).output().unwrap();
            assert!(output.status.success(), "{name}: {}\n{block}", String::from_utf8_lossy(&output.stderr));
        }
    }
    let index = fs::read_to_string(repository().join("deploy/runbooks/README.md")).unwrap();
    for page in pages.iter().filter(|page| page.name != "README") {
        assert!(index.contains(&format!("({}.md)", page.name)), "the index does not know {}", page.name);
    }
}
