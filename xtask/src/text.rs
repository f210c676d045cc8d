//! What can be seen of a file without understanding it.

use anyhow::{Context as _, Result};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A file longer than this holds more than one idea, mostly.
const LINES_SOFT_MAX: usize = 600;
const LINES_MAX: usize = 900;

/// Folders that hold nothing of ours.
const SKIPPED: &[&str] = &["target", ".git"];
const CHECKED: &[&str] = &["rs", "toml", "sh", "md", "yml", "yaml", "proto"];

/// Written in halves, so that this file does not contain them.
const BANNED: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("dbg", "!("),
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
];

/// All files of the workspace that are looked at.
pub(crate) fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    walk(root, &mut files)?;
    files.retain(|file| file.extension().and_then(|end| end.to_str()).is_some_and(|end| CHECKED.contains(&end)));
    Ok(files)
}

/// The Rust files in a folder.
pub(crate) fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = files(folder)?;
    files.retain(|file| is_rust(file));
    Ok(files)
}

fn is_rust(file: &Path) -> bool {
    file.extension().is_some_and(|end| end == "rs")
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("{} can't be listed", folder.display()))?;
    let mut entries: Vec<_> = entries.collect::<std::io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type()?;
        if kind.is_dir() {
            // Cargo marks its target folder, wherever that is and whatever its name.
            let built = entry.path().join("CACHEDIR.TAG").exists();
            if !built && !SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
                walk(&entry.path(), files)?;
            }
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// Warnings and faults.
pub(crate) fn check(root: &Path, files: &[PathBuf]) -> Result<(Vec<String>, Vec<String>)> {
    let (mut warnings, mut faults) = (Vec::new(), Vec::new());
    for file in files {
        let Ok(text) = fs::read_to_string(file) else { continue };
        let name = file.strip_prefix(root).unwrap_or(file).display();
        let lines = text.lines().count();
        if is_rust(file) && lines > LINES_MAX {
            faults.push(format!("{name} has {lines} lines, {LINES_MAX} at most: split it by idea"));
        } else if is_rust(file) && lines > LINES_SOFT_MAX {
            warnings.push(format!("{name} has {lines} lines; over {LINES_SOFT_MAX}, think of splitting it"));
        }
        faults.extend(banned(&text).into_iter().map(|(line, word)| {
            format!("{name}:{line}: `{word}`: finish it, or say in words what is missing and why")
        }));
    }
    Ok((warnings, faults))
}

fn banned(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        for word in BANNED {
            let whole = |start: usize| {
                let before = line[..start].chars().next_back();
                let after = line[start + word.len()..].chars().next();
                let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
                !joins(before) && (word.ends_with('(') || !joins(after))
            };
            if line.match_indices(word).any(|(start, _)| whole(start)) {
                found.push((at + 1, *word));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_whole() {
        let text = format!("a\n// {} later\n{}x)\nlet AUTO{} = 1;", BANNED[0], BANNED[2], BANNED[0]);
        assert_eq!(banned(&text), [(2, BANNED[0]), (3, BANNED[2])]);
    }
}
