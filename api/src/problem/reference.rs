//! The reference of error codes, as Markdown.

use super::Code;
use core::fmt::Write as _;

const INTRODUCTION: &str = "\
# Error codes

<!-- Generated from api/src/problem/codes.rs: `UPDATE=1 cargo test -p polder-api --test documents`. -->

Every error of the API is `application/problem+json`: `code` (stable, for programs), `title`, `status`, `detail` (what
happened, to what, and why), `hint` (what to do next), `fields` (the fields at fault, with line and column where there is a
text), and `retryable` (whether the same request may succeed later). Codes are only ever added.

";

/// The reference: every code with its status and meaning.
#[must_use]
pub fn reference() -> String {
    let mut out = String::from(INTRODUCTION);
    for code in Code::ALL {
        let again = if code.retryable() { ", retryable" } else { "" };
        let _ = writeln!(
            out,
            "## `{code}`\n\nStatus {}{again}: {}.\n\n{}\n",
            code.status(),
            code.title(),
            code.doc().trim()
        );
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}
