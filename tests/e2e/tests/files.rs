//! Malformed job files: a clear error with its place, exit 1, and never a panic. None needs a server.

use polder_e2e::{Answer, call, program_path};
use std::{fs, path::Path};

const WEB: &str = "account = \"shop\"\nname = \"web\"\nimage = \"oci:/i\"\ntasks = 2\n";
/// An error that is longer helps nobody.
const STDERR_BYTES_MAX: usize = 4000;

/// Runs the commands that read a job file. Nobody listens at the address: the file is refused before anybody is asked.
fn refused(path: &Path) -> Answer {
    let path = path.display().to_string();
    let polder = program_path("polder");
    let answers = ["validate", "apply"].map(|command| call(&polder, &[command, "-f", &path], "http://127.0.0.1:1"));
    for answer in &answers {
        assert_eq!((answer.code, answer.stdout.as_str()), (1, ""), "{path}: {answer:?}");
        assert!(!answer.stderr.contains("panicked"), "{path}: {answer:?}");
        assert!(answer.stderr.len() < STDERR_BYTES_MAX, "{path}: {} bytes", answer.stderr.len());
        let control = |c: char| c.is_control() && c != '\n';
        assert!(!answer.stderr.contains(control), "{path}: {answer:?}");
    }
    let [one, other] = answers;
    assert_eq!(one.stderr, other.stderr, "both say the same");
    one
}

#[test]
fn malformed_files_are_told_with_their_place() {
    let polder = program_path("polder");
    if !polder.exists() {
        eprintln!("SKIP files::malformed_files_are_told_with_their_place: {} is not built", polder.display());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let toml = |text: &str| format!("{WEB}{text}\n").into_bytes();
    let cases: Vec<(&str, Vec<u8>, &[&str])> = vec![
        ("type.toml", toml("priority = \"high\""), &["job_file_invalid", "type.toml:5:12", "priority", "number"]),
        ("list.toml", toml("ports = \"http\""), &["job_file_invalid", "list.toml:5:9"]),
        ("negative.toml", WEB.replace("tasks = 2", "tasks = -2").into_bytes(), &["negative.toml:4:9"]),
        (
            "field.toml",
            toml("replace_aftr = \"5s\""),
            &["field.toml:5:1", "replace_aftr", "did you mean `replace_after`"],
        ),
        ("deeper.toml", toml("[resources]\nmemry = \"1GiB\""), &["deeper.toml:6:1", "memry", "did you mean `memory`"]),
        ("cpu.toml", toml("[resources]\ncpu = \"abc\""), &["cpu.toml:6:7", "abc", "amount of CPU", "0.25"]),
        ("missing-field.toml", b"account = \"shop\"\nname = \"web\"\n".to_vec(), &["job_file_invalid", "image"]),
        ("syntax.toml", toml("[resources"), &["job_file_syntax", "syntax.toml:5:"]),
        ("twice.toml", toml("tasks = 3"), &["job_file_syntax", "twice.toml:5:1", "duplicate"]),
        ("10mb.toml", vec![b'#'; 10 << 20], &["job_file_limit", "1048576"]),
        ("binary.toml", fs::read(&polder).unwrap()[..4096].to_vec(), &["job_file_limit", "binary"]),
        ("zeroes.toml", vec![0; 4096], &["job_file_limit", "control characters"]),
        ("brackets.toml", "[".repeat(200_000).into_bytes(), &["job_file_limit", "column 65", "64 levels"]),
        ("tables.toml", format!("a = {}", "{a = ".repeat(200_000)).into_bytes(), &["job_file_limit", "64 levels"]),
        ("dots.toml", "a.".repeat(200_000).into_bytes(), &["job_file_limit", "64 levels"]),
        ("empty.toml", Vec::new(), &["job_file_syntax", "it is empty", "`account`, `name` and `image`"]),
        ("blank.toml", b" \n\n".to_vec(), &["job_file_syntax", "it is empty"]),
        ("escape.toml", b"name = \"\x1b[31m\"".to_vec(), &["job_file_limit", "line 1, column 9", "control characters"]),
        (
            "type.json",
            br#"{"account":"shop","name":"web","image":"oci:/i","tasks":"two"}"#.to_vec(),
            &["type.json:1:57", "tasks"],
        ),
        (
            "field.json",
            b"{\"account\":\"shop\",\n \"nam\":\"web\",\"image\":\"oci:/i\"}".to_vec(),
            &["field.json:2:2", "did you mean `name`"],
        ),
        (
            "cpu.json",
            b"{\"account\":\"shop\",\"name\":\"web\",\"image\":\"oci:/i\",\n\"resources\":{\"cpu\":\"abc\"}}".to_vec(),
            &["cpu.json:2:20", "abc"],
        ),
        ("syntax.json", b"{\"account\":\"shop\",".to_vec(), &["job_file_syntax", "syntax.json:1:"]),
        ("array.json", b"[1, 2]".to_vec(), &["job_file_", "array.json"]),
        ("brackets.json", "[".repeat(200_000).into_bytes(), &["job_file_limit", "64 levels"]),
        ("null.json", b"null".to_vec(), &["job_file_", "null.json"]),
        // Neither says what it is by its name.
        (
            "job",
            b"{\"account\":\"shop\",\n \"nam\":\"web\",\"image\":\"oci:/i\"}".to_vec(),
            &["job:2:2", "did you mean `name`"],
        ),
    ];
    for (name, bytes, wanted) in cases {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        let answer = refused(&path);
        assert!(answer.stderr.contains(name), "{name} is not named: {}", answer.stderr);
        // As it reads, whatever the width of the terminal makes of it.
        let words: Vec<&str> = answer.stderr.split_whitespace().filter(|word| *word != "│").collect();
        let words = words.join(" ");
        for text in wanted {
            assert!(words.contains(text), "{name} lacks `{text}`:\n{}", answer.stderr);
        }
    }
}

#[test]
fn files_that_are_no_files_are_told() {
    if !program_path("polder").exists() {
        eprintln!("SKIP files::files_that_are_no_files_are_told: {} is not built", program_path("polder").display());
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let answer = refused(dir.path());
    assert!(answer.stderr.contains("is a directory") || answer.stderr.contains("Is a directory"), "{answer:?}");
    let answer = refused(&dir.path().join("nowhere.toml"));
    assert!(answer.stderr.contains("No such file") && answer.stderr.contains("is the path right?"), "{answer:?}");
    let answer = call(&program_path("polder"), &["validate"], "");
    assert_eq!(answer.code, 1, "{answer:?}");
    // A good one is told so.
    let good = dir.path().join("good.toml");
    fs::write(&good, WEB).unwrap();
    let answer = call(&program_path("polder"), &["validate", "-f", &good.display().to_string()], "");
    assert_eq!((answer.code, answer.stderr.as_str()), (0, ""), "{answer:?}");
}
