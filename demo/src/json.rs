//! Just enough JSON to answer with.

use std::fmt::Write;

/// An object of fields that are already JSON.
pub(crate) fn object(fields: &[(&str, String)]) -> String {
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{}:{value}", string(name))).collect();
    format!("{{{}}}\n", fields.join(","))
}

/// A string, or null.
pub(crate) fn text(value: Option<&str>) -> String {
    value.map_or_else(|| "null".into(), string)
}

fn string(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                out.push('\\');
                out.push(character);
            }
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped() {
        assert_eq!(object(&[("a", text(Some("\"\\\n")))]), "{\"a\":\"\\\"\\\\\\u000a\"}\n");
        assert_eq!(object(&[("a", text(None))]), "{\"a\":null}\n");
    }
}
