//! TOML into nodes.

use super::{
    error::JobFileError,
    node::{Entry, Node, Span, Value},
};
use ::toml::de::{DeTable, DeValue};

/// Reads a TOML document. The caller has checked its depth.
pub(super) fn parse(text: &str) -> Result<Node, JobFileError> {
    let table = DeTable::parse(text).map_err(|error| JobFileError::syntax(text, error.span(), error.message()))?;
    let span = table.span();
    Ok(Node { span, value: table_value(table.into_inner()) })
}

fn table_value(table: DeTable<'_>) -> Value {
    let mut entries: Vec<Entry> = table
        .into_iter()
        .map(|(key, value)| {
            let key_span = key.span();
            Entry { key: key.into_inner().into_owned(), key_span, node: node(value.span(), value.into_inner()) }
        })
        .collect();
    // The order of the text, so that the first error is the first that a reader meets.
    entries.sort_by_key(|entry| entry.key_span.start);
    Value::Table(entries)
}

fn node(span: Span, value: DeValue<'_>) -> Node {
    let value = match value {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Boolean(value) => Value::Bool(value),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or_else(|_| float(number.as_str()), Value::Int)
        }
        DeValue::Float(number) => float(number.as_str()),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Array(items) => {
            Value::List(items.into_iter().map(|item| node(item.span(), item.into_inner())).collect())
        }
        DeValue::Table(table) => table_value(table),
    };
    Node { span, value }
}

/// Numbers that no integer holds, and floats. What is left can't be a number that any field takes.
fn float(text: &str) -> Value {
    text.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Float)
}
