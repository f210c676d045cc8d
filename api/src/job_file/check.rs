//! What was written into what it means. Every error is collected, with the path of its field.

use super::{
    amounts::{EnvValue, TimeSpan},
    error::{Issue, JobFileError, Position},
    file::{EntrypointFile, HealthFile, JobFile, RegionsFile, RestartFile, SplitBy},
    node::{Node, Path},
    rule::{PortFile, Rule},
};
use crate::{limits, problem::Code};
use polder_types::{
    Constraint, ConstraintOp, Entrypoint, HealthCheck, JobId, JobKind, JobSpec, Label, Millis, Name, PortSpec,
    Priority, RegionId, RegionSplit, Regions, Resources, RestartPolicy, RestartSpec, Spread, StopSpec, UpdateSpec,
};
use std::collections::{BTreeMap, BTreeSet};

/// What is wrong, by path.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<(Path, String, Option<String>)>);

impl Findings {
    fn add(&mut self, path: Path, message: impl Into<String>) {
        self.0.push((path, message.into(), None));
    }

    fn add_with_hint(&mut self, path: Path, message: impl Into<String>, hint: impl Into<String>) {
        self.0.push((path, message.into(), Some(hint.into())));
    }

    fn unless(&mut self, holds: bool, path: &Path, message: impl FnOnce() -> String) {
        if !holds {
            self.add(path.clone(), message());
        }
    }

    fn into_error(self, place: impl Fn(&Path) -> Option<Position>) -> JobFileError {
        let issue = |(path, message, hint): (Path, String, Option<String>)| Issue {
            field: path.to_string(),
            position: place(&path),
            message,
            hint,
        };
        JobFileError::new(Code::JobFileInvalid, self.0.into_iter().map(issue).collect())
    }

    pub(super) fn into_job_file_error(self, root: &Node, text: &str) -> JobFileError {
        self.into_error(|path| Some(Position::of(text, root.find(path).unwrap_or(0..0))))
    }

    pub(super) fn into_bare_error(self) -> JobFileError {
        self.into_error(|_| None)
    }
}

/// Checks a file and fills in its defaults.
pub(super) fn spec(file: &JobFile) -> Result<JobSpec, Findings> {
    let mut found = Findings::default();
    let top = Path::default();
    sizes(file, &mut found);
    let resources = resources(file, &mut found);
    let ports = ports(&file.ports, &mut found);
    let health = file.health.as_ref().and_then(|health| self::health(health, &file.ports, &mut found));
    let restart = restart(&file.restart, file.kind, &mut found);
    let regions = regions(&file.regions, file.tasks, &mut found);
    let constraints = constraints(&file.constraints, &mut found);
    let process = EntrypointFile {
        command: file.command.clone(),
        args: file.args.clone(),
        env: file.env.clone(),
        user: file.user.clone(),
        workdir: file.workdir.clone(),
    };
    let process = role(&process, &top, &mut found);
    let roles = top.key("entrypoints");
    let entrypoints: BTreeMap<Name, Entrypoint> = file
        .entrypoints
        .iter()
        .map(|(name, entry)| (name.clone(), role(entry, &roles.key(name), &mut found)))
        .collect();
    if let Some(name) = file.entrypoint.as_ref().filter(|name| !entrypoints.contains_key(*name)) {
        let known: Vec<String> = entrypoints.keys().map(|name| format!("`{name}`")).collect();
        let hint = if known.is_empty() {
            format!("add a table `[entrypoints.{name}]`")
        } else {
            format!("there are {}", known.join(", "))
        };
        found.add_with_hint(top.key("entrypoint"), format!("there is no entrypoint `{name}` in this file"), hint);
    }
    time(file.stop.grace, &top.key("stop").key("grace"), Millis(0), &mut found);
    time(file.update.min_healthy, &top.key("update").key("min_healthy"), Millis(0), &mut found);
    time(file.replace_after, &top.key("replace_after"), Millis::from_secs(1), &mut found);
    let spread = Spread {
        max_per_host: file.spread.max_per_host,
        max_per_rack: file.spread.max_per_rack,
        max_per_datacenter: file.spread.max_per_datacenter,
    };
    if !found.0.is_empty() {
        return Err(found);
    }
    Ok(JobSpec {
        id: JobId { account: file.account.clone(), name: file.name.clone() },
        kind: file.kind,
        tasks: file.tasks,
        priority: Priority(file.priority),
        image: file.image.clone(),
        entrypoints,
        entrypoint: file.entrypoint.clone(),
        process,
        resources,
        ports,
        constraints,
        spread,
        update: UpdateSpec { max_unavailable: file.update.max_unavailable, min_healthy: file.update.min_healthy.0 },
        stop: StopSpec { signal: file.stop.signal, grace: file.stop.grace.0 },
        restart,
        replace_after: file.replace_after.0,
        health,
        regions,
    })
}

