//! Who is who in a development federation: names, addresses and folders, all derived from the arguments.

use super::DevArgs;
use serde::Serialize;
use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

/// Ports that each host hands out.
const PORTS_PER_HOST: u16 = 100;

/// One child process to be.
#[derive(Clone, Debug)]
pub(super) struct Role {
    pub(super) name: String,
    pub(super) args: Vec<String>,
    /// Where the API answers; hosts have none.
    pub(super) url: Option<String>,
    /// Where `/metrics` answers.
    pub(super) metrics: String,
}

/// A host of the federation.
#[derive(Clone, Debug)]
pub(super) struct HostPlan {
    pub(super) id: String,
    pub(super) data: PathBuf,
}

/// The whole plan.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) data: PathBuf,
    pub(super) federation_url: String,
    /// In the order in which they are started.
    pub(super) roles: Vec<Role>,
    pub(super) hosts: Vec<HostPlan>,
}

/// What `dev.json` says of one process.
#[derive(Serialize)]
pub(super) struct Process<'a> {
    pub(super) name: &'a str,
    pub(super) pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<&'a str>,
    pub(super) metrics: &'a str,
}

impl Layout {
    pub(super) fn plan(args: &DevArgs) -> Result<Self, String> {
        let data = std::path::absolute(&args.data).map_err(|error| format!("{}: {error}", args.data.display()))?;
        let all_hosts = u32::from(args.regions) * u32::from(args.hosts);
        let last_port = u32::from(args.task_ports) + all_hosts * u32::from(PORTS_PER_HOST);
        if last_port > 65_536 {
            return Err(format!(
                "{all_hosts} hosts of {PORTS_PER_HOST} ports from {} on go past port 65535: start lower with --task-ports",
                args.task_ports
            ));
        }
        let url = |offset: u16| -> Result<String, String> {
            let port = args.port.checked_add(offset).ok_or("--port leaves no room for the regions' ports")?;
            Ok(format!("http://127.0.0.1:{port}"))
        };
        let federation_url = url(0)?;
        let store = |name: &str| match &args.etcd {
            Some(endpoints) => {
                vec!["--etcd".to_owned(), endpoints.clone(), "--etcd-prefix".to_owned(), format!("/polder/{name}/")]
            }
            None => vec!["--data".to_owned(), data.join(name).display().to_string()],
        };
        let mut roles = Vec::new();
        let mut hosts = Vec::new();
        let mut federation = vec!["federation".to_owned(), "--listen".to_owned(), address(&federation_url)];
        federation.extend(store("federation"));
        for region in 1..=args.regions {
            let name = format!("r{region}");
            let region_url = url(region)?;
            federation.extend(["--region".to_owned(), format!("{name}={region_url}")]);
            let mut role = ["region", "--region", &name, "--listen", &address(&region_url)].map(str::to_owned).to_vec();
            role.extend(["--silent-after".to_owned(), args.silent_after.to_string()]);
            role.extend(["--federation".to_owned(), federation_url.clone()]);
            role.extend(store(&name));
            roles.push(Role {
                name: format!("region-{name}"),
                args: role,
                metrics: format!("{region_url}/metrics"),
                url: Some(region_url.clone()),
            });
            for number in 1..=args.hosts {
                let id = format!("{name}-h{number}");
                let before = (region - 1) * args.hosts + number - 1;
                let first = args.task_ports + before * PORTS_PER_HOST;
                // Two datacenters as soon as there are hosts for both, so that spreading shows.
                let datacenter = format!("{name}-{}", if number % 2 == 1 { "a" } else { "b" });
                let host_data = data.join(&id);
                // Behind the ports of the most regions that there can be, so that a region more moves no host.
                let metrics = url(super::REGIONS_MAX + 1 + before)?;
                let role = [
                    "host",
                    "--id",
                    &id,
                    "--region",
                    &name,
                    "--region-addr",
                    &region_url,
                    "--datacenter",
                    &datacenter,
                    "--rack",
                    &format!("{datacenter}-{}", number.div_ceil(2)),
                    "--cpu",
                    &args.host_cpu.to_string(),
                    "--memory",
                    &args.host_memory.to_string(),
                    "--ports",
                    &format!("{first}-{}", first + PORTS_PER_HOST - 1),
                    "--address",
                    "127.0.0.1",
                    "--data",
                    &host_data.display().to_string(),
                    "--metrics",
                    &address(&metrics),
                ]
                .map(str::to_owned)
                .to_vec();
                roles.push(Role {
                    name: format!("host-{id}"),
                    args: role,
                    url: None,
                    metrics: format!("{metrics}/metrics"),
                });
                hosts.push(HostPlan { id, data: host_data });
            }
        }
        roles.insert(
            0,
            Role {
                name: "federation".to_owned(),
                args: federation,
                metrics: format!("{federation_url}/metrics"),
                url: Some(federation_url.clone()),
            },
        );
        Ok(Self { data, federation_url, roles, hosts })
    }

    /// Takes the folder for this process.
    pub(super) fn lock(&self) -> Result<fs::File, String> {
        fs::create_dir_all(self.data.join("logs")).map_err(|error| self.folder_problem(&error))?;
        let path = self.data.join("dev.lock");
        let file = fs::File::create(path).map_err(|error| self.folder_problem(&error))?;
        file.try_lock().map_err(|_| {
            format!(
                "another `polder dev` runs on {}: stop it, or choose another folder with --data",
                self.data.display()
            )
        })?;
        Ok(file)
    }

    /// Makes sure that nobody else answers where this federation will: a host that linked to another one's region
    /// would speak for a host of the same name there.
    pub(super) fn check_ports(&self) -> Result<(), String> {
        for address in self.roles.iter().map(|role| address(role.metrics.trim_end_matches("/metrics"))) {
            if let Err(error) = std::net::TcpListener::bind(&address) {
                return Err(format!(
                    "can't listen on {address}: {error}; choose other ports with --port and --task-ports"
                ));
            }
        }
        Ok(())
    }

    fn folder_problem(&self, error: &std::io::Error) -> String {
        format!("the data folder {} can't be used: {error}; choose another with --data", self.data.display())
    }

    pub(super) fn log_path(&self, role: &str) -> PathBuf {
        self.data.join("logs").join(format!("{role}.log"))
    }

    pub(super) fn processes_path(&self) -> PathBuf {
        self.data.join("dev.json")
    }

    /// Writes down which process is which.
    pub(super) fn write_processes(&self, processes: &[Process<'_>]) {
        let write = |path: &Path| -> std::io::Result<()> {
            let draft = path.with_extension("json.tmp");
            let mut file = fs::File::create(&draft)?;
            serde_json::to_writer_pretty(&mut file, processes)?;
            file.write_all(b"\n")?;
            fs::rename(draft, path)
        };
        if let Err(error) = write(&self.processes_path()) {
            eprintln!("warning: {} can't be written: {error}", self.processes_path().display());
        }
    }

    pub(super) fn forget(&self) {
        // Gone already is what was wanted.
        let _ = fs::remove_file(self.processes_path());
    }

    pub(super) fn announce(&self) {
        eprintln!("federation at {} (export POLDER_ADDR={})", self.federation_url, self.federation_url);
        for role in self.roles.iter().filter(|role| role.name.starts_with("region-")) {
            eprintln!("{} at {}", role.name, role.url.as_deref().unwrap_or_default());
        }
        eprintln!("{} hosts; logs in {}", self.hosts.len(), self.data.join("logs").display());
        eprintln!("Ctrl-C stops everything");
    }
}

fn address(url: &str) -> String {
    url.trim_start_matches("http://").to_owned()
}
