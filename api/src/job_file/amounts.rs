//! Amounts as people write them.

use core::fmt;
use polder_types::{Bytes, Cpu, Millis};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema, schema},
};

/// CPU: cores with at most two decimals (`2`, `0.25`), or thousandths in steps of ten (`"250m"`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuAmount(pub Cpu);

/// Memory: a number and a unit (`"512MiB"`, `"1.5GiB"`, `"500MB"`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteAmount(pub Bytes);

/// A length of time: a number and a unit (`"500ms"`, `"30s"`, `"10m"`, `"2h"`, `"1h30m"`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan(pub Millis);

/// The value of an environment variable: a string; numbers, `true` and `false` may stand without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvValue(pub String);

impl fmt::Display for CpuAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for ByteAmount {
    /// Exact, in the largest unit of which it is a multiple.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.get();
        let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let fits = units.into_iter().find(|(_, shift)| bytes > 0 && bytes.is_multiple_of(1_u64 << shift));
        match fits {
            Some((name, shift)) => write!(f, "{}{name}", bytes >> shift),
            None => write!(f, "{bytes}B"),
        }
    }
}

impl fmt::Display for TimeSpan {
    /// Exact, as a sum.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.0;
        if rest == 0 {
            return f.write_str("0s");
        }
        for (name, unit) in [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)] {
            let count = rest / unit;
            rest %= unit;
            if count > 0 {
                write!(f, "{count}{name}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for EnvValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! text_amount {
    ($name:ident, $expecting:literal) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;
                impl de::Visitor<'_> for Visitor {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expecting)
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        $name::read(text).map_err(E::custom)
                    }

                    fn visit_i64<E: de::Error>(self, number: i64) -> Result<$name, E> {
                        $name::read(&number.to_string()).map_err(E::custom)
                    }

                    fn visit_u64<E: de::Error>(self, number: u64) -> Result<$name, E> {
                        $name::read(&number.to_string()).map_err(E::custom)
                    }

                    fn visit_f64<E: de::Error>(self, number: f64) -> Result<$name, E> {
                        $name::read(&number.to_string()).map_err(E::custom)
                    }

                    fn visit_bool<E: de::Error>(self, value: bool) -> Result<$name, E> {
                        $name::read(&value.to_string()).map_err(E::custom)
                    }
                }
                deserializer.deserialize_any(Visitor)
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }
        }
    };
}

text_amount!(CpuAmount, "an amount of CPU, such as `0.5` or `\"500m\"`");
text_amount!(ByteAmount, "an amount of memory, such as `\"256MiB\"`");
text_amount!(TimeSpan, "a length of time, such as `\"30s\"`");
text_amount!(EnvValue, "a string");

impl CpuAmount {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error: polder_types::UnitError| error.to_string())
    }
}

impl ByteAmount {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error: polder_types::UnitError| error.to_string())
    }
}

impl TimeSpan {
    fn read(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error: polder_types::UnitError| error.to_string())
    }
}

impl EnvValue {
    // One text for one meaning: an unquoted number is written out as TOML and JSON would read it back.
    fn read(text: &str) -> Result<Self, core::convert::Infallible> {
        Ok(Self(text.to_owned()))
    }
}

fn text_schema(description: &str, pattern: &str) -> schema::ObjectBuilder {
    schema::ObjectBuilder::new()
        .schema_type(schema::SchemaType::Type(schema::Type::String))
        .description(Some(description))
        .pattern(Some(pattern))
}

impl PartialSchema for CpuAmount {
    fn schema() -> RefOr<Schema> {
        let number = schema::ObjectBuilder::new()
            .schema_type(schema::SchemaType::Type(schema::Type::Number))
            .minimum(Some(0.01))
            .build();
        let text =
            text_schema("Cores, or thousandths of a core with `m`.", r"^([0-9]+(\.[0-9]{1,2})?|[0-9]+0m)$").build();
        let description =
            "CPU: cores with at most two decimals (`2`, `0.25`), or thousandths in steps of ten (`\"250m\"`).";
        schema::OneOfBuilder::new().item(number).item(text).description(Some(description)).into()
    }
}

impl PartialSchema for ByteAmount {
    fn schema() -> RefOr<Schema> {
        let description = "Memory: a number and a unit (`\"512MiB\"`, `\"1.5GiB\"`, `\"500MB\"`).";
        text_schema(description, r"^[0-9]+(\.[0-9]{1,3})? *([KMGT]i?)?B$").into()
    }
}

impl PartialSchema for TimeSpan {
    fn schema() -> RefOr<Schema> {
        let description = "A length of time: a number and a unit (`\"500ms\"`, `\"30s\"`, `\"10m\"`, `\"2h\"`), or a sum (`\"1h30m\"`).";
        text_schema(description, r"^([0-9]+(ms|s|m|h|d))+$").into()
    }
}

impl PartialSchema for EnvValue {
    fn schema() -> RefOr<Schema> {
        let types = [schema::Type::String, schema::Type::Number, schema::Type::Boolean];
        schema::ObjectBuilder::new()
            .schema_type(schema::SchemaType::from_iter(types))
            .description(Some("A string; numbers, `true` and `false` may stand without quotes."))
            .into()
    }
}
