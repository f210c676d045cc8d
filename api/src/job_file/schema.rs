//! The JSON Schema of the job file, for editors.

use super::file::JobFile;
use serde_json::{Map, Value, json};
use utoipa::{
    PartialSchema as _, ToSchema as _,
    openapi::{RefOr, Schema, schema},
};

fn words(words: &[&str]) -> schema::ObjectBuilder {
    schema::ObjectBuilder::new()
        .schema_type(schema::SchemaType::Type(schema::Type::String))
        .enum_values(Some(words.iter().copied()))
}

pub(super) fn job_kind_schema() -> schema::ObjectBuilder {
    words(&["service", "batch"]).description(Some(
        "What kind of work it is. A `service` runs until it is stopped; each task of a `batch` runs until it succeeds. \
         Default: `\"service\"`.",
    ))
}

pub(super) fn restart_policy_schema() -> schema::ObjectBuilder {
    words(&["always", "on_failure", "never"]).description(Some(
        "Which ends are followed by a new start: `always`, `on_failure` or `never`. Default: `\"always\"` for a service, \
         `\"on_failure\"` for a batch.",
    ))
}

pub(super) fn stop_signal_schema() -> schema::ObjectBuilder {
    words(&["SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2"])
        .description(Some("The signal. Default: `\"SIGTERM\"`."))
}

/// The JSON Schema (2020-12) of the job file.
#[must_use]
pub fn schema() -> Value {
    let mut parts: Vec<(String, RefOr<Schema>)> = Vec::new();
    JobFile::schemas(&mut parts);
    let mut definitions: Map<String, Value> =
        parts.into_iter().map(|(name, schema)| (name, to_json(&schema))).collect();
    definitions.remove("Job");
    let mut document = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Polder job file",
    });
    if let (Some(document), Value::Object(root)) = (document.as_object_mut(), to_json(&JobFile::schema())) {
        document.extend(root);
        document.insert("$defs".to_owned(), Value::Object(definitions));
    }
    document
}

fn to_json(schema: &RefOr<Schema>) -> Value {
    let mut value = serde_json::to_value(schema).unwrap_or_default();
    localize(&mut value);
    value
}

/// OpenAPI's references become the schema's own. Recursion is as deep as the schema, which is ours.
fn localize(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(target)) = fields.get_mut("$ref") {
                *target = target.replace("#/components/schemas/", "#/$defs/");
            }
            fields.values_mut().for_each(localize);
        }
        Value::Array(items) => items.iter_mut().for_each(localize),
        _ => {}
    }
}
