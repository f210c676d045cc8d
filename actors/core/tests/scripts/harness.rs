//! Scripts: events in, effects out, as text. A line that begins with `>` is a command; the lines below it are what came
//! of it. With `POLDER_REWRITE=1` the answers are written anew instead of compared: read the difference before you commit it.

use std::{fs, path::PathBuf};

/// Runs every script of a machine; `start` makes what takes the commands of one script.
pub(crate) fn run_all<S: FnMut(&str) -> String>(machine: &str, mut start: impl FnMut() -> S) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scripts").join(machine);
    let rewrite = std::env::var_os("POLDER_REWRITE").is_some_and(|value| value == "1");
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    assert!(!paths.is_empty(), "no scripts in {}", folder.display());
    for path in paths {
        let script = fs::read_to_string(&path).unwrap();
        let mut step = start();
        let mut out = String::new();
        for line in script.lines() {
            if let Some(command) = line.strip_prefix("> ") {
                out.push_str(line);
                out.push('\n');
                out.push_str(&step(command));
            } else if line.starts_with('#') || line.is_empty() {
                out.push_str(line);
                out.push('\n');
            }
        }
        if rewrite {
            fs::write(&path, &out).unwrap();
        } else if out != script {
            let first = out.lines().zip(script.lines()).position(|(new, old)| new != old).unwrap_or(0);
            panic!(
                "{} differs at line {}:\n  is      {:?}\n  was     {:?}\nwhole:\n{out}",
                path.display(),
                first + 1,
                out.lines().nth(first),
                script.lines().nth(first)
            );
        }
    }
}

/// The words of a command and its `key=value` parts.
pub(crate) struct Words<'a> {
    pub(crate) plain: Vec<&'a str>,
    pub(crate) pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Words<'a> {
    pub(crate) fn of(command: &'a str) -> Self {
        let (pairs, plain) = command.split_whitespace().map(|word| (word, word.split_once('='))).fold(
            (Vec::new(), Vec::new()),
            |(mut pairs, mut plain), (word, pair)| {
                match pair {
                    Some(pair) => pairs.push(pair),
                    None => plain.push(word),
                }
                (pairs, plain)
            },
        );
        Self { plain, pairs }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a str> {
        self.pairs.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }
}