fn sizes(file: &JobFile, found: &mut Findings) {
    let top = Path::default();
    found.unless((1..=limits::TASKS_MAX).contains(&file.tasks), &top.key("tasks"), || {
        format!("a job has 1 to {} tasks, not {}", limits::TASKS_MAX, file.tasks)
    });
    found.unless(file.priority <= limits::PRIORITY_MAX, &top.key("priority"), || {
        format!("a priority is 0 to {}, not {}", limits::PRIORITY_MAX, file.priority)
    });
    found.unless(file.entrypoints.len() <= limits::ENTRYPOINTS_MAX, &top.key("entrypoints"), || {
        format!("{} at most, not {}", limits::ENTRYPOINTS_MAX, file.entrypoints.len())
    });
    found.unless(file.update.max_unavailable > 0, &top.key("update").key("max_unavailable"), || {
        "with 0 no task could ever be updated or moved".to_owned()
    });
    let spread = top.key("spread");
    let maxima = [
        ("max_per_host", file.spread.max_per_host),
        ("max_per_rack", file.spread.max_per_rack),
        ("max_per_datacenter", file.spread.max_per_datacenter),
    ];
    for (name, max) in maxima {
        found.unless(max != Some(0), &spread.key(name), || "with 0 no task could be placed".to_owned());
    }
    image(&file.image, found);
}

fn image(image: &str, found: &mut Findings) {
    let path = Path::default().key("image");
    let hint = "an image is `oci:PATH[:TAG]` or `oci-archive:PATH[:TAG]`; `polder image pack` makes one";
    let rest = image.strip_prefix("oci:").or_else(|| image.strip_prefix("oci-archive:"));
    match rest {
        None => found.add_with_hint(path, format!("`{}` is not an image that Polder can read", cut(image)), hint),
        Some("") => found.add_with_hint(path, "the path is missing", hint),
        Some(rest) if rest.contains(['\0', '\n']) => found.add_with_hint(path, "it has a control character", hint),
        Some(_) => text_length(image, &path, found),
    }
}

fn cut(text: &str) -> String {
    text.chars().take(60).collect::<String>().escape_debug().to_string()
}

fn text_length(text: &str, path: &Path, found: &mut Findings) {
    found.unless(text.len() <= limits::TEXT_BYTES_MAX, path, || {
        format!("it has {} bytes; {} at most", text.len(), limits::TEXT_BYTES_MAX)
    });
}

fn time(value: TimeSpan, path: &Path, min: Millis, found: &mut Findings) {
    let span = value.0;
    found.unless((min..=limits::TIME_MAX).contains(&span), path, || {
        format!("it is `{value}`; `{}` to `{}` is possible", TimeSpan(min), TimeSpan(limits::TIME_MAX))
    });
}

fn resources(file: &JobFile, found: &mut Findings) -> Resources {
    let path = Path::default().key("resources");
    let (cpu, memory, pids) = (file.resources.cpu.0, file.resources.memory.0, file.resources.pids);
    found.unless(cpu.centi_cores() > 0, &path.key("cpu"), || "a task needs some CPU: 0.01 at least".to_owned());
    found.unless(cpu <= limits::CPU_MAX, &path.key("cpu"), || format!("{} cores at most, not {cpu}", limits::CPU_MAX));
    found.unless((limits::MEMORY_MIN..=limits::MEMORY_MAX).contains(&memory), &path.key("memory"), || {
        format!("it is {memory}; {} to {} is possible", limits::MEMORY_MIN, limits::MEMORY_MAX)
    });
    found.unless((1..=limits::PIDS_MAX).contains(&pids), &path.key("pids"), || {
        format!("it is {pids}; 1 to {} is possible", limits::PIDS_MAX)
    });
    Resources { cpu, memory, pids }
}

