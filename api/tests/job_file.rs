//! The job file: what is accepted, what is refused, and how that is said.

use polder_api::{
    Code, Problem,
    job_file::{Format, JobFile, JobFileError, Parsed, parse},
};
use polder_types::{ConstraintOp, JobKind, Millis, RegionSplit, RestartPolicy};

const MINIMAL: &str = "name = \"web\"\naccount = \"shop\"\nimage = \"oci:/img\"\n";

fn toml(text: &str) -> Result<Parsed, JobFileError> {
    parse(text.as_bytes(), Format::Toml)
}

/// The minimal file with these lines added: line 4 is the first of them.
fn with(lines: &str) -> Result<Parsed, JobFileError> {
    toml(&format!("{MINIMAL}{lines}\n"))
}

/// `line:column field: message (hint)` of each issue.
fn issues(result: Result<Parsed, JobFileError>) -> Vec<String> {
    let error = result.expect_err("this file is wrong");
    let line = |issue: &polder_api::job_file::Issue| {
        let place = issue.position.map_or_else(String::new, |at| format!("{}:{} ", at.line, at.column));
        let hint = issue.hint.as_ref().map_or_else(String::new, |hint| format!(" ({hint})"));
        format!("{place}{}: {}{hint}", issue.field, issue.message)
    };
    error.issues.iter().map(line).collect()
}

fn issue(lines: &str) -> String {
    issues(with(lines)).join(" | ")
}

#[test]
fn the_examples_are_jobs() {
    let web = toml(include_str!("../../examples/web.toml")).unwrap().spec;
    assert_eq!((web.tasks, web.kind, web.ports.len()), (6, JobKind::Service, 1));
    assert_eq!(web.health.as_ref().map(|health| health.port.as_str()), Some("http"));
    let batch = toml(include_str!("../../examples/batch.toml")).unwrap().spec;
    assert_eq!((batch.kind, batch.restart.policy), (JobKind::Batch, RestartPolicy::OnFailure));
    assert!(!batch.resolved_process().args.is_empty());
}

#[test]
fn defaults_are_filled_in() {
    let spec = with("").unwrap().spec;
    assert_eq!(spec.id.to_string(), "shop/web");
    assert_eq!((spec.tasks, spec.priority.0, spec.resources.cpu.centi_cores()), (1, 50, 25));
    assert_eq!((spec.restart.policy, spec.replace_after), (RestartPolicy::Always, Millis::from_secs(60)));
    assert_eq!((spec.health, spec.regions.split), (None, RegionSplit::Even));
}

#[test]
fn short_and_long_forms_mean_the_same() {
    let text = r#"
        ports = ["http", { name = "metrics", fixed = 9100 }]
        [constraints]
        disk = "ssd"
        zone = ["a", "b"]
        arch = { not = "arm64" }
        gen = { in = ["g5", "g6"], not = ["g5"] }
        [env]
        N = 4
        DEBUG = true
    "#;
    let spec = with(text).unwrap().spec;
    let rules: Vec<String> = spec
        .constraints
        .iter()
        .map(|rule| {
            format!(
                "{} {} {}",
                rule.label,
                if rule.op == ConstraintOp::In { "in" } else { "not" },
                rule.values.join(",")
            )
        })
        .collect();
    assert_eq!(rules, ["arch not arm64", "disk in ssd", "gen in g5,g6", "gen not g5", "zone in a,b"]);
    assert_eq!(spec.ports[1].fixed, Some(9100));
    assert_eq!(spec.process.env["N"], "4");
    assert_eq!(spec.process.env["DEBUG"], "true");
    let tables = with("[[ports]]\nname = \"http\"\n[[ports]]\nname = \"metrics\"\nfixed = 9100").unwrap().spec;
    assert_eq!(spec.ports, tables.ports);
}

