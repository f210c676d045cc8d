//! Nodes into serde types, with errors that know the field and the place.

use super::{
    error::{Issue, Position},
    node::{Entry, Node, Path, Span, Step, Value},
};
use core::fmt;
use serde::de::{self, DeserializeSeed, IntoDeserializer as _, Unexpected, Visitor};

/// Names further than this from every known name get no suggestion.
const SIMILARITY_MIN: f64 = 0.7;
/// Longest piece of a file that is repeated in an error.
const QUOTE_CHARS_MAX: usize = 60;

/// A structural error: a wrong type, an unknown or a missing field.
#[derive(Debug)]
pub(super) struct DeError {
    message: String,
    hint: Option<String>,
    /// The field that is missing, if that is what is wrong.
    missing: Option<&'static str>,
    /// Steps from the value at fault upwards.
    steps: Vec<Step>,
    span: Option<Span>,
}

impl DeError {
    fn new(message: String, hint: Option<String>) -> Self {
        Self { message, hint, missing: None, steps: Vec::new(), span: None }
    }

    fn inside(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    fn at(mut self, span: &Span) -> Self {
        self.span.get_or_insert_with(|| span.clone());
        self
    }

    /// What is wrong, the path of what is at fault, and the field that is missing there, if one is.
    pub(super) fn into_issue(mut self, text: &str) -> (Issue, Path, Option<&'static str>) {
        self.steps.reverse();
        let path = Path(self.steps);
        let issue = Issue {
            field: path.to_string(),
            message: self.message,
            hint: self.hint,
            position: self.span.map(|span| Position::of(text, span)),
        };
        (issue, path, self.missing)
    }
}

impl fmt::Display for DeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DeError {}

fn quote(text: &str) -> String {
    let cut: String = text.chars().take(QUOTE_CHARS_MAX).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("`{}{more}`", cut.escape_debug())
}

fn suggestion(text: &str, known: &'static [&'static str]) -> Option<String> {
    let near = known
        .iter()
        .map(|name| (strsim::jaro_winkler(text, name), name))
        .filter(|(similarity, _)| *similarity >= SIMILARITY_MIN)
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    match near {
        Some((_, name)) => Some(format!("did you mean `{name}`?")),
        None if known.is_empty() => None,
        None => Some(format!("known here: {}", list(known))),
    }
}

fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// serde names Rust's types; people want words.
fn plain(expected: &dyn de::Expected) -> String {
    let text = expected.to_string();
    match text.as_str() {
        "u8" | "u16" | "u32" | "u64" | "i64" => "a whole number".to_owned(),
        "a boolean" => "`true` or `false`".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "a table".to_owned(),
        "a string" => "a string in quotes".to_owned(),
        _ if text.starts_with("variant of") || text.starts_with("enum ") => {
            "one of the known words, in quotes".to_owned()
        }
        _ => text,
    }
}

fn found(unexpected: &Unexpected<'_>) -> String {
    match unexpected {
        Unexpected::Bool(value) => format!("`{value}`"),
        Unexpected::Unsigned(number) => format!("the number `{number}`"),
        Unexpected::Signed(number) => format!("the number `{number}`"),
        Unexpected::Float(number) => format!("the number `{number}`"),
        Unexpected::Str(text) => format!("the string {}", quote(text)),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map | Unexpected::Enum => "a table".to_owned(),
        Unexpected::Unit | Unexpected::Option => "null".to_owned(),
        other => other.to_string(),
    }
}

impl de::Error for DeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string(), None)
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new(format!("expected {}, found {}", plain(expected), found(&unexpected)), None)
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let range = match expected.to_string().as_str() {
            "u8" => " from 0 to 255",
            "u16" => " from 0 to 65535",
            "u32" => " from 0 to 4294967295",
            _ => "",
        };
        Self::new(format!("expected {}{range}, found {}", plain(expected), found(&unexpected)), None)
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        Self::new(format!("unknown field {}", quote(field)), suggestion(field, known))
    }

    fn unknown_variant(variant: &str, known: &'static [&'static str]) -> Self {
        Self::new(format!("{} is not one of {}", quote(variant), list(known)), suggestion(variant, known))
    }

    fn missing_field(field: &'static str) -> Self {
        Self { missing: Some(field), ..Self::new(format!("the field `{field}` is missing"), None) }
    }
}

/// Reads serde types from a node.
#[derive(Clone, Copy)]
pub(super) struct NodeDeserializer<'n> {
    node: &'n Node,
}

impl<'n> NodeDeserializer<'n> {
    pub(super) const fn new(node: &'n Node) -> Self {
        Self { node }
    }

    fn visit<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        let result = match &self.node.value {
            Value::Null | Value::Removed => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Int(number) => visitor.visit_i64(*number),
            Value::Unsigned(number) => visitor.visit_u64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Text(text) => visitor.visit_str(text),
            Value::Date(text) => {
                Err(de::Error::invalid_type(Unexpected::Other(&format!("the date {}", quote(text))), &visitor))
            }
            Value::List(items) => visitor.visit_seq(Items { items: items.iter().enumerate() }),
            Value::Table(entries) => visitor.visit_map(Fields { entries: entries.iter(), current: None }),
        };
        result.map_err(|error| error.at(&self.node.span))
    }
}

impl<'de> de::Deserializer<'de> for NodeDeserializer<'_> {
    type Error = DeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.visit(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.node.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, DeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        // Derived types would take a list as well, field by field; nobody means that.
        match self.node.value {
            Value::List(_) => Err(<DeError as de::Error>::invalid_type(Unexpected::Seq, &visitor).at(&self.node.span)),
            _ => self.visit(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        match &self.node.value {
            Value::Text(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            _ => Err(DeError::new(format!("expected one of {}", list(known)), None)),
        }
        .map_err(|error: DeError| error.at(&self.node.span))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string
        bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

struct Items<'n> {
    items: core::iter::Enumerate<core::slice::Iter<'n, Node>>,
}

impl<'de> de::SeqAccess<'de> for Items<'_> {
    type Error = DeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, DeError> {
        let there = |(_, node): &(usize, &Node)| !matches!(node.value, Value::Removed);
        let Some((index, node)) = self.items.find(there) else { return Ok(None) };
        seed.deserialize(NodeDeserializer::new(node))
            .map(Some)
            .map_err(|error| error.at(&node.span).inside(Step::Index(index)))
    }
}

struct Fields<'n> {
    entries: core::slice::Iter<'n, Entry>,
    current: Option<&'n Entry>,
}

impl<'de> de::MapAccess<'de> for Fields<'_> {
    type Error = DeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DeError> {
        let there = |entry: &&Entry| !matches!(entry.node.value, Value::Removed);
        let Some(entry) = self.entries.find(there) else { return Ok(None) };
        self.current = Some(entry);
        let key: de::value::StrDeserializer<'_, DeError> = entry.key.as_str().into_deserializer();
        seed.deserialize(key).map(Some).map_err(|error| error.at(&entry.key_span).inside(Step::Key(entry.key.clone())))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, DeError> {
        let Some(entry) = self.current.take() else {
            return Err(<DeError as de::Error>::custom("a value was read before its key"));
        };
        seed.deserialize(NodeDeserializer::new(&entry.node))
            .map_err(|error| error.at(&entry.node.span).inside(Step::Key(entry.key.clone())))
    }
}
