//! Errors as they go over the wire: `application/problem+json` (RFC 9457) with stable codes.

mod codes;
mod reference;

pub use codes::Code;
pub use reference::reference;

use core::fmt;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The content type of an error.
pub const CONTENT_TYPE: &str = "application/problem+json";

/// What happened, to what, why, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, thiserror::Error)]
pub struct Problem {
    /// What kind of error it is. Stable: programs decide by it.
    #[schema(value_type = String, example = "quota_exceeded")]
    pub code: Code,
    /// The code in words.
    #[schema(value_type = String)]
    pub title: Box<str>,
    /// The HTTP status.
    pub status: u16,
    /// What happened, to what, and why.
    #[serde(default)]
    pub detail: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The fields at fault, when it is about a text that was sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldProblem>,
    /// Whether the same request may succeed later.
    #[serde(default)]
    pub retryable: bool,
}

/// A field at fault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldProblem {
    /// The field, from the top: `resources.cpu`, `ports[1].name`. Empty when it is about the whole text.
    pub field: String,
    /// Its line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Its column, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// What is wrong with it.
    pub message: String,
    /// What would be right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    /// An error of this kind.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            title: code.title().into(),
            status: code.status(),
            retryable: code.retryable(),
            detail: detail.into(),
            hint: None,
            fields: Vec::new(),
            code,
        }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a field at fault.
    #[must_use]
    pub fn with_field(mut self, field: impl Into<String>, message: impl Into<String>) -> Self {
        self.fields.push(FieldProblem { field: field.into(), message: message.into(), ..FieldProblem::default() });
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.detail.is_empty() { f.write_str(&self.title) } else { write!(f, "{}: {}", self.title, self.detail) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_survive_the_wire() {
        let mut seen = std::collections::BTreeSet::new();
        for code in Code::ALL {
            assert!(seen.insert(code.as_str()), "{code} twice");
            assert_eq!(&Code::from(code.as_str()), code);
            assert!(!code.doc().trim().is_empty() && !code.title().ends_with('.'));
            assert!((400..600).contains(&code.status()), "{code}");
            assert!(!code.retryable() || matches!(code.status(), 429 | 503 | 504), "{code}");
        }
    }

    #[test]
    fn a_newer_server_is_understood() {
        let text = r#"{"code":"sun_too_bright","title":"t","status":418,"detail":"d","retryable":true,"new":1}"#;
        let problem: Problem = serde_json::from_str(text).unwrap();
        assert_eq!(problem.code, Code::Other("sun_too_bright".to_owned()));
        assert_eq!((problem.status, problem.retryable), (418, true));
    }
}
