//! Why a command failed, how that is printed, and the exit code that goes with it.

use crate::output;
use core::fmt;
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};
use polder_api::{
    client::ClientError,
    job_file::{Issue, JobFileError},
    problem::Problem,
};
use std::{
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
};

/// Exit code when what was asked is at fault.
pub(crate) const USER: u8 = 1;
/// Exit code when the system is, or did not do what was asked.
pub(crate) const SYSTEM: u8 = 2;

/// Width of a piece of a job file in an error.
const REPORT_WIDTH: usize = 110;

/// Longest line of a job file that is shown with an error.
const LINE_BYTES_MAX: usize = 400;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// In words.
    Plain {
        /// The exit code.
        code: u8,
        /// What happened, to what, and why.
        message: String,
        /// What to do next.
        hint: Option<String>,
    },
    /// A job file is refused, and shown with what is wrong in it.
    JobFile(Box<JobFileReport>),
    /// Nobody reads stdout any more.
    Closed,
}

impl Failure {
    pub(crate) fn user(message: impl Into<String>) -> Self {
        Self::Plain { code: USER, message: message.into(), hint: None }
    }

    pub(crate) fn system(message: impl Into<String>) -> Self {
        Self::Plain { code: SYSTEM, message: message.into(), hint: None }
    }

    pub(crate) fn with_hint(mut self, text: impl Into<String>) -> Self {
        if let Self::Plain { hint, .. } = &mut self {
            *hint = Some(text.into());
        }
        self
    }

    /// Prints it and tells the exit code.
    pub(crate) fn report(self) -> ExitCode {
        let mut stderr = io::stderr().lock();
        // There is nobody left to tell when stderr is closed.
        match self {
            Self::Plain { code, message, hint } => {
                let paint = output::Paint::of(&stderr);
                let _ = writeln!(stderr, "{} {message}", paint.red("error:"));
                if let Some(hint) = hint {
                    let _ = writeln!(stderr, "{} {hint}", paint.cyan("hint:"));
                }
                code.into()
            }
            Self::JobFile(report) => {
                let _ = write!(stderr, "{}", report.render(output::Paint::of(&stderr).colors()));
                USER.into()
            }
            Self::Closed => ExitCode::SUCCESS,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain { message, hint: Some(hint), .. } => write!(f, "{message} ({hint})"),
            Self::Plain { message, hint: None, .. } => f.write_str(message),
            Self::JobFile(report) => write!(f, "{report}"),
            Self::Closed => f.write_str("nobody reads any more"),
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let code = if error.is_users_fault() { USER } else { SYSTEM };
        let mut message = error.to_string();
        if let Some(problem) = error.problem() {
            add_fields(&mut message, problem);
        }
        Self::Plain { code, message, hint: error.hint() }
    }
}

fn add_fields(message: &mut String, problem: &Problem) {
    if problem.fields.len() < 2 {
        return;
    }
    for field in &problem.fields {
        let hint = field.hint.as_ref().map_or_else(String::new, |hint| format!(" ({hint})"));
        message.push_str(&format!("\n  `{}`: {}{hint}", field.field, field.message));
    }
}

impl From<io::Error> for Failure {
    /// An error of stdout: the only thing that commands write to without saying to what.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::Closed;
        }
        Self::system(format!("can't write to stdout: {error}"))
    }
}

/// A job file with what is wrong in it.
#[derive(Debug)]
pub(crate) struct JobFileReport {
    source: NamedSource<String>,
    error: JobFileError,
}

impl JobFileReport {
    pub(crate) fn new(name: &str, text: &[u8], error: JobFileError) -> Self {
        // What is not text has no lines to show.
        let text = String::from_utf8(text.to_vec()).unwrap_or_default();
        Self { source: NamedSource::new(name, text), error }
    }

    /// Issues without a place in a text that can be shown.
    fn placeless(&self) -> impl Iterator<Item = &Issue> {
        self.error.issues.iter().filter(|issue| self.label(issue).is_none())
    }

    fn label(&self, issue: &Issue) -> Option<LabeledSpan> {
        let at = issue.position?;
        let text = self.source.inner();
        let line = text.split('\n').nth(usize::try_from(at.line).ok()?.checked_sub(1)?)?;
        let fits = at.offset + at.length <= text.len() && line.len() <= LINE_BYTES_MAX;
        // What is on a terminal must not be able to steer it.
        let harmless = !line.chars().any(|c| c.is_control() && !matches!(c, '\t' | '\r'));
        (fits && harmless && !text.is_empty())
            .then(|| LabeledSpan::at(at.offset..at.offset + at.length, labelled(issue)))
    }

    fn render(&self, colors: bool) -> String {
        let theme = if colors { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler = GraphicalReportHandler::new_themed(theme).with_width(REPORT_WIDTH).with_links(false);
        let mut text = String::new();
        match handler.render_report(&mut text, self) {
            Ok(()) => text,
            Err(_) => format!("error: {self}\n"),
        }
    }
}

/// What is wrong, with the field where its name says more than its place.
fn labelled(issue: &Issue) -> String {
    if issue.field.is_empty() || issue.message.contains(&issue.field) {
        return issue.message.clone();
    }
    format!("`{}`: {}", issue.field, issue.message)
}

impl fmt::Display for JobFileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source.name(), self.error.code.title())?;
        for issue in self.placeless() {
            write!(f, "; {issue}")?;
        }
        Ok(())
    }
}

impl std::error::Error for JobFileReport {}

impl Diagnostic for JobFileReport {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(&self.error.code))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let hint = |issue: &Issue| {
            let hint = issue.hint.as_ref()?;
            let place =
                issue.position.map_or_else(String::new, |at| format!("line {}, column {}: ", at.line, at.column));
            Some(if self.error.issues.len() == 1 { hint.clone() } else { format!("{place}{hint}") })
        };
        let hints: Vec<String> = self.error.issues.iter().filter_map(hint).collect();
        (!hints.is_empty()).then(|| Box::new(hints.join("\n")) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(self.error.issues.iter().filter_map(|issue| self.label(issue))))
    }
}

/// Whether somebody sees stderr as it is written.
pub(crate) fn watched() -> bool {
    io::stderr().is_terminal()
}
