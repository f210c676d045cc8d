//! Runbooks: their commands, run as a person on call runs them.

use super::files::repository;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A page of `deploy/runbooks`.
#[derive(Clone, Debug)]
pub struct Runbook {
    /// Its name, without `.md`.
    pub name: String,
    /// Its sections with their `sh` blocks, in order.
    pub sections: Vec<(String, Vec<String>)>,
}

/// All of them.
#[must_use]
pub fn runbooks() -> Vec<Runbook> {
    let folder = repository().join("deploy/runbooks");
    let entries = fs::read_dir(&folder).expect("there are runbooks");
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "md"));
    paths.sort();
    paths.iter().map(|path| Runbook::read(path)).collect()
}

impl Runbook {
    /// One, by its path in the repository, as an alert names it.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn at(url: &str) -> Self {
        Self::read(&repository().join(url))
    }

    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut sections: Vec<(String, Vec<String>)> = vec![(String::new(), Vec::new())];
        let mut inside = false;
        for line in text.lines() {
            if let Some(title) = line.strip_prefix("## ").filter(|_| !inside) {
                sections.push((title.to_owned(), Vec::new()));
            } else if line == "```sh" {
                inside = true;
                if let Some((_, blocks)) = sections.last_mut() {
                    blocks.push(String::new());
                }
            } else if line == "```" {
                inside = false;
            } else if inside && let Some(block) = sections.last_mut().and_then(|(_, blocks)| blocks.last_mut()) {
                block.push_str(line);
                block.push('\n');
            }
        }
        Self { name: path.file_stem().unwrap_or_default().display().to_string(), sections }
    }

    /// The blocks of a section.
    ///
    /// # Panics
    /// When there is no such section.
    #[must_use]
    pub fn section(&self, title: &str) -> &[String] {
        let found = self.sections.iter().find(|(name, _)| name == title);
        &found.unwrap_or_else(|| panic!("{} has no section \"{title}\"", self.name)).1
    }

    /// Runs the blocks of a section, one after the other; each must succeed. Gives what they printed.
    ///
    /// # Panics
    /// When a block fails, or there is none.
    pub fn run(&self, title: &str, variables: &[(&str, String)], folder: &Path) -> String {
        let blocks = self.section(title);
        assert!(!blocks.is_empty(), "{}, \"{title}\" has no commands", self.name);
        let mut printed = String::new();
        for block in blocks {
            let output = Command::new("sh")
                .args(["-eu", "-c", block])
                .envs(variables.iter().map(|(name, value)| (name, value)))
                .env("NO_COLOR", "1")
                .current_dir(folder)
                .stdin(Stdio::null())
                .output()
                .expect("there is a shell");
            let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert!(output.status.success(), "{}, \"{title}\":\n{block}\n{stdout}{stderr}", self.name);
            printed.push_str(&stdout);
        }
        printed
    }
}
