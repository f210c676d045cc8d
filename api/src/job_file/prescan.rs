//! Refuses texts that are nested too deeply before a parser, which recurses, sees them.

use super::{
    Format,
    error::{JobFileError, Position},
};
use crate::{limits::NESTING_MAX, problem::Code};

/// Looks at brackets and dotted keys outside of strings and comments.
pub(super) fn check(text: &str, format: Format) -> Result<(), JobFileError> {
    let mut scan = Scan { bytes: text.as_bytes(), at: 0, toml: format == Format::Toml };
    let mut depth = 0_usize;
    let mut dots = 0_usize;
    while let Some(byte) = scan.next_outside_strings() {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        // A dotted key nests as deep as it is long. What can't be part of one begins a new one.
        match byte {
            b'.' if scan.toml => dots += 1,
            b' ' | b'\t' | b'"' | b'\'' | b'_' | b'-' => {}
            byte if byte.is_ascii_alphanumeric() => {}
            _ => dots = 0,
        }
        if depth > NESTING_MAX || dots > NESTING_MAX {
            let at = scan.at - 1;
            let message = format!("it is nested more than {NESTING_MAX} levels deep");
            let mut error = JobFileError::whole(Code::JobFileLimit, message, "a job needs five levels at most");
            error.locate(Position::of(text, at..at + 1));
            return Err(error);
        }
    }
    Ok(())
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    toml: bool,
}

impl Scan<'_> {
    fn next_outside_strings(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        match byte {
            b'"' => self.skip_string(b'"'),
            b'\'' if self.toml => self.skip_string(b'\''),
            b'#' if self.toml => {
                let rest = self.bytes.get(self.at..).unwrap_or_default();
                self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                return self.next_line();
            }
            _ => {}
        }
        Some(byte)
    }

    fn next_line(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// Goes behind the string whose first quote was just read. A string on one line that is not closed ends with the
    /// line: the parser complains of it, and nothing after it goes uncounted.
    fn skip_string(&mut self, quote: u8) {
        let tripled = self.toml && self.bytes.get(self.at..self.at + 2) == Some(&[quote, quote]);
        if tripled {
            self.at += 2;
        }
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' if quote == b'"' => self.at += 1,
                b'\n' if !tripled => return,
                byte if byte == quote => {
                    if !tripled {
                        return;
                    }
                    if self.bytes.get(self.at..self.at + 2) == Some(&[quote, quote]) {
                        self.at += 2;
                        return;
                    }
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_brackets_and_keys_are_refused_wherever_they_stand() {
        for open in ["[", "{", "{\"a\":", "x = [", "# c\n[", "'''a''' = [", "\"\\\"\" = ["] {
            for format in [Format::Toml, Format::Json] {
                assert!(check(&open.repeat(200_000), format).is_err(), "{open}");
            }
        }
        assert!(check(&"a.".repeat(200_000), Format::Toml).is_err());
        assert!(check(&"\"a\" . ".repeat(200_000), Format::Toml).is_err());
    }

    #[test]
    fn brackets_in_strings_and_comments_do_not_count() {
        let brackets = "[".repeat(1000);
        for text in [format!("a = \"{brackets}\""), format!("a = '''\n{brackets}\n'''"), format!("# {brackets}\na = 1")]
        {
            check(&text, Format::Toml).unwrap();
        }
        check(&format!("{{\"a\": \"\\\"{brackets}\"}}"), Format::Json).unwrap();
        check(&format!("a = [{}]", "1.5, ".repeat(1000)), Format::Toml).unwrap();
    }
}