fn ports(ports: &[PortFile], found: &mut Findings) -> Vec<PortSpec> {
    let path = Path::default().key("ports");
    found.unless(ports.len() <= limits::PORTS_MAX, &path, || {
        format!("{} at most, not {}", limits::PORTS_MAX, ports.len())
    });
    let mut names = BTreeSet::new();
    let mut numbers = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        found.unless(names.insert(&port.name), &path, || format!("there are two ports called `{}`", port.name));
        if let Some(number) = port.fixed {
            found.unless(number > 0, &path.key("fixed"), || "0 is not a port".to_owned());
            found.unless(numbers.insert(number), &path.key("fixed"), || format!("two ports want the number {number}"));
        }
    }
    ports.iter().map(|port| PortSpec { name: port.name.clone(), fixed: port.fixed }).collect()
}

fn health(health: &HealthFile, ports: &[PortFile], found: &mut Findings) -> Option<HealthCheck> {
    let path = Path::default().key("health");
    let known = || ports.iter().map(|port| format!("`{}`", port.name)).collect::<Vec<_>>().join(", ");
    let port = match (&health.port, ports) {
        (Some(name), _) if ports.iter().any(|port| port.name == *name) => Some(name.clone()),
        (Some(name), []) => {
            let hint = format!("add `ports = [\"{name}\"]` at the top of the file");
            found.add_with_hint(path.key("port"), format!("the job has no port `{name}`"), hint);
            None
        }
        (Some(name), _) => {
            let hint = format!("its ports are {}", known());
            found.add_with_hint(path.key("port"), format!("the job has no port `{name}`"), hint);
            None
        }
        (None, [only]) => Some(only.name.clone()),
        (None, []) => {
            let hint = "add `ports = [\"http\"]` at the top of the file";
            found.add_with_hint(path.clone(), "a health check needs a port, and the job has none", hint);
            None
        }
        (None, _) => {
            found.add_with_hint(
                path.clone(),
                "the job has several ports: say which",
                format!("add `port`: {}", known()),
            );
            None
        }
    };
    found.unless(health.path.starts_with('/'), &path.key("path"), || "a path begins with `/`".to_owned());
    let printable = health.path.chars().all(|c| c.is_ascii_graphic());
    found.unless(printable, &path.key("path"), || "blanks and letters beyond ASCII must be percent-encoded".to_owned());
    text_length(&health.path, &path.key("path"), found);
    time(health.interval, &path.key("interval"), limits::INTERVAL_MIN, found);
    time(health.timeout, &path.key("timeout"), limits::INTERVAL_MIN, found);
    found.unless(health.failures > 0, &path.key("failures"), || "1 at least".to_owned());
    Some(HealthCheck {
        port: port?,
        path: health.path.clone(),
        interval: health.interval.0,
        timeout: health.timeout.0,
        failures: health.failures,
    })
}

fn restart(restart: &RestartFile, kind: JobKind, found: &mut Findings) -> RestartSpec {
    let path = Path::default().key("restart");
    time(restart.backoff, &path.key("backoff"), limits::INTERVAL_MIN, found);
    time(restart.backoff_max, &path.key("backoff_max"), limits::INTERVAL_MIN, found);
    time(restart.reset_after, &path.key("reset_after"), Millis(0), found);
    found.unless(restart.backoff.0 <= restart.backoff_max.0, &path.key("backoff_max"), || {
        format!("it is shorter than `backoff`, which is `{}`", restart.backoff)
    });
    found.unless(restart.max_failures != Some(0), &path.key("max_failures"), || {
        "1 at least; with `policy = \"never\"` nothing is started again".to_owned()
    });
    let default = match kind {
        JobKind::Service => RestartPolicy::Always,
        JobKind::Batch => RestartPolicy::OnFailure,
    };
    let policy = restart.policy.unwrap_or(default);
    if (kind, policy) == (JobKind::Batch, RestartPolicy::Always) {
        let hint = "use `\"on_failure\"`, or make the job a service";
        found.add_with_hint(
            path.key("policy"),
            "a batch task that has succeeded is done: it is not started again",
            hint,
        );
    }
    RestartSpec {
        policy,
        backoff: restart.backoff.0,
        backoff_max: restart.backoff_max.0,
        reset_after: restart.reset_after.0,
        max_failures: restart.max_failures,
    }
}

