//! Fields with a short and a long form.

use core::fmt;
use polder_types::Name;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, value::MapAccessDeserializer},
};
use std::borrow::Cow;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema, schema},
};

/// A port: its name, or a table with its name and the number it must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortFile {
    /// Its name: the task sees its number as `PORT_<NAME>`.
    pub name: Name,
    /// The number it must have on the host; none means any that is free.
    pub fixed: Option<u16>,
}

/// The long form of a port.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Port)]
pub(crate) struct PortTable {
    /// Its name: the task sees its number as `PORT_<NAME>`.
    #[schema(value_type = String)]
    name: Name,
    /// The number it must have on the host. Default: any that is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fixed: Option<u16>,
}

impl Serialize for PortFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.fixed {
            None => self.name.serialize(serializer),
            Some(_) => PortTable { name: self.name.clone(), fixed: self.fixed }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for PortFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = PortFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a port, or a table such as `{ name = \"http\", fixed = 8080 }`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<PortFile, E> {
                Ok(PortFile { name: Name::new(text).map_err(E::custom)?, fixed: None })
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<PortFile, A::Error> {
                let PortTable { name, fixed } = PortTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(PortFile { name, fixed })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl PartialSchema for PortFile {
    fn schema() -> RefOr<Schema> {
        schema::OneOfBuilder::new()
            .item(schema::ObjectBuilder::new().schema_type(schema::SchemaType::Type(schema::Type::String)))
            .item(PortTable::schema())
            .description(Some("A port: its name, or a table with its name and the number it must have."))
            .into()
    }
}

impl ToSchema for PortFile {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("PortOrName")
    }
}

/// What a host's label must be: a value, a list of values of which it must be one, or a table with `in` and `not`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The label is one of these; empty means this is not asked for.
    pub is: Vec<String>,
    /// The label is none of these, or absent; empty means this is not asked for.
    pub not: Vec<String>,
}

/// One value or several.
struct Values(Vec<String>);

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Values;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of strings")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Values, E> {
                Ok(Values(vec![text.to_owned()]))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Values, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = items.next_element()? {
                    values.push(value);
                }
                Ok(Values(values))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => serializer.serialize_str(one),
            many => many.serialize(serializer),
        }
    }
}

/// The long form of a rule.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    #[serde(rename = "in", default, skip_serializing_if = "Option::is_none")]
    is: Option<Values>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not: Option<Values>,
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let values = |list: &Vec<String>| (!list.is_empty()).then(|| Values(list.clone()));
        match (values(&self.is), values(&self.not)) {
            (Some(is), None) => is.serialize(serializer),
            (is, not) => RuleTable { is, not }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Rule;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a list of strings, or a table such as `{ not = \"arm64\" }`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Rule, E> {
                Ok(Rule { is: vec![text.to_owned()], not: Vec::new() })
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Rule, A::Error> {
                let mut rule = Rule::default();
                while let Some(value) = items.next_element()? {
                    rule.is.push(value);
                }
                Ok(rule)
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Rule, A::Error> {
                let table = RuleTable::deserialize(MapAccessDeserializer::new(map))?;
                let list = |values: Option<Values>| values.map(|values| values.0).unwrap_or_default();
                Ok(Rule { is: list(table.is), not: list(table.not) })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl PartialSchema for Rule {
    fn schema() -> RefOr<Schema> {
        let text = || schema::ObjectBuilder::new().schema_type(schema::SchemaType::Type(schema::Type::String));
        let list = || schema::ArrayBuilder::new().items(text());
        let values = || schema::OneOfBuilder::new().item(text()).item(list());
        let table = schema::ObjectBuilder::new()
            .property("in", values().description(Some("The label is one of these.")))
            .property("not", values().description(Some("The label is none of these, or absent.")))
            .additional_properties(Some(schema::AdditionalProperties::FreeForm(false)));
        schema::OneOfBuilder::new()
            .item(text())
            .item(list())
            .item(table)
            .description(Some(
                "What a host's label must be: a value (`\"ssd\"`), a list of values of which it must be one, or a table with \
                 `in` and `not` (`{ not = \"arm64\" }`).",
            ))
            .into()
    }
}

impl ToSchema for Rule {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Rule")
    }
}
