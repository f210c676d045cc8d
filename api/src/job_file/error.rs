//! What is wrong with a job file, and where.

use super::node::Span;
use crate::{
    limits::ISSUES_MAX,
    problem::{Code, FieldProblem, Problem},
};
use core::fmt;

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// In bytes from the start of the text.
    pub offset: usize,
    /// In bytes.
    pub length: usize,
}

impl Position {
    pub(super) fn of(text: &str, span: Span) -> Self {
        let start = floor(text, span.start);
        let end = floor(text, span.end.max(start));
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self {
            line: count(before.bytes().filter(|&byte| byte == b'\n').count() + 1),
            column: count(before[line_start..].chars().count() + 1),
            offset: start,
            length: end - start,
        }
    }
}

/// The nearest boundary of a character at or before this place.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The field, from the top: `resources.cpu`, `ports[1].name`. Empty when it is about the whole text.
    pub field: String,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub hint: Option<String>,
    /// Where it stands.
    pub position: Option<Position>,
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = self.position {
            write!(f, "line {}, column {}: ", position.line, position.column)?;
        }
        if !self.field.is_empty() {
            write!(f, "`{}`: ", self.field)?;
        }
        f.write_str(&self.message)
    }
}

/// Why a job file is refused: at least one issue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct JobFileError {
    /// What kind of error it is.
    pub code: Code,
    /// What is wrong, in the order of the text.
    pub issues: Vec<Issue>,
}

impl fmt::Display for JobFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code.title())?;
        for issue in &self.issues {
            write!(f, "; {issue}")?;
        }
        Ok(())
    }
}

impl JobFileError {
    pub(super) fn new(code: Code, mut issues: Vec<Issue>) -> Self {
        issues.sort_by_key(|issue| issue.position.map_or(0, |position| position.offset));
        issues.truncate(ISSUES_MAX);
        Self { code, issues }
    }

    /// About the whole text.
    pub(super) fn whole(code: Code, message: String, hint: &str) -> Self {
        Self {
            code,
            issues: vec![Issue { field: String::new(), message, hint: Some(hint.to_owned()), position: None }],
        }
    }

    /// A parser's complaint.
    pub(super) fn syntax(text: &str, span: Option<Span>, message: &str) -> Self {
        let message = message.trim().replace('\n', "; ");
        let position = span.map(|span| Position::of(text, span));
        Self { code: Code::JobFileSyntax, issues: vec![Issue { field: String::new(), message, hint: None, position }] }
    }

    /// Gives its issues a place.
    pub(super) fn locate(&mut self, position: Position) {
        for issue in &mut self.issues {
            issue.position = Some(position);
        }
    }
}

impl From<JobFileError> for Problem {
    fn from(error: JobFileError) -> Self {
        let detail = match error.issues.as_slice() {
            [one] => one.to_string(),
            many => format!("{} fields are wrong", many.len()),
        };
        let mut problem = Self::new(error.code, detail);
        problem.hint = match error.issues.as_slice() {
            [one] => one.hint.clone(),
            _ => None,
        };
        problem.fields = error
            .issues
            .into_iter()
            .map(|issue| FieldProblem {
                field: issue.field,
                line: issue.position.map(|position| position.line),
                column: issue.position.map(|position| position.column),
                message: issue.message,
                hint: issue.hint,
            })
            .collect();
        problem
    }
}
