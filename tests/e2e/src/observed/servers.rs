//! A real Prometheus and a real Alertmanager.

use super::{files, http};
use crate::eventually;
use serde_json::Value;
use std::{
    fs::{self, File},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// A program of these that is not installed.
#[must_use]
pub fn missing_program<'p>(programs: &[&'p str]) -> Option<&'p str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = |program: &&&str| std::env::split_paths(&path).any(|folder| folder.join(program).exists());
    programs.iter().find(|program| !installed(program)).copied()
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    listener.local_addr().expect("a bound socket has an address").to_string()
}

/// A program that is killed in the end.
#[derive(Debug)]
struct Server {
    address: String,
    child: Child,
}

impl Server {
    fn start(program: &str, folder: &Path, args: &[String], address: String, ready: &str) -> Self {
        let log = File::create(folder.join(format!("{program}.log"))).expect("the log can be made");
        let child = Command::new(program)
            .args(args)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file can be shared"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{program} can't be started: {error}"));
        let mut server = Self { address, child };
        eventually(&format!("{program} answers"), || {
            let ended = server.child.try_wait().ok().flatten();
            let log = || fs::read_to_string(folder.join(format!("{program}.log"))).unwrap_or_default();
            assert!(ended.is_none(), "{program} ended: {}", log());
            http::json(&server.address, ready, &[])
        });
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How Prometheus is set up.
#[derive(Clone, Debug)]
pub struct Setup<'s> {
    /// Where everything of it goes.
    pub folder: PathBuf,
    /// Where the federation listens, without `http://`.
    pub federation: &'s str,
    /// What is scraped where the federation has no service discovery: targets as YAML.
    pub targets: String,
    /// Where Alertmanager listens, if there is one.
    pub alertmanager: Option<&'s str>,
    /// Alerts wait a second where they would wait minutes.
    pub hasty: bool,
}

/// A Prometheus that scrapes a cluster every second, with the repository's configuration and rules but for times and addresses.
#[derive(Debug)]
pub struct Prometheus(Server);

impl Prometheus {
    /// Starts it and waits until it answers.
    ///
    /// # Panics
    /// When it does not come up, or the repository's configuration is not what is expected.
    #[must_use]
    pub fn start(setup: &Setup<'_>) -> Self {
        let rules = setup.folder.join("rules");
        fs::create_dir_all(&rules).expect("a folder for rules");
        for path in files::rule_files() {
            let text = fs::read_to_string(&path).expect("a rule file can be read");
            let hasty = |line: &str| match line.split_once("for: ") {
                Some((indent, _)) if setup.hasty && indent.trim().is_empty() => format!("{indent}for: 1s\n"),
                _ => format!("{line}\n"),
            };
            let text: String = text.lines().map(hasty).collect();
            fs::write(rules.join(path.file_name().unwrap_or_default()), text).expect("a rule file can be written");
        }
        let config = files::repository().join("deploy/prometheus/prometheus.yml");
        let config = fs::read_to_string(&config).expect("the configuration is there");
        let replace = |text: &str, from: &str, to: &str| {
            assert!(text.contains(from), "the configuration has no \"{from}\"");
            text.replace(from, to)
        };
        let mut config = replace(&config, "_interval: 15s", "_interval: 1s");
        config = replace(&config, "refresh_interval: 30s", "refresh_interval: 1s");
        config = replace(&config, "../../observability/rules/", "rules/");
        config = replace(&config, "127.0.0.1:7000", setup.federation);
        config = replace(&config, "127.0.0.1:9093", setup.alertmanager.unwrap_or("127.0.0.1:9"));
        if http::json(setup.federation, "/v1/discovery/nodes", &[]).is_none_or(|found| !found.is_array()) {
            eprintln!("SKIP service discovery: this federation has none; targets are listed");
            config.truncate(config.find("scrape_configs:").unwrap_or(config.len()));
            let targets = &setup.targets;
            config.push_str(&format!("scrape_configs:\n  - job_name: polder\n    static_configs:\n{targets}"));
        }
        fs::write(setup.folder.join("prometheus.yml"), config).expect("the configuration can be written");
        let address = free_address();
        let args = [
            "--config.file=prometheus.yml".to_owned(),
            "--storage.tsdb.path=tsdb".to_owned(),
            format!("--web.listen-address={address}"),
            "--rules.alert.resend-delay=1s".to_owned(),
            "--log.level=warn".to_owned(),
        ];
        Self(Server::start("prometheus", &setup.folder, &args, address, "/api/v1/status/buildinfo"))
    }

