//! Progress on stderr: bars on a terminal, a line for each change elsewhere.

use crate::{failure::watched, output::note};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::{collections::BTreeMap, time::Duration};

/// How often a bar's spinner turns.
const TICK: Duration = Duration::from_millis(120);

/// Shows how several things come along, each under its name.
#[derive(Debug)]
pub(crate) struct Progress {
    bars: Option<MultiProgress>,
    shown: BTreeMap<String, Shown>,
}

#[derive(Debug, Default)]
struct Shown {
    text: String,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { bars: watched().then(MultiProgress::new), shown: BTreeMap::new() }
    }

    /// Says how one thing stands: `done` of `all`, and in words.
    pub(crate) fn show(&mut self, name: &str, done: u32, all: u32, text: &str) {
        let shown = self.shown.entry(name.to_owned()).or_default();
        let Some(bars) = &self.bars else {
            if shown.text != text {
                note(&format!("{name}: {text}"));
                text.clone_into(&mut shown.text);
            }
            return;
        };
        let bar = shown.bar.get_or_insert_with(|| {
            let bar = bars.add(ProgressBar::new(u64::from(all)));
            let style = ProgressStyle::with_template("{spinner} {prefix:16} [{bar:30}] {pos}/{len} {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_prefix(name.to_owned());
            bar.enable_steady_tick(TICK);
            bar
        });
        bar.set_length(u64::from(all));
        bar.set_position(u64::from(done));
        bar.set_message(text.to_owned());
    }

    /// Leaves the last picture standing.
    pub(crate) fn finish(self) {
        for bar in self.shown.into_values().filter_map(|shown| shown.bar) {
            bar.abandon();
        }
    }
}
