//! The reference of the job file, as Markdown, from its schema: the comments of the fields are its text.

use super::schema::schema;
use crate::limits;
use core::fmt::Write as _;
use serde_json::{Map, Value};

/// The tables of a job file, in the order of the reference.
const TABLES: [&str; 9] =
    ["Entrypoint", "Resources", "Port", "Spread", "Update", "Stop", "Restart", "Health", "Regions"];

const INTRODUCTION: &str = "\
# Job file

<!-- Generated from the comments in api/src/job_file/file.rs: `UPDATE=1 cargo test -p polder-api --test documents`. -->

A job file says what to run, how often, and where. It is TOML, or the same fields as JSON. A file needs `name`, `account`
and `image`; every other field has a default.

```toml
name = \"web\"
account = \"shop/checkout\"
image = \"oci:/var/lib/polder/images/web:latest\"
tasks = 6
ports = [\"http\"]

[resources]
cpu = 0.5
memory = \"256MiB\"

[health]
path = \"/healthz\"
```

`polder validate -f FILE` checks a file, `polder apply -f FILE` runs it. An unknown field is an error, with its line and
column and the nearest field there is. `polder schema` prints a JSON Schema for editors.

## Units

| amount | written as |
| --- | --- |
| CPU | cores with at most two decimals (`2`, `0.25`), or thousandths in steps of ten (`\"250m\"`) |
| memory | a number and `KiB`, `MiB`, `GiB`, `TiB`, `KB`, `MB`, `GB`, `TB` or `B` (`\"256MiB\"`, `\"1.5GiB\"`) |
| time | a number and `ms`, `s`, `m`, `h` or `d`, or a sum (`\"30s\"`, `\"1h30m\"`) |

";

/// The reference: every field, its type and its comment, and the limits.
#[must_use]
pub fn reference() -> String {
    let schema = schema();
    let mut out = String::from(INTRODUCTION);
    section(&mut out, "Fields", &schema);
    let definitions = schema.get("$defs").and_then(Value::as_object);
    for name in TABLES {
        if let Some(definition) = definitions.and_then(|definitions| definitions.get(name)) {
            section(&mut out, name, definition);
        }
    }
    out.push_str("## Limits\n\n| what | limit |\n| --- | --- |\n");
    for (what, limit) in limits() {
        let _ = writeln!(out, "| {what} | {limit} |");
    }
    out
}

fn limits() -> Vec<(&'static str, String)> {
    vec![
        ("size of the file", format!("{} bytes", limits::JOB_FILE_BYTES_MAX)),
        ("nesting of brackets", limits::NESTING_MAX.to_string()),
        ("tasks of a job", limits::TASKS_MAX.to_string()),
        ("CPU of a task", format!("{} cores", limits::CPU_MAX)),
        ("memory of a task", format!("{} to {}", limits::MEMORY_MIN, limits::MEMORY_MAX)),
        ("ports of a task", limits::PORTS_MAX.to_string()),
        ("variables of an environment", format!("{}, {} bytes", limits::ENV_VARS_MAX, limits::ENV_BYTES_MAX)),
        ("words of a command", format!("{}, {} bytes", limits::COMMAND_WORDS_MAX, limits::COMMAND_BYTES_MAX)),
        ("entrypoints", limits::ENTRYPOINTS_MAX.to_string()),
        ("constraints", format!("{}, of {} values each", limits::CONSTRAINTS_MAX, limits::CONSTRAINT_VALUES_MAX)),
        ("regions", limits::REGIONS_MAX.to_string()),
        ("any time", "30 days".to_owned()),
    ]
}

fn section(out: &mut String, name: &str, schema: &Value) {
    let title = if name == "Fields" { name.to_owned() } else { format!("`{}`", heading(name)) };
    let _ = writeln!(out, "## {title}\n");
    if let Some(text) = schema.get("description").and_then(Value::as_str) {
        let _ = writeln!(out, "{}\n", one_line(text));
    }
    let empty = Map::new();
    let fields = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let _ = writeln!(out, "| field | type | |\n| --- | --- | --- |");
    // Required fields first; the rest by name.
    let (needed, other): (Vec<_>, Vec<_>) = fields.iter().partition(|(field, _)| required.contains(&field.as_str()));
    for (field, schema) in needed.into_iter().chain(other) {
        let text = description(schema);
        let must = if required.contains(&field.as_str()) { " **Required.**" } else { "" };
        let _ = writeln!(out, "| `{field}` | {} | {}{must} |", kind(schema), one_line(&text).replace('|', "\\|"));
    }
    out.push('\n');
}

fn heading(name: &str) -> String {
    match name {
        "Entrypoint" => "[entrypoints.NAME]".to_owned(),
        "Port" => "[[ports]]".to_owned(),
        name => format!("[{}]", name.to_lowercase()),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The comment of a field. A reference that may be absent or has a default carries it one level down.
fn description(schema: &Value) -> String {
    let own = |schema: &Value| schema.get("description").and_then(Value::as_str).map(str::to_owned);
    let inner = || schema.get("oneOf").and_then(Value::as_array).into_iter().flatten().find_map(own);
    own(schema).or_else(inner).unwrap_or_default()
}

/// The type in words.
fn kind(schema: &Value) -> String {
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return words
            .iter()
            .filter_map(Value::as_str)
            .map(|word| format!("`\"{word}\"`"))
            .collect::<Vec<_>>()
            .join(" ");
    }
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        return named(target.rsplit('/').next().unwrap_or_default());
    }
    for several in ["oneOf", "allOf", "anyOf"] {
        let parts = schema.get(several).and_then(Value::as_array).into_iter().flatten();
        if let Some(part) = parts.into_iter().find(|part| part.get("type").and_then(Value::as_str) != Some("null")) {
            return kind(part);
        }
    }
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect(),
        _ => Vec::new(),
    };
    match types.as_slice() {
        ["integer"] => "number".to_owned(),
        ["array"] => format!("list of: {}", schema.get("items").map(kind).unwrap_or_default()),
        ["object"] => format!("table of: {}", schema.get("additionalProperties").map(kind).unwrap_or_default()),
        [one] => (*one).to_owned(),
        _ => "value".to_owned(),
    }
}

fn named(definition: &str) -> String {
    match definition {
        "CpuAmount" => "CPU".to_owned(),
        "ByteAmount" => "memory".to_owned(),
        "TimeSpan" => "time".to_owned(),
        "EnvValue" => "string".to_owned(),
        "PortOrName" => "name, or [table](#ports)".to_owned(),
        "Rule" => "value, list of values, or table with `in` and `not`".to_owned(),
        "SplitBy" => "`\"even\"` `\"weights\"` `\"counts\"`".to_owned(),
        "Entrypoint" => "[table](#entrypointsname)".to_owned(),
        table => format!("[table](#{})", table.to_lowercase()),
    }
}
