//! What happened, as a hash that two runs can be compared by, and as lines for people.

use crate::names::ActorId;
use std::{
    fmt::{self, Debug, Write as _},
    io::Write as _,
};

/// Which lines are wanted.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only lines about actors whose names contain this.
    pub actor: Option<String>,
    /// Only lines that contain this: a job, a host, a container.
    pub about: Option<String>,
    /// Nothing before this time, in milliseconds.
    pub from: u64,
    /// Nothing after this time, in milliseconds.
    pub until: Option<u64>,
    /// Long lines are not cut.
    pub wide: bool,
}

/// How much is kept of what happens.
#[derive(Clone, Debug, Default)]
pub enum Detail {
    /// Times, actors and counts go into the hash.
    #[default]
    Brief,
    /// Every event and effect goes into the hash, word by word.
    Full,
    /// As [`Self::Full`], and lines are printed.
    Print(Filter),
}

/// The trace of a run.
#[derive(Debug)]
pub(crate) struct Trace {
    detail: Detail,
    hash: u64,
    line: String,
    now: u64,
    ordinal: u64,
}

/// Characters of a line that are printed.
const LINE_CHARS_MAX: usize = 400;
const PRIME: u64 = 0x0000_0100_0000_01b3;

impl Trace {
    pub(crate) fn new(detail: Detail) -> Self {
        Self { detail, hash: 0xcbf2_9ce4_8422_2325, line: String::new(), now: 0, ordinal: 0 }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn is_full(&self) -> bool {
        !matches!(self.detail, Detail::Brief)
    }

    /// Notes the moment that follows.
    pub(crate) fn moment(&mut self, now: u64, ordinal: u64) {
        (self.now, self.ordinal) = (now, ordinal);
        self.number(now);
        self.number(ordinal);
    }

    pub(crate) fn number(&mut self, number: u64) {
        // One multiplication for a whole word: this is on the path of each event.
        self.hash = (self.hash ^ number).wrapping_mul(PRIME).rotate_left(29);
    }

    /// Notes a step of an actor.
    pub(crate) fn step(&mut self, actor: ActorId, what: &dyn Debug) {
        self.number(actor.code());
        if self.is_full() {
            self.say(&actor, format_args!("◀ {what:?}"));
        }
    }

    /// Notes what a step wants done.
    pub(crate) fn effect(&mut self, actor: ActorId, kind: &str, effect: &dyn Debug) {
        if self.is_full() {
            self.say(&actor, format_args!("  {kind} {effect:?}"));
        }
    }

    /// Notes something of the world.
    pub(crate) fn note(&mut self, about: &dyn fmt::Display, what: fmt::Arguments<'_>) {
        if self.is_full() {
            self.say(about, what);
        }
    }

    fn say(&mut self, about: &dyn fmt::Display, what: fmt::Arguments<'_>) {
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        // Writing to a text does not fail.
        let _ = write!(line, "{:>9}.{:03} #{:<7} {about:<16} {what}", self.now / 1000, self.now % 1000, self.ordinal);
        for piece in line.as_bytes().chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            self.number(u64::from_le_bytes(word));
        }
        if let Detail::Print(filter) = &self.detail {
            let shown = self.now >= filter.from
                && filter.until.is_none_or(|until| self.now <= until)
                && filter.actor.as_ref().is_none_or(|actor| about.to_string().contains(actor.as_str()))
                && filter.about.as_ref().is_none_or(|about| line.contains(about.as_str()));
            if shown {
                let cut = line.char_indices().nth(LINE_CHARS_MAX).filter(|_| !filter.wide);
                let (text, rest) = cut.map_or((line.as_str(), ""), |(end, _)| (&line[..end], " …"));
                // Whoever reads may have seen enough.
                let _ = writeln!(std::io::stdout().lock(), "{text}{rest}");
            }
        }
        self.line = line;
    }
}
