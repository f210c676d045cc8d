//! What an image says about how it is run.

use oci_spec::image::ImageConfiguration;
use std::collections::BTreeMap;

/// The transport protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// A port that an image says it listens on. A remark: nothing is opened by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExposedPort {
    /// Its number.
    pub port: u16,
    /// Its protocol.
    pub protocol: PortProtocol,
}

/// How an image wants to be run, where the job does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageConfig {
    /// What always runs.
    pub entrypoint: Vec<String>,
    /// Its arguments, or the command if there is no entrypoint.
    pub cmd: Vec<String>,
    /// Environment.
    pub env: BTreeMap<String, String>,
    /// `user[:group]`, by name or number; none means root.
    pub user: Option<String>,
    /// Working directory.
    pub workdir: Option<String>,
    /// The signal that stops it, as written (`SIGTERM`, `15`, `TERM`).
    pub stop_signal: Option<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Ports it listens on.
    pub exposed_ports: Vec<ExposedPort>,
}

impl ImageConfig {
    /// Entrypoint and arguments together: what runs if the job says nothing.
    #[must_use]
    pub fn command_line(&self) -> Vec<String> {
        self.entrypoint.iter().chain(&self.cmd).cloned().collect()
    }

    /// From the configuration, or what is wrong with it.
    pub(super) fn from_oci(image: &ImageConfiguration) -> Result<Self, String> {
        let Some(config) = image.config() else { return Ok(Self::default()) };
        let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
        let mut env = BTreeMap::new();
        for entry in list(config.env()) {
            match entry.split_once('=') {
                Some((name, value)) if !name.is_empty() => drop(env.insert(name.to_owned(), value.to_owned())),
                _ => tracing::debug!(entry, "left out an environment entry of an image: it is not NAME=VALUE"),
            }
        }
        let mut exposed_ports: Vec<_> = list(config.exposed_ports()).iter().filter_map(|text| port(text)).collect();
        exposed_ports.sort_unstable();
        let workdir = text(config.working_dir());
        if workdir.as_ref().is_some_and(|workdir| !workdir.starts_with('/')) {
            return Err("its working directory is not absolute".into());
        }
        let config = Self {
            entrypoint: list(config.entrypoint()),
            cmd: list(config.cmd()),
            env,
            user: text(config.user()),
            workdir,
            stop_signal: text(config.stop_signal()),
            labels: config.labels().clone().unwrap_or_default().into_iter().collect(),
            exposed_ports,
        };
        // A NUL would end the text early when it is handed to the kernel.
        let texts = config.entrypoint.iter().chain(&config.cmd).chain(&config.user).chain(&config.workdir);
        if texts.chain(config.env.iter().flat_map(|(name, value)| [name, value])).any(|text| text.contains('\0')) {
            return Err("one of its texts holds a NUL".into());
        }
        Ok(config)
    }
}

/// `8080`, `8080/tcp`. Ranges and mistakes are left out: nothing depends on them.
fn port(text: &str) -> Option<ExposedPort> {
    let (number, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let protocol = match protocol {
        "tcp" => PortProtocol::Tcp,
        "udp" => PortProtocol::Udp,
        "sctp" => PortProtocol::Sctp,
        _ => return None,
    };
    Some(ExposedPort { port: number.parse().ok()?, protocol })
}