    fn ask(&self, path: &str, query: &[(&str, &str)]) -> Value {
        let answer = http::json(&self.0.address, path, query).unwrap_or_default();
        assert_eq!(answer["status"], "success", "{path} {query:?}: {answer}");
        answer["data"].clone()
    }

    /// The targets that it scrapes now.
    ///
    /// # Panics
    /// When it does not answer.
    #[must_use]
    pub fn targets(&self) -> Vec<Value> {
        self.ask("/api/v1/targets", &[("state", "active")])["activeTargets"].as_array().cloned().unwrap_or_default()
    }

    /// What a query answers now: labels and value.
    ///
    /// # Panics
    /// When it does not answer, or refuses the query.
    #[must_use]
    pub fn query(&self, query: &str) -> Vec<(Value, f64)> {
        let data = self.ask("/api/v1/query", &[("query", query)]);
        let number = |value: &Value| value.as_str().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN);
        let series = data["result"].as_array().into_iter().flatten();
        series.map(|series| (series["metric"].clone(), number(&series["value"][1]))).collect()
    }

    /// Rules that it could not evaluate, and why.
    ///
    /// # Panics
    /// When it does not answer.
    #[must_use]
    pub fn broken_rules(&self) -> Vec<String> {
        let data = self.ask("/api/v1/rules", &[]);
        let groups = data["groups"].as_array().cloned().unwrap_or_default();
        let rules = groups.into_iter().flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default());
        let broken = rules.filter(|rule| rule["health"] == "err");
        broken.map(|rule| format!("{}: {}", rule["name"], rule["lastError"])).collect()
    }

    /// What a query answered each second between two times in seconds: the values of each series, oldest first.
    ///
    /// # Panics
    /// When it does not answer, or refuses the query.
    #[must_use]
    pub fn history(&self, query: &str, from: f64, to: f64) -> Vec<Vec<(f64, f64)>> {
        let (from, to) = (from.to_string(), to.to_string());
        let query = [("query", query), ("start", &from), ("end", &to), ("step", "1")];
        let data = self.ask("/api/v1/query_range", &query);
        let point = |point: &Value| {
            let value: f64 = point[1].as_str()?.parse().ok()?;
            Some((point[0].as_f64()?, value)).filter(|_| !value.is_nan())
        };
        let values = |series: &Value| series["values"].as_array().into_iter().flatten().filter_map(point).collect();
        data["result"].as_array().into_iter().flatten().map(values).collect()
    }
}

/// An Alertmanager with the repository's configuration. Whom it would call does not exist.
#[derive(Debug)]
pub struct Alertmanager(Server);

impl Alertmanager {
    /// Starts it and waits until it answers.
    ///
    /// # Panics
    /// When it does not come up.
    #[must_use]
    pub fn start(folder: &Path) -> Self {
        let config = files::repository().join("deploy/alertmanager/alertmanager.yml");
        let text = fs::read_to_string(&config).expect("the configuration is there");
        fs::write(folder.join("alertmanager.yml"), text.replace("127.0.0.1:9094", "127.0.0.1:9"))
            .expect("the configuration can be written");
        let address = free_address();
        let args = [
            "--config.file=alertmanager.yml".to_owned(),
            "--storage.path=alertmanager".to_owned(),
            format!("--web.listen-address={address}"),
            // Alone.
            "--cluster.listen-address=".to_owned(),
            "--log.level=error".to_owned(),
        ];
        Self(Server::start("prometheus-alertmanager", folder, &args, address, "/api/v2/status"))
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.0.address
    }

    /// The alerts of a name that it holds now, inhibited ones too.
    #[must_use]
    pub fn alerts(&self, name: &str) -> Vec<Value> {
        let filter = format!("alertname=\"{name}\"");
        let all = http::json(&self.0.address, "/api/v2/alerts", &[("filter", &filter)]).unwrap_or_default();
        all.as_array().cloned().unwrap_or_default()
    }
}