#[test]
fn amounts_have_units() {
    for (line, centi) in
        [("cpu = 2", 200), ("cpu = 0.5", 50), ("cpu = \"500m\"", 50), ("cpu = \"0.07\"", 7), ("cpu = 0.07", 7)]
    {
        let spec = with(&format!("[resources]\n{line}")).unwrap().spec;
        assert_eq!(spec.resources.cpu.centi_cores(), centi, "{line}");
    }
    assert_eq!(
        issue("[resources]\ncpu = \"abc\""),
        "5:7 resources.cpu: `abc` is not an amount of CPU: expected cores with at most two decimals (`2`, `0.25`) or \
         thousandths in steps of ten (`250m`)"
    );
    assert_eq!(
        issue("[resources]\nmemory = 256"),
        "5:10 resources.memory: `256` is not an amount of bytes: expected a number and a unit, such as `512MiB`, `1.5GiB` or \
         `500MB`"
    );
    assert_eq!(
        issue("replace_after = \"soon\""),
        "4:17 replace_after: `soon` is not a length of time: expected a number and a unit, such as `500ms`, `30s`, `10m`, \
         `2h` or `1h30m`"
    );
    for line in ["cpu = nan", "cpu = inf", "cpu = -1", "cpu = 1e300", "cpu = []", "cpu = true", "cpu = 1979-05-27"] {
        assert!(with(&format!("[resources]\n{line}")).is_err(), "{line}");
    }
}

#[test]
fn unknown_fields_are_refused_with_the_nearest_name() {
    assert_eq!(issue("taks = 3"), "4:1 taks: unknown field `taks` (did you mean `tasks`?)");
    assert_eq!(
        issue("[resources]\nmemroy = \"1GiB\""),
        "5:1 resources.memroy: unknown field `memroy` (did you mean `memory`?)"
    );
    assert_eq!(issue("[stop]\nxyzzy = 1"), "5:1 stop.xyzzy: unknown field `xyzzy` (known here: `signal`, `grace`)");
    assert_eq!(
        issue("ports = [{ name = \"a\", fixd = 1 }]"),
        "4:24 ports[0].fixd: unknown field `fixd` (did you mean `fixed`?)"
    );
    assert_eq!(
        issue("kind = \"servce\""),
        "4:8 kind: `servce` is not one of `service`, `batch` (did you mean `service`?)"
    );
    let json = "{\"name\": \"web\",\n \"account\": \"shop\", \"image\": \"oci:/i\",\n \"taks\": 1}";
    assert_eq!(
        issues(parse(json.as_bytes(), Format::Json)),
        ["3:2 taks: unknown field `taks` (did you mean `tasks`?)"]
    );
}

#[test]
fn wrong_types_are_named_in_words() {
    assert_eq!(issue("tasks = \"six\""), "4:9 tasks: expected a whole number, found the string `six`");
    assert_eq!(issue("tasks = -6"), "4:9 tasks: expected a whole number from 0 to 4294967295, found the number `-6`");
    assert_eq!(issue("tasks = 1.5"), "4:9 tasks: expected a whole number, found the number `1.5`");
    assert_eq!(
        issue("resources = 3"),
        "4:13 resources: expected a table with `cpu`, `memory` and `pids`, found the number `3`"
    );
    assert_eq!(
        issue("resources = [1, 2, 3]"),
        "4:13 resources: expected a table with `cpu`, `memory` and `pids`, found a list"
    );
    assert_eq!(issue("command = \"sleep 1\""), "4:11 command: expected a list, found the string `sleep 1`");
    assert_eq!(issue("kind = 3"), "4:8 kind: expected one of `service`, `batch`");
    assert_eq!(
        issues(toml("name = \"Web\"\naccount = \"shop\"\nimage = \"oci:/i\"")),
        [
            "1:8 name: `Web` is not a name: `W` is not allowed (lower-case letters, digits and `-`, begun by a letter or digit)"
        ]
    );
    assert_eq!(issues(toml("name = \"web\"\naccount = \"shop\"")), ["1:1 : the field `image` is missing"]);
}

#[test]
fn every_contradiction_is_listed_in_the_order_of_the_text() {
    let text = r#"tasks = 6
ports = ["http", "http", { name = "a", fixed = 80 }, { name = "b", fixed = 80 }]
entrypoint = "worker"
env = { "1X" = "", PORT_A = "1" }
[health]
port = "htp"
[regions]
names = ["eu"]
counts = { eu = 2, us = 3 }"#;
    assert_eq!(
        issues(with(text)),
        [
            "5:18 ports[1]: there are two ports called `http`",
            "5:76 ports[3].fixed: two ports want the number 80",
            "6:14 entrypoint: there is no entrypoint `worker` in this file (add a table `[entrypoints.worker]`)",
            "7:16 env.1X: the name of a variable has letters, digits and `_`, and does not begin with a digit",
            "7:29 env.PORT_A: names that begin with `POLDER_` or `PORT_` are Polder's own",
            "9:8 health.port: the job has no port `htp` (its ports are `http`, `http`, `a`, `b`)",
            "12:1 regions.counts: they add up to 5, but `tasks` is 6",
            "12:25 regions.counts.us: the region `us` is not in `names` (add it to `names`, or take it out of `counts`)",
        ]
    );
}

