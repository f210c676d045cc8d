//! JSON into nodes. serde_json reads strings and numbers; what is here keeps the places.

use super::{
    error::JobFileError,
    node::{Entry, Node, Span, Value},
};
use std::collections::BTreeSet;

/// Reads a JSON document. The caller has checked its depth.
pub(super) fn parse(text: &str) -> Result<Node, JobFileError> {
    let text_start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut reader = Reader { text, at: text_start };
    let node = reader.value()?;
    reader.skip_blank();
    if reader.at < text.len() {
        return Err(reader.error("there is something after the end of the object"));
    }
    Ok(node)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn error(&self, message: &str) -> JobFileError {
        let end = self.rest().chars().next().map_or(self.at, |c| self.at + c.len_utf8());
        JobFileError::syntax(self.text, Some(self.at..end), message)
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        self.skip_blank();
        let there = self.peek() == Some(byte);
        if there {
            self.at += 1;
        }
        there
    }

    fn value(&mut self) -> Result<Node, JobFileError> {
        self.skip_blank();
        let start = self.at;
        let value = match self.peek() {
            None => return Err(self.error("it ends where a value should be")),
            Some(b'{') => self.table()?,
            Some(b'[') => self.list()?,
            Some(b'"') => Value::Text(self.string()?.0),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(_) => self.word()?,
        };
        Ok(Node { span: start..self.at, value })
    }

    fn table(&mut self) -> Result<Value, JobFileError> {
        self.at += 1;
        let mut entries = Vec::new();
        let mut keys = BTreeSet::new();
        if self.take(b'}') {
            return Ok(Value::Table(entries));
        }
        loop {
            self.skip_blank();
            if self.peek() != Some(b'"') {
                return Err(self.error("expected the name of a field in double quotes"));
            }
            let (key, key_span) = self.string()?;
            if !keys.insert(key.clone()) {
                return Err(JobFileError::syntax(self.text, Some(key_span), &format!("`{key}` is there twice")));
            }
            if !self.take(b':') {
                return Err(self.error("expected `:`"));
            }
            entries.push(Entry { key, key_span, node: self.value()? });
            if self.take(b'}') {
                return Ok(Value::Table(entries));
            }
            if !self.take(b',') {
                return Err(self.error("expected `,` or `}`"));
            }
        }
    }

    fn list(&mut self) -> Result<Value, JobFileError> {
        self.at += 1;
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Value::List(items));
        }
        loop {
            items.push(self.value()?);
            if self.take(b']') {
                return Ok(Value::List(items));
            }
            if !self.take(b',') {
                return Err(self.error("expected `,` or `]`"));
            }
        }
    }

    fn string(&mut self) -> Result<(String, Span), JobFileError> {
        let start = self.at;
        let mut escaped = false;
        let length = self.rest().bytes().skip(1).position(|byte| {
            let closes = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            closes
        });
        let Some(length) = length else { return Err(self.error("this string is not closed")) };
        self.at = start + length + 2;
        let span = start..self.at;
        let literal = self.text.get(span.clone()).unwrap_or_default();
        match serde_json::from_str(literal) {
            Ok(text) => Ok((text, span)),
            Err(_) => Err(JobFileError::syntax(
                self.text,
                Some(span),
                "this string has a line break, a control character or an escape that JSON does not know",
            )),
        }
    }

    fn number(&mut self) -> Result<Value, JobFileError> {
        let start = self.at;
        let length = self.rest().bytes().position(|b| !matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
        self.at = length.map_or(self.text.len(), |length| start + length);
        let literal = self.text.get(start..self.at).unwrap_or_default();
        let number: serde_json::Number = serde_json::from_str(literal)
            .map_err(|_| JobFileError::syntax(self.text, Some(start..self.at), "this is not a number"))?;
        let value = if let Some(number) = number.as_i64() {
            Value::Int(number)
        } else if let Some(number) = number.as_u64() {
            Value::Unsigned(number)
        } else {
            Value::Float(number.as_f64().unwrap_or(f64::NAN))
        };
        Ok(value)
    }

    fn word(&mut self) -> Result<Value, JobFileError> {
        for (word, value) in [("true", Value::Bool(true)), ("false", Value::Bool(false)), ("null", Value::Null)] {
            let behind = self.rest().strip_prefix(word);
            if behind.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric())) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.error("expected a value: an object, a list, a string in double quotes, a number, true, false or null"))
    }
}
