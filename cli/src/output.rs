//! What goes to stdout: tables, JSON, lines. And how moments and colours look.

use crate::failure::Failure;
use clap::ValueEnum;
use comfy_table::{Cell, Table, presets::NOTHING};
use polder_types::{Millis, Timestamp};
use serde::Serialize;
use std::{
    io::{self, IsTerminal, Write as _},
    time::{SystemTime, UNIX_EPOCH},
};

/// How an answer is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// The columns that matter most
    #[default]
    Table,
    /// More columns
    Wide,
    /// What the API answered
    Json,
}

/// Prints a value as the API's JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::system(error.to_string()))?;
    line(&text)
}

/// Prints a line.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}")?;
    Ok(())
}

/// Prints text as it is.
pub(crate) fn bytes(text: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text)?;
    stdout.flush()?;
    Ok(())
}

/// Prints a remark on stderr. Nobody is told when even that is closed.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints rows under their headings, in columns.
pub(crate) fn table(headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(headings.iter().map(Cell::new));
    for row in rows {
        table.add_row(row);
    }
    // No blank before the first column, two between columns.
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    line(&table.trim_fmt())
}

/// The present.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// How long ago that was; a dash for what has never been.
pub(crate) fn age(at: Timestamp) -> String {
    if at == Timestamp::default() {
        return "-".to_owned();
    }
    let age = now().since(at);
    Millis(age.0 / 1000 * 1000).to_string()
}

/// `5s ago`, or `never`.
pub(crate) fn ago(at: Timestamp) -> String {
    if at == Timestamp::default() { "never".to_owned() } else { format!("{} ago", age(at)) }
}

/// A moment in UTC, to the second.
pub(crate) fn moment(at: Timestamp) -> String {
    const DAY: u64 = 86_400;
    let secs = at.0 / 1000;
    let (year, month, day) = civil(secs / DAY);
    let (hour, minute, second) = (secs % DAY / 3600, secs % 3600 / 60, secs % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The date so many days after 1970-01-01, in the Gregorian calendar: years are counted from March, so that the leap
/// day is their last.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_FROM_MARCH_0000: u64 = 719_468;
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let days = days + DAYS_FROM_MARCH_0000;
    let era = days / DAYS_OF_400_YEARS;
    let day_of_era = days % DAYS_OF_400_YEARS;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

/// Colours, where they are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    colors: bool,
}

impl Paint {
    /// Colours on a terminal, unless `NO_COLOR` says no.
    pub(crate) fn of(stream: &impl IsTerminal) -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colors: stream.is_terminal() && !unwanted }
    }

    pub(crate) const fn colors(self) -> bool {
        self.colors
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    pub(crate) fn cyan(self, text: &str) -> String {
        self.paint("36", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colors { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// `1 task`, `2 tasks`.
pub(crate) fn count(number: u32, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// A text, or a dash.
pub(crate) fn or_dash(text: Option<impl ToString>) -> String {
    text.map_or_else(|| "-".to_owned(), |text| text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_dates() {
        let known = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_700_000_000_999, "2023-11-14T22:13:20Z"),
            (4_102_444_799_000, "2099-12-31T23:59:59Z"),
        ];
        for (millis, text) in known {
            assert_eq!(moment(Timestamp(millis)), text);
        }
    }
}