#[test]
fn zeroes_and_excesses_are_refused() {
    let wrong = [
        "tasks = 0",
        "tasks = 100001",
        "priority = 101",
        "image = \"\"",
        "[resources]\ncpu = 0",
        "[resources]\ncpu = 1025",
        "[resources]\nmemory = \"1KiB\"",
        "[resources]\nmemory = \"1000TiB\"",
        "[resources]\npids = 0",
        "[update]\nmax_unavailable = 0",
        "[spread]\nmax_per_host = 0",
        "[restart]\nmax_failures = 0",
        "[restart]\nbackoff = \"1h\"",
        "[restart]\nbackoff = \"1ms\"",
        "[stop]\ngrace = \"31d\"",
        "[health]",
        "ports = [\"a\", \"b\"]\n[health]",
        "ports = [\"a\"]\n[health]\npath = \"x\"",
        "ports = [\"a\"]\n[health]\npath = \"/ x\"",
        "ports = [\"a\"]\n[health]\ninterval = \"0s\"",
        "ports = [{ name = \"a\", fixed = 0 }]",
        "ports = [{ name = \"a\", fixed = 70000 }]",
        "kind = \"batch\"\n[restart]\npolicy = \"always\"",
        "workdir = \"tmp\"",
        "command = [\"\"]",
        "command = [\"a\\u0000\"]",
        "[constraints]\ndisk = []",
        "[constraints]\ndisk = {}",
        "[constraints]\ndisk = { in = 3 }",
        "[constraints]\nDISK = \"a\"",
        "[regions]\nweights = {}",
        "[regions]\nweights = { eu = 0 }",
        "[regions]\nweights = { eu = 1 }\ncounts = { eu = 1 }",
        "[regions]\nsplit = \"counts\"",
        "[regions]\nsplit = \"even\"\nweights = { eu = 1 }",
        "[regions]\nnames = [\"eu\", \"eu\"]",
        "[regions]\nnames = [\"eu\", \"us\"]\nweights = { eu = 1 }",
        "name = \"twice\"",
    ];
    for lines in wrong {
        assert!(with(lines).is_err(), "{lines}");
    }
    let ports: Vec<String> = (0..17).map(|n| format!("\"p{n}\"")).collect();
    assert_eq!(issue(&format!("ports = [{}]", ports.join(","))), "4:9 ports: 16 at most, not 17");
    let env: String = (0..257).map(|n| format!("V{n} = \"\"\n")).collect();
    assert_eq!(issue(&format!("[env]\n{env}")), "4:2 env: 256 variables at most, not 257");
}

#[test]
fn a_spec_survives_being_written_out() {
    let examples = [
        include_str!("../../examples/web.toml").to_owned(),
        include_str!("../../examples/batch.toml").to_owned(),
        MINIMAL.to_owned(),
        format!("{MINIMAL}tasks = 6\n[regions]\ncounts = {{ eu = 4, us = 2 }}"),
        format!("{MINIMAL}[regions]\nnames = [\"us\", \"eu\"]\nweights = {{ eu = 4, us = 2 }}"),
        format!("{MINIMAL}[constraints]\n\"a.b/c\" = \"x\"\nz = {{ in = [\"a\", \"b\"], not = \"c\" }}"),
        format!(
            "{MINIMAL}replace_after = \"1h0m1s1ms\"\nports = [{{ name = \"a\", fixed = 1 }}]\n[resources]\nmemory = \"67108865B\""
        ),
    ];
    for text in examples {
        let spec = toml(&text).unwrap().spec;
        let file = JobFile::from(&spec);
        let written = file.to_toml().unwrap();
        assert_eq!(toml(&written).unwrap().spec, spec, "{written}");
        let json = serde_json::to_string(&file).unwrap();
        assert_eq!(parse(json.as_bytes(), Format::Json).unwrap().spec, spec, "{json}");
        let read: JobFile = serde_json::from_str(&json).unwrap();
        assert_eq!(read.to_spec().unwrap(), spec);
    }
}