fn constraints(rules: &BTreeMap<Label, Rule>, found: &mut Findings) -> Vec<Constraint> {
    let top = Path::default().key("constraints");
    found.unless(rules.len() <= limits::CONSTRAINTS_MAX, &top, || {
        format!("{} at most, not {}", limits::CONSTRAINTS_MAX, rules.len())
    });
    let mut constraints = Vec::new();
    for (label, rule) in rules {
        let path = top.key(label);
        found.unless(!rule.is.is_empty() || !rule.not.is_empty(), &path, || {
            "it names no value: no host could match".to_owned()
        });
        for values in [&rule.is, &rule.not] {
            found.unless(values.len() <= limits::CONSTRAINT_VALUES_MAX, &path, || {
                format!("{} values at most, not {}", limits::CONSTRAINT_VALUES_MAX, values.len())
            });
            found.unless(values.iter().all(|v| v.len() <= limits::CONSTRAINT_VALUE_BYTES_MAX), &path, || {
                format!("a value has {} bytes at most", limits::CONSTRAINT_VALUE_BYTES_MAX)
            });
        }
        for (op, values) in [(ConstraintOp::In, &rule.is), (ConstraintOp::NotIn, &rule.not)] {
            if !values.is_empty() {
                constraints.push(Constraint { label: label.clone(), op, values: values.clone() });
            }
        }
    }
    constraints
}

fn role(role: &EntrypointFile, path: &Path, found: &mut Findings) -> Entrypoint {
    for (name, words) in [("command", &role.command), ("args", &role.args)] {
        let path = path.key(name);
        let bytes: usize = words.iter().map(String::len).sum();
        found.unless(words.len() <= limits::COMMAND_WORDS_MAX, &path, || {
            format!("{} words at most, not {}", limits::COMMAND_WORDS_MAX, words.len())
        });
        found.unless(bytes <= limits::COMMAND_BYTES_MAX, &path, || {
            format!("{} bytes at most, not {bytes}", limits::COMMAND_BYTES_MAX)
        });
        for (index, word) in words.iter().enumerate() {
            found.unless(!word.contains('\0'), &path.index(index), || "it has a zero byte".to_owned());
        }
    }
    found.unless(role.command.first().is_none_or(|word| !word.is_empty()), &path.key("command"), || {
        "its first word, the program, is empty".to_owned()
    });
    for (name, text) in [("user", &role.user), ("workdir", &role.workdir)] {
        if let Some(text) = text {
            let path = path.key(name);
            text_length(text, &path, found);
            found.unless(!text.is_empty() && !text.contains('\0'), &path, || {
                "it is empty or has a zero byte".to_owned()
            });
        }
    }
    if let Some(workdir) = &role.workdir {
        found.unless(workdir.starts_with('/'), &path.key("workdir"), || {
            "it must be absolute: begin with `/`".to_owned()
        });
    }
    let env = env(&role.env, &path.key("env"), found);
    Entrypoint {
        command: role.command.clone(),
        args: role.args.clone(),
        env,
        user: role.user.clone(),
        workdir: role.workdir.clone(),
    }
}

fn env(env: &BTreeMap<String, EnvValue>, path: &Path, found: &mut Findings) -> BTreeMap<String, String> {
    found.unless(env.len() <= limits::ENV_VARS_MAX, path, || {
        format!("{} variables at most, not {}", limits::ENV_VARS_MAX, env.len())
    });
    let bytes: usize = env.iter().map(|(name, value)| name.len() + value.0.len()).sum();
    found.unless(bytes <= limits::ENV_BYTES_MAX, path, || {
        format!("names and values have {bytes} bytes; {} at most", limits::ENV_BYTES_MAX)
    });
    for (name, value) in env {
        let path = path.key(name);
        let letters = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let begins = name.bytes().next().is_some_and(|b| !b.is_ascii_digit());
        found.unless(letters && begins && name.len() <= limits::ENV_NAME_BYTES_MAX, &path, || {
            "the name of a variable has letters, digits and `_`, and does not begin with a digit".to_owned()
        });
        let ours = name.starts_with("POLDER_") || name.starts_with("PORT_");
        found.unless(!ours, &path, || "names that begin with `POLDER_` or `PORT_` are Polder's own".to_owned());
        found.unless(!value.0.contains('\0'), &path, || "its value has a zero byte".to_owned());
    }
    env.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect()
}

