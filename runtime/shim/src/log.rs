//! What the shim has to say goes to its standard error, which is `shim.log` in the container's state directory.
//!
//! libcontainer's errors lose their context on the way up; what it logs has it. So its error lines are kept, and end up
//! in the reason that the agent is given.

use std::{
    fmt::{self, Write as _},
    fs,
    io::Write as _,
    path::Path,
};

use polder_shim::LOG_FILE;
use tracing::{Event, Level, Metadata, Subscriber, field, span};

/// How much of the log goes into a reason.
const TAIL_BYTES_MAX: usize = 1500;

/// A line whose last characters are there already says nothing new.
const REPEATED_CHARS: usize = 24;

/// Writes one line.
pub(crate) fn line(text: &str) {
    // Whole lines in one write each, and nothing to be done when that fails.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Sends libcontainer's errors there.
pub(crate) fn install() {
    let _ = tracing::subscriber::set_global_default(ErrorLines);
}

/// What the end of the log says that isn't said in `reason`.
pub(crate) fn beyond(reason: &str, dir: &Path) -> String {
    let text = fs::read(dir.join(LOG_FILE)).unwrap_or_default();
    let start = text.len().saturating_sub(TAIL_BYTES_MAX);
    let text = String::from_utf8_lossy(&text[start..]);
    // libcontainer logs an error at each level that it passes, with more and more before it.
    let end = |line: &str| line.char_indices().rev().nth(REPEATED_CHARS).map_or(0, |(at, _)| at);
    let new = text.lines().map(str::trim).filter(|line| !line.is_empty() && !reason.contains(&line[end(line)..]));
    new.collect::<Vec<_>>().join("; ")
}

struct ErrorLines;

impl Subscriber for ErrorLines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR && metadata.is_event()
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(tracing::level_filters::LevelFilter::ERROR)
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = String::new();
        event.record(&mut Fields(&mut text));
        line(text.trim());
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

struct Fields<'a>(&'a mut String);

impl field::Visit for Fields<'_> {
    fn record_debug(&mut self, field: &field::Field, value: &dyn fmt::Debug) {
        // Writing into a string doesn't fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?} "),
            name => write!(self.0, "{name}={value:?} "),
        };
    }
}