#[test]
fn hostile_files_are_refused_and_never_panic() {
    let code = |bytes: &[u8]| {
        let error = parse(bytes, Format::of(bytes)).expect_err("not a job");
        assert!(!error.issues.is_empty());
        let problem = Problem::from(error);
        assert!(problem.to_string().len() < 2000, "{problem}");
        problem.code
    };
    assert_eq!(code(&vec![b'a'; 10 << 20]), Code::JobFileLimit);
    assert_eq!(code(&"[".repeat(200_000).into_bytes()), Code::JobFileLimit);
    assert_eq!(code(&"{\"a\":".repeat(200_000).into_bytes()), Code::JobFileLimit);
    assert_eq!(code(&format!("a = {}", "[".repeat(200_000)).into_bytes()), Code::JobFileLimit);
    assert_eq!(code(&format!("a = {}", "{a=".repeat(200_000)).into_bytes()), Code::JobFileLimit);
    assert_eq!(code(&format!("{}a = 1", "a.".repeat(200_000)).into_bytes()), Code::JobFileLimit);
    assert_eq!(code(b"\x7fELF\x02\x01\x01\0\xff\xfe"), Code::JobFileLimit);
    assert_eq!(code(b"\0\0\0\0"), Code::JobFileLimit);
    assert_eq!(code(format!("{MINIMAL}user = \"\u{1b}[2J\"").as_bytes()), Code::JobFileLimit);
    for text in [
        "",
        "   \n",
        "{",
        "}",
        "{\"a\"",
        "{\"a\":1,}",
        "{\"a\":\"\\x\"}",
        "{} {}",
        "nope",
        "[a",
        "a = \"\\q\"",
        "a = 'x",
    ] {
        assert!(matches!(code(text.as_bytes()), Code::JobFileSyntax), "{text}");
    }
    for text in ["{}", "[]", "a = 1"] {
        assert!(!matches!(code(text.as_bytes()), Code::Internal), "{text}");
    }
    let many = format!("{MINIMAL}[env]\n{}", (0..20_000).map(|n| format!("V{n}.a.b = [{{}}]\n")).collect::<String>());
    assert_eq!(code(many.as_bytes()), Code::JobFileInvalid);
}

mod random {
    use super::*;
    use proptest::prelude::*;

    fn pieces() -> impl Strategy<Value = String> {
        let fixed = prop::sample::select(vec![
            "[",
            "]",
            "{",
            "}",
            "\"",
            "'",
            "\"\"\"",
            "=",
            ",",
            ".",
            "\n",
            "#",
            "-",
            "0",
            "9999999999999999999",
            "1e999",
            "nan",
            "true",
            "null",
            "[[ports]]",
            "[resources]",
            "cpu",
            "\\u0000",
            "\\",
            "é",
            "\u{feff}",
            "\0",
            "1979-05-27T07:32:00Z",
            ":",
        ]);
        prop_oneof![fixed.prop_map(str::to_owned), any::<String>()]
    }

    fn floor(text: &str, at: usize) -> usize {
        (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn edits_never_panic(edits in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..20, pieces()), 1..8), json: bool) {
            let toml_text = include_str!("../../examples/web.toml");
            let mut text = if json {
                serde_json::to_string_pretty(&toml(toml_text).unwrap().file).unwrap()
            } else {
                toml_text.to_owned()
            };
            for (at, cut, piece) in edits {
                let from = floor(&text, at.index(text.len().max(1)));
                let to = floor(&text, from + cut).max(from);
                text.replace_range(from..to, &piece);
            }
            for format in [Format::Toml, Format::Json] {
                match parse(text.as_bytes(), format) {
                    Ok(parsed) => {
                        let again = JobFile::from(&parsed.spec).to_spec();
                        prop_assert_eq!(again.unwrap(), parsed.spec);
                    }
                    Err(error) => {
                        for issue in &error.issues {
                            if let Some(at) = issue.position {
                                prop_assert!(text.is_char_boundary(at.offset) && text.is_char_boundary(at.offset + at.length));
                            }
                        }
                    }
                }
            }
        }

        #[test]
        fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes, Format::Toml);
            let _ = parse(&bytes, Format::Json);
        }
    }
}
