//! Lines on standard output.

use std::io::{self, Write};

/// Writes one line. A reader that is gone is no reason to stop.
pub(crate) fn line(text: &str) {
    let mut out = io::stdout().lock();
    // One write for the whole line, so that lines of several processes do not mix.
    let _ = out.write_all(format!("{text}\n").as_bytes()).and_then(|()| out.flush());
}
