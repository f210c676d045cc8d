//! The reference of the job file, as Markdown, from its schema.

use super::schema::schema;
use core::fmt::Write as _;
use serde_json::Value;

/// The reference: every field, its type, and its comment.
#[must_use]
pub fn reference() -> String {
    let schema = schema();
    let mut out = String::from(INTRODUCTION);
    section(&mut out, "The job", &schema);
    let tables =
        ["Entrypoint", "Resources", "Port", "Rule", "Spread", "Update", "Stop", "Restart", "Health", "Regions"];
    let definitions = schema.get("$defs");
    for name in tables {
        if let Some(definition) = definitions.and_then(|definitions| definitions.get(name)) {
            section(&mut out, name, definition);
        }
    }
    out
}

const INTRODUCTION: &str = "# Job file\n";

fn section(out: &mut String, name: &str, schema: &Value) {
    let _ = write!(out, "{name} {schema}");
}
