//! Every mistake of a file at once: what is at fault is noted, read over, and reading begins again, until the rest can be
//! read. Then the rest is checked as well.

use super::{
    Parsed, check,
    de::NodeDeserializer,
    error::{Issue, JobFileError},
    file::JobFile,
    node::{Entry, Node, Value},
};
use crate::{limits::ISSUES_MAX, problem::Code};
use serde::Deserialize as _;
use std::collections::BTreeSet;

/// What stands for a field that must be there and is not, so that the others can be checked.
const STAND_INS: [(&str, &str); 3] = [("name", "name"), ("account", "account"), ("image", "oci:/image")];

/// Fields whose meaning hangs on others: when those can't be read, nothing is said of these.
const DEPENDENTS: [(&str, &str); 4] =
    [("ports", "health"), ("entrypoints", "entrypoint"), ("tasks", "regions"), ("kind", "restart")];

/// Reads and checks a document.
pub(super) fn read(mut root: Node, text: &str) -> Result<Parsed, JobFileError> {
    let mut issues: Vec<Issue> = Vec::new();
    let mut faulty: BTreeSet<String> = BTreeSet::new();
    let refuse = |issues| JobFileError::new(Code::JobFileInvalid, issues);
    let file = loop {
        let error = match JobFile::deserialize(NodeDeserializer::new(&root)) {
            Ok(file) => break file,
            Err(error) => error,
        };
        let (issue, path, missing) = error.into_issue(text);
        // A name that was written wrong is not missing as well.
        let misspelt = |name: &str| issues.iter().any(|known| is_for(known.hint.as_deref(), name));
        let known = missing.is_some_and(|name| path.0.is_empty() && (misspelt(name) || faulty.contains(name)));
        if !known {
            issues.push(issue);
        }
        faulty.insert(path.to_string());
        let mended = match missing.filter(|_| path.0.is_empty()) {
            Some(name) => stand_in(&mut root, name, &mut faulty),
            None => root.remove(&path),
        };
        if !mended || issues.len() >= ISSUES_MAX {
            return Err(refuse(issues));
        }
    };
    match check::spec(&file) {
        Ok(spec) if issues.is_empty() => Ok(Parsed { file, spec }),
        Ok(_) => Err(refuse(issues)),
        Err(found) => {
            let more = found.into_job_file_error(&root, text).issues;
            issues.extend(more.into_iter().filter(|issue| !hangs_on(&issue.field, &faulty)));
            Err(refuse(issues))
        }
    }
}

fn is_for(hint: Option<&str>, name: &str) -> bool {
    hint.is_some_and(|hint| hint.contains(&format!("did you mean `{name}`")))
}

/// Puts something in the place of a field that is missing; says whether there is something for it.
fn stand_in(root: &mut Node, name: &str, faulty: &mut BTreeSet<String>) -> bool {
    let Some((name, text)) = STAND_INS.iter().find(|(known, _)| *known == name) else { return false };
    let Value::Table(entries) = &mut root.value else { return false };
    let span = root.span.start..root.span.start;
    let node = Node { span: span.clone(), value: Value::Text((*text).to_owned()) };
    // One that could not be read is there still, and is read over.
    entries.retain(|entry| entry.key != *name);
    entries.push(Entry { key: (*name).to_owned(), key_span: span, node });
    faulty.insert((*name).to_owned());
    true
}

/// Whether what is said of a field may come from another that could not be read.
fn hangs_on(field: &str, faulty: &BTreeSet<String>) -> bool {
    let top = |path: &str| path.split(['.', '[']).next().unwrap_or_default().to_owned();
    let within = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    faulty.iter().any(|path| {
        let depends = |(on, dependent): &(&str, &str)| *on == top(path) && *dependent == top(field);
        (!path.is_empty() && (within(field, path) || within(path, field))) || DEPENDENTS.iter().any(depends)
    })
}
