//! The commands, run as a user runs them, against a server that plays its part.

#[path = "../../api/tests/support/fake.rs"]
mod fake;

use fake::Running;
use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

const WEB: &str = "name = \"web\"\naccount = \"shop\"\nimage = \"oci:/i\"\ntasks = 2\nports = [\"http\"]\n";

/// What a command did.
#[derive(Debug)]
struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

fn polder() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_polder"));
    // Nothing of whoever runs the tests may show in them.
    command.env_remove("POLDER_ADDR").env("COLUMNS", "100").env("USER", "tester").stdin(Stdio::null());
    command
}

fn ran(output: Output) -> Ran {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

fn run(arguments: &[&str]) -> Ran {
    ran(polder().args(arguments).output().unwrap())
}

fn run_with(server: &Running, arguments: &[&str]) -> Ran {
    ran(polder().env("POLDER_ADDR", &server.address).args(arguments).output().unwrap())
}

/// Runs a command with this on its stdin.
fn pipe(address: &str, arguments: &[&str], input: &[u8]) -> Ran {
    let mut command = polder();
    command.env("POLDER_ADDR", address).args(arguments);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The command may stop reading before the end: it refuses what is too large.
    let _ = child.stdin.take().unwrap().write_all(input);
    ran(child.wait_with_output().unwrap())
}

fn apply(server: &Running, text: &str, more: &[&str]) -> Ran {
    let arguments = [&["apply", "-f", "-"], more].concat();
    pipe(&server.address, &arguments, text.as_bytes())
}

#[test]
fn help_of_every_command() {
    let commands: [&[&str]; 21] = [
        &[],
        &["apply"],
        &["validate"],
        &["schema"],
        &["status"],
        &["stop"],
        &["delete"],
        &["logs"],
        &["why"],
        &["hosts"],
        &["cordon"],
        &["uncordon"],
        &["readmit"],
        &["drain"],
        &["quota"],
        &["quota", "get"],
        &["quota", "set"],
        &["quota", "remove"],
        &["events"],
        &["completions"],
        &["image", "pack"],
    ];
    for command in commands {
        let help = run(&[command, &["--help"][..]].concat());
        assert_eq!((help.code, help.stderr.as_str()), (0, ""));
        let name = if command.is_empty() { "polder".to_owned() } else { command.join("-") };
        insta::assert_snapshot!(format!("help-{name}"), help.stdout);
        assert!(command.is_empty() || command == ["quota"] || help.stdout.contains("Example:"), "{name}");
    }
}

#[test]
fn misuse_is_the_users_fault() {
    let wrong: [&[&str]; 10] = [
        &["aply"],
        &["apply"],
        &["stop"],
        &["stop", "nojob"],
        &["drain", "h1", "--abort", "--wait"],
        &["drain", "h1", "--deadline", "soon"],
        &["why", "shop"],
        &["quota", "set", "shop", "--cpu", "abc", "--memory", "1GiB", "--tasks", "1"],
        &["status", "-o", "yaml"],
        &["apply", "-f", "x", "--timeout", "1m"],
    ];
    for arguments in wrong {
        let ran = run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{arguments:?} {ran:?}");
        assert!(ran.stderr.starts_with("error:"), "{arguments:?} {ran:?}");
    }
    insta::assert_snapshot!("misuse-command", run(&["aply"]).stderr);
    insta::assert_snapshot!("misuse-cpu", run(wrong[7]).stderr);
    assert_eq!(run(&[]).code, 1);
}

#[test]
fn job_files_with_errors_show_them() {
    let text = format!("{WEB}taks = 3\n");
    let ran = pipe("", &["validate", "-f", "-"], text.as_bytes());
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    insta::assert_snapshot!("job-file-unknown-field", ran.stderr);

    let text = format!("{WEB}[resources]\ncpu = 0\nmemory = \"1KiB\"\n[health]\nport = \"htp\"\n");
    insta::assert_snapshot!("job-file-several", pipe("", &["validate", "-f", "-"], text.as_bytes()).stderr);

    let text = "name = \"Web\"\ntaks = 3\nimage = \"oci:/i\"\nports = [\"http\", 5]\n[resources]\ncpu = \"lots\"\nmemry = \"1GiB\"\npids = 0\n[health]\nport = \"http\"\n[update]\nmax_unavailable = 0\n";
    insta::assert_snapshot!("job-file-all-at-once", pipe("", &["validate", "-f", "-"], text.as_bytes()).stderr);

    let text = format!("{WEB}[resources\n");
    insta::assert_snapshot!("job-file-syntax", pipe("", &["validate", "-f", "-"], text.as_bytes()).stderr);

    let ran = run(&["validate", "-f", "/nowhere/web.toml"]);
    assert_eq!(ran.code, 1);
    insta::assert_snapshot!("job-file-missing", ran.stderr);
}

#[test]
fn malformed_files_exit_1_and_never_panic() {
    let files: [(&str, Vec<u8>); 9] = [
        ("wrong type", format!("{WEB}priority = \"high\"").into_bytes()),
        ("unknown field", format!("{WEB}colour = 1").into_bytes()),
        ("cpu abc", format!("{WEB}[resources]\ncpu = \"abc\"").into_bytes()),
        ("10 MB", vec![b'#'; 10 << 20]),
        ("binary", b"\x7fELF\x02\x01\x01\0\0\xff\xfe\xfd".to_vec()),
        ("zeroes", vec![0; 4096]),
        ("brackets", "[".repeat(200_000).into_bytes()),
        ("json brackets", "{\"a\":[".repeat(200_000).into_bytes()),
        ("empty", Vec::new()),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = folder.path().join("job.toml");
        std::fs::write(&path, &bytes).unwrap();
        let path = path.to_str().unwrap();
        for ran in
            [run(&["validate", "-f", path]), run(&["apply", "-f", path]), pipe("", &["validate", "-f", "-"], &bytes)]
        {
            assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{name}: {ran:?}");
            assert!(!ran.stderr.contains("panicked") && ran.stderr.contains("job_file_"), "{name}: {ran:?}");
            assert!(ran.stderr.len() < 4000, "{name}: {} bytes", ran.stderr.len());
        }
    }
}

#[test]
fn valid_files_are_told_so() {
    let ran = pipe("", &["validate", "-f", "-"], WEB.as_bytes());
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (0, "<stdin>: shop/web is a valid job: service, 2 tasks\n", "")
    );
    let full = pipe("", &["validate", "-f", "-", "--defaults"], WEB.as_bytes());
    insta::assert_snapshot!("validate-defaults", full.stdout);
    assert_eq!(pipe("", &["validate", "-f", "-"], full.stdout.as_bytes()).code, 0);
    let schema: serde_json::Value = serde_json::from_str(&run(&["schema"]).stdout).unwrap();
    assert_eq!(schema["title"], "Polder job file");
}

