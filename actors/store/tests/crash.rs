//! The embedded store under kill -9, a second process, and a full disk. Each test starts this program again as a child.

use polder_store::{Commit, EmbeddedStore, Op, Store, StoreError, Txn};
use rand::{Rng as _, RngCore as _, SeedableRng as _, rngs::SmallRng};
use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};

const DIR: &str = "POLDER_STORE_TEST_DIR";
const PARTS: [&str; 4] = ["a", "b", "c", "d"];
const WRITERS: usize = 8;
const KILLS: u64 = 25;

fn dir() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("polder-store-").tempdir().unwrap()
}

/// This program, told to run one of the children below.
fn child(name: &str) -> Vec<String> {
    let program = env::current_exe().unwrap();
    [program.to_str().unwrap(), "--exact", name, "--nocapture", "--test-threads=1"].map(str::to_owned).to_vec()
}

fn spawn(mut command: Command, dir: &Path) -> Child {
    command.env(DIR, dir).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

#[test]
fn child_writes_until_it_is_killed() {
    let Ok(dir) = env::var(DIR) else { return };
    runtime().block_on(async {
        let store = Arc::new(EmbeddedStore::open(dir).unwrap());
        let start = store.list("").await.unwrap().revision.0;
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    for number in 0_u64.. {
                        let name = format!("{start:08}-{writer}-{number:08}");
                        let ops = PARTS.map(|part| Op::put(format!("k/{name}/{part}"), name.clone())).to_vec();
                        let outcome = store.commit(Txn::new(Vec::new(), ops).unwrap()).await;
                        assert!(outcome.committed().is_some(), "{outcome}");
                        say(&format!("ack {name}"));
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
    });
}

#[test]
fn killed_in_the_middle_of_commits() {
    let dir = dir();
    let mut random = SmallRng::seed_from_u64(7);
    let mut acknowledged = BTreeSet::new();
    for round in 0..KILLS {
        let mut command = Command::new(&child("child_writes_until_it_is_killed")[0]);
        command.args(&child("child_writes_until_it_is_killed")[1..]);
        let mut child = spawn(command, dir.path());
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let enough = random.random_range(1..400);
        let mut heard = 0;
        for line in lines.map_while(Result::ok) {
            if let Some((_, name)) = line.split_once("ack ") {
                acknowledged.insert(name.to_owned());
                heard += 1;
                if heard == enough {
                    // What it says from here on is read as well, until the pipe closes.
                    child.kill().unwrap();
                }
            }
        }
        child.wait().unwrap();
        assert!(heard >= enough, "round {round}: the child ended by itself");
        let store = EmbeddedStore::open(dir.path()).unwrap();
        let listing = runtime().block_on(store.list("k/")).unwrap();
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        for entry in listing.entries {
            let name = String::from_utf8(entry.value.to_vec()).unwrap();
            assert!(entry.key.starts_with(&format!("k/{name}/")), "{} holds {name}", entry.key);
            *found.entry(name).or_default() += 1;
        }
        assert!(found.values().all(|parts| *parts == PARTS.len()), "round {round}: a commit is torn");
        let lost: Vec<_> = acknowledged.iter().filter(|name| !found.contains_key(*name)).collect();
        assert!(lost.is_empty(), "round {round}: acknowledged and lost: {lost:?}");
    }
    assert!(acknowledged.len() > 100);
}

#[test]
fn another_process_is_told_who_has_the_directory() {
    let dir = dir();
    let args = child("child_writes_until_it_is_killed");
    let mut command = Command::new(&args[0]);
    command.args(&args[1..]);
    let mut child = spawn(command, dir.path());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("ack ")), "the child writes");
    let error = EmbeddedStore::open(dir.path()).unwrap_err();
    child.kill().unwrap();
    child.wait().unwrap();
    match &error {
        StoreError::Locked { pid, .. } => assert_eq!(*pid, child.id().to_string()),
        other => panic!("{other}"),
    }
    EmbeddedStore::open(dir.path()).expect("a killed process holds nothing");
}

#[test]
fn child_fills_the_disk() {
    let Ok(dir) = env::var(DIR) else { return };
    let dir = Path::new(&dir);
    let (data, ballast) = (dir.join("store"), dir.join("ballast"));
    fs::write(&ballast, vec![1; 24 << 20]).unwrap();
    runtime().block_on(async {
        let mut random = SmallRng::seed_from_u64(1);
        let store = EmbeddedStore::open(&data).unwrap();
        let mut acknowledged = Vec::new();
        let why = loop {
            let mut value = vec![0; 64 << 10];
            random.fill_bytes(&mut value);
            let key = format!("k/{:06}", acknowledged.len());
            match store.commit(Txn::put(key.clone(), value.clone()).unwrap()).await {
                Commit::Committed { .. } => acknowledged.push((key, value)),
                Commit::Unknown { why } => break why,
                Commit::Conflict(conflict) => panic!("{conflict}"),
            }
            assert!(acknowledged.len() < 100_000, "the disk is never full");
        };
        assert!(why.contains("has stopped"), "{why}");
        let again = store.commit(Txn::put("small", "x").unwrap()).await;
        assert!(matches!(again, Commit::Unknown { .. }), "it takes no more: {again}");
        drop(store);
        fs::remove_file(&ballast).unwrap();
        let store = EmbeddedStore::open(&data).unwrap();
        for (key, value) in &acknowledged {
            let entry = store.get(key).await.unwrap().unwrap_or_else(|| panic!("{key} was acknowledged"));
            assert_eq!(entry.value, value);
        }
        assert!(store.commit(Txn::put("small", "x").unwrap()).await.committed().is_some());
        say(&format!("full after {} writes: {why}", acknowledged.len()));
    });
}

#[test]
fn full_disk_loses_nothing() {
    if !is_root() {
        eprintln!("skipped: a file system of its own needs root");
        return;
    }
    let dir = dir();
    let mut command = Command::new("unshare");
    // The mount lives in a namespace of its own and goes with it.
    command.args(["--mount", "sh", "-c", "mount -t tmpfs -o size=96m tmpfs \"$0\" && exec \"$@\""]);
    command.arg(dir.path()).args(child("child_fills_the_disk"));
    let output = spawn(command, dir.path()).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("full after"), "{said}");
    eprintln!("{said}");
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0)
}