fn regions(file: &RegionsFile, tasks: u32, found: &mut Findings) -> Regions {
    let path = Path::default().key("regions");
    let mut seen = BTreeSet::new();
    for (index, name) in file.names.iter().enumerate() {
        found.unless(seen.insert(name), &path.key("names").index(index), || format!("`{name}` is there twice"));
    }
    found.unless(file.names.len() <= limits::REGIONS_MAX, &path.key("names"), || {
        format!("{} at most, not {}", limits::REGIONS_MAX, file.names.len())
    });
    let by = match (file.split, &file.weights, &file.counts) {
        (_, Some(_), Some(_)) => {
            found.add(path.key("counts"), "`weights` and `counts` exclude each other");
            SplitBy::Even
        }
        (None, Some(_), None) => SplitBy::Weights,
        (None, None, Some(_)) => SplitBy::Counts,
        (None, None, None) => SplitBy::Even,
        (Some(split), weights, counts) => {
            let fits = match split {
                SplitBy::Even => weights.is_none() && counts.is_none(),
                SplitBy::Weights => weights.is_some(),
                SplitBy::Counts => counts.is_some(),
            };
            if !fits {
                let hint = "leave `split` out, or give the table of that name and no other";
                found.add_with_hint(path.key("split"), "it does not go with the tables that are here", hint);
                return Regions::default();
            }
            split
        }
    };
    let parts = |parts: &Option<BTreeMap<RegionId, u32>>| parts.clone().unwrap_or_default();
    let split = match by {
        SplitBy::Even => RegionSplit::Even,
        SplitBy::Weights => RegionSplit::Weights { weights: parts(&file.weights) },
        SplitBy::Counts => RegionSplit::Counts { counts: parts(&file.counts) },
    };
    let names = match &split {
        RegionSplit::Even => file.names.clone(),
        RegionSplit::Weights { weights } => {
            parted("weights", weights, file, found);
            let sum: u64 = weights.values().copied().map(u64::from).sum();
            found.unless(sum > 0, &path.key("weights"), || "at least one weight must be above 0".to_owned());
            for (name, weight) in weights {
                found.unless(*weight <= limits::WEIGHT_MAX, &path.key("weights").key(name), || {
                    format!("{} at most, not {weight}", limits::WEIGHT_MAX)
                });
            }
            named(&file.names, weights)
        }
        RegionSplit::Counts { counts } => {
            parted("counts", counts, file, found);
            let sum: u64 = counts.values().copied().map(u64::from).sum();
            found.unless(sum == u64::from(tasks), &path.key("counts"), || {
                format!("they add up to {sum}, but `tasks` is {tasks}")
            });
            named(&file.names, counts)
        }
    };
    Regions { names, split }
}

/// The regions that were named, or those of the table.
fn named(names: &[RegionId], parts: &BTreeMap<RegionId, u32>) -> Vec<RegionId> {
    if names.is_empty() { parts.keys().cloned().collect() } else { names.to_vec() }
}

/// A table of regions has the regions of `names`, if there are names.
fn parted(table: &str, parts: &BTreeMap<RegionId, u32>, file: &RegionsFile, found: &mut Findings) {
    let path = Path::default().key("regions").key(table);
    found.unless(!parts.is_empty(), &path, || "it names no region".to_owned());
    found.unless(parts.len() <= limits::REGIONS_MAX, &path, || {
        format!("{} regions at most, not {}", limits::REGIONS_MAX, parts.len())
    });
    if file.names.is_empty() {
        return;
    }
    for name in parts.keys().filter(|name| !file.names.contains(name)) {
        let hint = format!("add it to `names`, or take it out of `{table}`");
        found.add_with_hint(path.key(name), format!("the region `{name}` is not in `names`"), hint);
    }
    for name in file.names.iter().filter(|name| !parts.contains_key(*name)) {
        let hint = format!("add `{name}` to `{table}`; 0 is possible");
        found.add_with_hint(path.clone(), format!("the region `{name}` of `names` is missing"), hint);
    }
}