#[test]
fn apply_waits_until_healthy() {
    let server = Running::start();
    let ran = apply(&server, WEB, &["--wait"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.stdout, "shop/web applied, generation 1\nshop/web is healthy\n");
    assert_eq!(ran.stderr, "eu: progressing, 0 of 2 ready\neu: healthy, 2 of 2 ready\n");
    assert_eq!(apply(&server, WEB, &[]).stdout, "shop/web unchanged, generation 1\n");
    let stopped = run_with(&server, &["stop", "shop/web", "--wait"]);
    assert_eq!((stopped.code, stopped.stdout.as_str()), (0, "shop/web is being stopped\nshop/web is stopped\n"));
    assert_eq!(run_with(&server, &["stop", "shop/web"]).stdout, "shop/web was stopped already\n");
}

#[test]
fn apply_gives_up_with_reasons() {
    let server = Running::start();
    let ran = apply(&server, &WEB.replace("\"web\"", "\"stuck\""), &["--wait", "--timeout", "700ms"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, "shop/stuck applied, generation 1\n"));
    insta::assert_snapshot!("apply-timeout", ran.stderr);
}

#[test]
fn apply_over_quota_is_the_users_fault() {
    let server = Running::start();
    let ran = apply(&server, &WEB.replace("\"shop\"", "\"poor\""), &["--wait"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
    insta::assert_snapshot!("apply-quota", ran.stderr);
}

#[test]
fn a_refused_job_is_told_at_once_and_is_the_users_fault() {
    let server = Running::start();
    let ran = apply(&server, &WEB.replace("\"web\"", "\"taken\""), &["--wait", "--timeout", "1h"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (1, "shop/taken applied, generation 1\n"));
    insta::assert_snapshot!("apply-refused", ran.stderr);
}

#[test]
fn a_batch_is_waited_for_until_its_end() {
    let server = Running::start();
    let batch = |name: &str| format!("kind = \"batch\"\n{}", WEB.replace("\"web\"", name));
    let ran = apply(&server, &batch("\"web\""), &["--wait"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "shop/web applied, generation 1\nshop/web is completed\n"));
    let ran = apply(&server, &batch("\"broken\""), &["--wait", "--timeout", "1h"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("will not be completed: tasks have failed for good"), "{ran:?}");
}

#[test]
fn deleting_stops_first_when_asked_to() {
    let server = Running::start();
    apply(&server, WEB, &[]);
    let refused = run_with(&server, &["delete", "shop/web"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    assert!(refused.stderr.contains("--stop"), "{refused:?}");
    let deleted = run_with(&server, &["delete", "shop/web", "--stop"]);
    assert_eq!((deleted.code, deleted.stdout.as_str()), (0, "shop/web is deleted\n"), "{deleted:?}");
    assert_eq!(run_with(&server, &["status", "shop/web"]).code, 1);
    assert_eq!(apply(&server, WEB, &[]).stdout, "shop/web applied, generation 1\n");
}

#[test]
fn a_task_taken_for_a_job_and_a_job_taken_for_a_task_are_told() {
    let server = Running::start();
    apply(&server, WEB, &["--wait"]);
    let status = run_with(&server, &["status", "shop/web/0"]);
    assert_eq!((status.code, status.stdout.as_str()), (1, ""));
    insta::assert_snapshot!("status-of-a-task", status.stderr);
    let why = run_with(&server, &["why", "shop/web"]);
    assert_eq!((why.code, why.stdout.as_str()), (1, ""));
    insta::assert_snapshot!("why-of-a-job", why.stderr);
    let image = apply(&server, WEB, &["--image", "foo"]);
    assert_eq!((image.code, image.stdout.as_str()), (1, ""));
    insta::assert_snapshot!("apply-bad-image", image.stderr);
}

#[test]
fn logs_say_what_is_missing_and_follow_into_the_next_container() {
    let server = Running::start();
    apply(&server, &WEB.replace("\"web\"", "\"stuck\""), &[]);
    let waits = run_with(&server, &["logs", "shop/stuck"]);
    assert_eq!((waits.code, waits.stdout.as_str()), (0, ""));
    assert_eq!(waits.stderr.lines().count(), 2);
    assert!(waits.stderr.starts_with("shop/stuck/0: no log yet: waiting, not enough memory on 3 hosts\n"), "{waits:?}");
    // Each time that its log ends, this one's task is in its next container, and after the third it is done.
    apply(&server, &WEB.replace("\"web\"", "\"again\"").replace("tasks = 2", "tasks = 1"), &[]);
    let followed = run_with(&server, &["logs", "shop/again/0", "-f", "--tail", "1"]);
    assert_eq!(followed.code, 0, "{followed:?}");
    let line = |n| format!("shop/again/0 line {n}\n");
    let whole: String = (0..3).map(line).collect();
    assert_eq!(followed.stdout, format!("{}{whole}{whole}", line(2)));
    let events = run_with(&server, &["events", "-f"]);
    assert_eq!(events.code, 2);
    assert!(events.stderr.contains("hint: `polder events -f` begins again"), "{events:?}");
}

#[test]
fn only_the_folder_of_a_host_is_purged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for (path, why) in [(path, "it has no host.json"), ("/nowhere/host", "it is not there")] {
        let ran = run(&["host", "purge", "--data", path]);
        assert_eq!((ran.code, ran.stdout.as_str()), (1, ""));
        assert!(ran.stderr.contains(why), "{ran:?}");
    }
}

#[test]
fn relative_images_start_at_the_job_file() {
    let server = Running::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("web.toml");
    std::fs::write(&path, WEB.replace("oci:/i", "oci:images/web:v1")).unwrap();
    let path = path.to_str().unwrap();
    assert_eq!(run_with(&server, &["apply", "-f", path]).code, 0);
    let image = |server: &Running| -> String {
        let status = run_with(server, &["status", "shop/web", "-o", "json"]);
        let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
        status["spec"]["image"].as_str().unwrap().to_owned()
    };
    assert_eq!(image(&server), format!("oci:{}/images/web:v1", folder.path().display()));
    assert_eq!(run_with(&server, &["apply", "-f", path, "--image", "oci-archive:/x.tar"]).code, 0);
    assert_eq!(image(&server), "oci-archive:/x.tar");
}

#[test]
fn status_shows_jobs_regions_and_tasks() {
    let server = Running::start();
    assert_eq!(run_with(&server, &["status"]).code, 0);
    apply(&server, WEB, &["--wait"]);
    insta::assert_snapshot!("status", run_with(&server, &["status"]).stdout);
    insta::assert_snapshot!("status-wide", run_with(&server, &["status", "-o", "wide"]).stdout);
    let one = run_with(&server, &["status", "shop/web", "-o", "wide"]).stdout;
    for word in ["shop/web is healthy, generation 1", "2/2", "h1", "http=10.0.0.1:20000", "4242"] {
        assert!(one.contains(word), "{word} is missing:\n{one}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&run_with(&server, &["status", "shop/web", "-o", "json"]).stdout).unwrap();
    assert_eq!((json["state"].as_str(), json["tasks"][1]["phase"].as_str()), (Some("healthy"), Some("running")));
    let none = run_with(&server, &["status", "shop/none"]);
    assert_eq!((none.code, none.stdout.as_str()), (1, ""));
    insta::assert_snapshot!("status-no-such-job", none.stderr);
}

#[test]
fn only_drained_exits_0() {
    let server = Running::start();
    let drained = run_with(&server, &["drain", "h1", "--wait"]);
    assert_eq!((drained.code, drained.stdout.as_str()), (0, "shop/web/0 moved to h9\nh1 is drained\n"));
    let forced = run_with(&server, &["drain", "h2", "--wait"]);
    assert_eq!(forced.code, 2);
    insta::assert_snapshot!("drain-forced", forced.stderr);
    let silent = run_with(&server, &["drain", "h3", "--wait", "--deadline", "1m"]);
    assert_eq!(silent.code, 2);
    insta::assert_snapshot!("drain-unattested", silent.stderr);
    let begun = run_with(&server, &["drain", "h4"]);
    assert_eq!(
        (begun.code, begun.stdout.as_str()),
        (0, "h4 is being drained; what is left after 10m is stopped by force\n")
    );
    let aborted = run_with(&server, &["drain", "h4", "--abort"]);
    assert_eq!((aborted.code, aborted.stdout.as_str()), (0, "the drain of h4 is aborted\n"));
    assert_eq!(run_with(&server, &["drain", "x1", "--wait"]).code, 1);
}

#[test]
fn hosts_why_quota_events_and_logs() {
    let server = Running::start();
    apply(&server, WEB, &["--wait"]);
    insta::assert_snapshot!("hosts", run_with(&server, &["hosts"]).stdout);
    assert!(run_with(&server, &["hosts", "-o", "wide"]).stdout.contains("disk=ssd"));
    assert_eq!(run_with(&server, &["cordon", "h1"]).stdout, "h1 is cordoned; what runs there goes on: 5 tasks\n");
    assert_eq!(run_with(&server, &["uncordon", "h1"]).stdout, "h1 takes new tasks again\n");
    insta::assert_snapshot!("why", run_with(&server, &["why", "shop/web/0"]).stdout);
    insta::assert_snapshot!("events", run_with(&server, &["events"]).stdout);
    assert_eq!(run_with(&server, &["events", "-f"]).stdout, run_with(&server, &["events"]).stdout);
    assert_eq!(run_with(&server, &["events", "-o", "json"]).stdout.lines().count(), 2);
    let set = ["quota", "set", "shop", "--cpu", "4", "--memory", "8GiB", "--tasks", "20", "--region"];
    let fits = run_with(&server, &[&set[..], &["eu=cpu:4,memory:8GiB,tasks:20"]].concat());
    assert!(fits.code == 0 && fits.stdout.contains("0.6/4"), "{fits:?}");
    assert_eq!(run_with(&server, &[&set[..], &["eu=cpu:5,memory:8GiB,tasks:20"]].concat()).code, 1);
    assert!(run_with(&server, &["quota", "get"]).stdout.contains("shop"));
    assert_eq!(run_with(&server, &["quota", "get", "nobody"]).code, 1);
    let removed = run_with(&server, &["quota", "remove", "shop"]);
    assert_eq!(removed.stdout, "shop has no quota any more: it may use what there is\n");
    assert_eq!(run_with(&server, &["quota", "remove", "shop"]).code, 1);
    assert_eq!(run_with(&server, &["logs", "shop/web/1", "--tail", "1"]).stdout, "shop/web/1 line 2\n");
    let all = run_with(&server, &["logs", "shop/web"]).stdout;
    let mut lines: Vec<&str> = all.lines().collect();
    lines.sort_unstable();
    assert_eq!((lines.len(), lines[0], lines[5]), (6, "[0] shop/web/0 line 0", "[1] shop/web/1 line 2"));
}

#[test]
fn nobody_there_is_the_systems_fault() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let ran = run(&["--addr", &address, "status"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    insta::assert_snapshot!("nobody-there", ran.stderr.replace(&address, "HOST:PORT"));
    assert_eq!(run(&["--addr", "https://x", "status"]).code, 1);
}

#[test]
fn a_reader_that_goes_away_is_nobodys_fault() {
    for arguments in [&["schema"][..], &["completions", "bash"], &["--help"]] {
        let mut child = polder().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ran = ran(child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{arguments:?}");
    }
}

#[test]
fn images_are_packed() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("web");
    std::fs::write(&program, "#!/bin/true").unwrap();
    let (program, layout, tar) = (program.to_str().unwrap(), folder.path().join("layout"), folder.path().join("a.tar"));
    let pack = |output: &std::path::Path| {
        let output = output.to_str().unwrap();
        run(&["image", "pack", "--binary", program, "--output", output, "--tag", "v1", "--arg=-v", "--env", "A=b"])
    };
    let (first, second) = (pack(&layout), pack(&tar));
    assert_eq!((first.code, second.code), (0, 0), "{first:?} {second:?}");
    assert!(first.stdout.starts_with(&format!("oci:{}:v1 sha256:", layout.display())), "{first:?}");
    let digest = |ran: &Ran| ran.stdout.split(' ').nth(1).unwrap().to_owned();
    assert_eq!(digest(&first), digest(&second));
    assert!(layout.join("oci-layout").exists() && tar.exists());
    let missing = run(&["image", "pack", "--binary", "/nowhere/web", "--output", layout.to_str().unwrap()]);
    assert_eq!((missing.code, missing.stdout.as_str()), (1, ""));
    assert!(missing.stderr.contains("/nowhere/web"), "{missing:?}");
}

#[test]
fn completions_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = run(&["completions", shell]);
        assert!(ran.code == 0 && ran.stdout.contains("polder"), "{shell}");
    }
}
