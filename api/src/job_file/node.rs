//! A document with the place of each value: what TOML and JSON are both read into.

use core::{fmt, ops::Range};

/// Where something stands in the text, in bytes.
pub(super) type Span = Range<usize>;

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) span: Span,
    pub(super) value: Value,
}

/// What a value is.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
    Date(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
    /// It was at fault and is read over.
    Removed,
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_span: Span,
    pub(super) node: Node,
}

/// One step from a value to a value in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// The steps from the top to a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Path(pub(super) Vec<Step>);

impl Path {
    pub(super) fn key(&self, key: impl fmt::Display) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Key(key.to_string()));
        Self(steps)
    }

    pub(super) fn index(&self, index: usize) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Index(index));
        Self(steps)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) => {
                    let dot = if at == 0 { "" } else { "." };
                    let bare =
                        !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
                    if bare { write!(f, "{dot}{key}")? } else { write!(f, "{dot}{key:?}")? }
                }
            }
        }
        Ok(())
    }
}

impl Node {
    /// Has what is at this path read over from now on; says whether there was anything.
    pub(super) fn remove(&mut self, path: &Path) -> bool {
        let mut node = self;
        for step in &path.0 {
            let inner = match (step, &mut node.value) {
                (Step::Key(key), Value::Table(entries)) => {
                    entries.iter_mut().find(|entry| entry.key == *key).map(|entry| &mut entry.node)
                }
                (Step::Index(index), Value::List(items)) => items.get_mut(*index),
                _ => None,
            };
            let Some(next) = inner else { return false };
            node = next;
        }
        let there = !matches!(node.value, Value::Removed);
        node.value = Value::Removed;
        there
    }

    /// The place of what is at this path, or of the nearest thing around it. None when that is the whole document.
    pub(super) fn find(&self, path: &Path) -> Option<Span> {
        let mut node = self;
        let mut found = None;
        for step in &path.0 {
            let inner = match (step, &node.value) {
                (Step::Key(key), Value::Table(entries)) => {
                    entries.iter().find(|entry| entry.key == *key).map(|entry| (&entry.node, entry.place()))
                }
                (Step::Index(index), Value::List(items)) => items.get(*index).map(|item| (item, item.span.clone())),
                _ => None,
            };
            let Some((next, span)) = inner else { break };
            (node, found) = (next, Some(span));
        }
        found
    }
}

impl Entry {
    /// Where to point when the entry's value is at fault: at the value, or at the key of a table.
    fn place(&self) -> Span {
        if matches!(self.node.value, Value::Table(_)) { self.key_span.clone() } else { self.node.span.clone() }
    }
}
