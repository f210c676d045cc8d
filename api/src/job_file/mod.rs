//! The job file: how people say what to run.
//!
//! TOML, or the same as JSON. Reading goes in steps, each with errors that name the field, line and column:
//!
//! ```text
//!   bytes ── limits ──> text ── toml / json ──> Node (spans) ── serde ──> JobFile ── check ──> JobSpec
//! ```
//!
//! Limits (size, depth) are checked before anything is parsed. `JobFile` is what was written; `JobSpec` is what it
//! means, with all defaults filled in. `JobFile::from(&JobSpec)` writes a spec out again.

mod amounts;
mod back;
mod check;
mod de;
mod error;
mod file;
mod gather;
mod json;
mod node;
mod prescan;
mod reference;
mod rule;
mod schema;
mod toml;

pub use amounts::{ByteAmount, CpuAmount, EnvValue, TimeSpan};
pub use error::{Issue, JobFileError, Position};
pub use file::{
    EntrypointFile, HealthFile, JobFile, RegionsFile, ResourcesFile, RestartFile, SplitBy, SpreadFile, StopFile,
    UpdateFile,
};
pub use reference::reference;
pub use rule::{PortFile, Rule};
pub use schema::schema;

use crate::{limits, problem::Code};
use polder_types::JobSpec;

/// What a job file is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

impl Format {
    /// Guesses by the first character: a TOML document can't begin with `{`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{') => Self::Json,
            _ => Self::Toml,
        }
    }
}

/// A job file that was read, and what it means.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// What was written.
    pub file: JobFile,
    /// What it means, checked and with all defaults filled in.
    pub spec: JobSpec,
}

/// Reads a job file.
///
/// # Errors
/// When it is over a limit, not TOML or JSON, or not a valid job: then everything that is wrong is listed. Never panics.
pub fn parse(bytes: &[u8], format: Format) -> Result<Parsed, JobFileError> {
    let text = text_of(bytes)?;
    prescan::check(text, format)?;
    let root = match format {
        Format::Toml => toml::parse(text)?,
        Format::Json => json::parse(text)?,
    };
    gather::read(root, text)
}

impl JobFile {
    /// What it means, checked and with all defaults filled in.
    ///
    /// # Errors
    /// When the job is not valid. Without the text there are no lines and columns.
    pub fn to_spec(&self) -> Result<JobSpec, JobFileError> {
        check::spec(self).map_err(check::Findings::into_bare_error)
    }

    /// Writes it as TOML.
    ///
    /// # Errors
    /// Never in practice: everything in a job file can be written as TOML.
    pub fn to_toml(&self) -> Result<String, ::toml::ser::Error> {
        ::toml::to_string(self)
    }
}

fn text_of(bytes: &[u8]) -> Result<&str, JobFileError> {
    if bytes.len() > limits::JOB_FILE_BYTES_MAX {
        // Whoever read it stopped there, so how long it is nobody knows.
        let message = format!("it has more than {} bytes", limits::JOB_FILE_BYTES_MAX);
        return Err(JobFileError::whole(Code::JobFileLimit, message, "is it the right file?"));
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let good = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
            let message = "it is not UTF-8 text";
            let mut found = JobFileError::whole(Code::JobFileLimit, message.to_owned(), "is it a binary file?");
            found.locate(Position::of(good, good.len()..good.len()));
            return Err(found);
        }
    };
    let control = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    if let Some(at) = text.find(control) {
        let message = "it has control characters";
        let mut found = JobFileError::whole(Code::JobFileLimit, message.to_owned(), "is it a binary file?");
        found.locate(Position::of(text, at..at));
        return Err(found);
    }
    if text.trim().is_empty() {
        return Err(JobFileError::whole(
            Code::JobFileSyntax,
            "it is empty".to_owned(),
            "a job needs at least `account`, `name` and `image`",
        ));
    }
    Ok(text)
}
