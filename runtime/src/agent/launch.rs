//! From what a job wants and what its image says to what the runtime runs.

use std::{collections::BTreeMap, path::PathBuf};

use polder_types::{ContainerId, ContainerSpec, HostId, RegionId};

use crate::{
    image::{ImageConfig, PreparedImage},
    shim::LaunchSpec,
};

/// What containers are told of the host they run on.
#[derive(Clone, Debug)]
pub(super) struct Surroundings {
    pub(super) host: HostId,
    pub(super) region: RegionId,
    pub(super) address: String,
}

/// Longest host name of a container.
const HOSTNAME_BYTES_MAX: usize = 63;

pub(super) fn launch_spec(
    around: &Surroundings,
    id: &ContainerId,
    spec: &ContainerSpec,
    image: &PreparedImage,
    log: PathBuf,
) -> LaunchSpec {
    LaunchSpec {
        id: id.clone(),
        // The runtime takes the lowest first.
        layers: image.lower_layers.iter().rev().cloned().collect(),
        args: command_line(spec, &image.config),
        env: environment(around, id, spec, &image.config)
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect(),
        user: spec.user.clone().or_else(|| image.config.user.clone()),
        workdir: spec.workdir.clone().or_else(|| image.config.workdir.clone()).unwrap_or_else(|| "/".to_owned()).into(),
        cpu: spec.cpu,
        memory: spec.memory,
        pids: spec.pids,
        hostname: hostname(id),
        binds: Vec::new(),
        stdout: log.clone(),
        stderr: log,
    }
}

/// A command of the job's own takes the place of all that the image says; arguments alone take the place of the
/// image's arguments.
fn command_line(spec: &ContainerSpec, image: &ImageConfig) -> Vec<String> {
    let args = if spec.command.is_empty() && spec.args.is_empty() { &image.cmd } else { &spec.args };
    let command = if spec.command.is_empty() { &image.entrypoint } else { &spec.command };
    command.iter().chain(args).cloned().collect()
}

/// The image's variables, then the job's, then Polder's own, which nobody else may set.
fn environment(
    around: &Surroundings,
    id: &ContainerId,
    spec: &ContainerSpec,
    image: &ImageConfig,
) -> BTreeMap<String, String> {
    let mut env = image.env.clone();
    env.extend(spec.env.iter().map(|(name, value)| (name.clone(), value.clone())));
    if let Some(first) = spec.ports.first() {
        env.insert("PORT".to_owned(), first.port.to_string());
    }
    for binding in &spec.ports {
        let name = binding.name.as_str().to_ascii_uppercase().replace('-', "_");
        env.insert(format!("PORT_{name}"), binding.port.to_string());
    }
    let own = [
        ("POLDER_TASK", id.task.to_string()),
        ("POLDER_JOB", id.task.job.to_string()),
        ("POLDER_INDEX", id.task.index.to_string()),
        ("POLDER_EPOCH", id.epoch.to_string()),
        ("POLDER_HOST", around.host.to_string()),
        ("POLDER_REGION", around.region.to_string()),
        ("POLDER_ADDRESS", around.address.clone()),
    ];
    env.extend(own.map(|(name, value)| (name.to_owned(), value)));
    env
}

/// `web-3`: the job and the task's index.
fn hostname(id: &ContainerId) -> String {
    let index = format!("-{}", id.task.index);
    let job: String = id.task.job.name.as_str().chars().take(HOSTNAME_BYTES_MAX - index.len()).collect();
    job + &index
}

#[cfg(test)]
mod tests {
    use super::*;
    use polder_types::{Bytes, Cpu, Generation, Millis, PortBinding, StopSignal, StopSpec};

    fn spec() -> ContainerSpec {
        ContainerSpec {
            generation: Generation(1),
            image: "oci:/x".to_owned(),
            command: vec![],
            args: vec![],
            env: BTreeMap::new(),
            user: None,
            workdir: None,
            cpu: Cpu::from_centi_cores(10),
            memory: Bytes::from_mib(10),
            pids: 10,
            ports: vec![],
            stop: StopSpec { signal: StopSignal::Sigterm, grace: Millis(0) },
            health: None,
        }
    }

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn commands_of_job_and_image_go_together() {
        let image = ImageConfig { entrypoint: words("/entry"), cmd: words("default args"), ..ImageConfig::default() };
        for (command, args, expected) in [
            ("", "", "/entry default args"),
            ("", "own", "/entry own"),
            ("/other", "", "/other"),
            ("/other", "own", "/other own"),
        ] {
            let spec = ContainerSpec { command: words(command), args: words(args), ..spec() };
            assert_eq!(command_line(&spec, &image), words(expected));
        }
    }

    #[test]
    fn polders_own_variables_can_t_be_overridden() {
        let around = Surroundings {
            host: "h1".parse().unwrap(),
            region: "west".parse().unwrap(),
            address: "10.0.0.1".to_owned(),
        };
        let pairs = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let image = ImageConfig { env: pairs(&[("A", "image"), ("B", "image")]), ..ImageConfig::default() };
        let port = |name: &str, port| PortBinding { name: name.parse().unwrap(), port };
        let spec = ContainerSpec {
            env: pairs(&[("B", "job"), ("POLDER_TASK", "evil"), ("PORT", "1")]),
            ports: vec![port("http", 20_001), port("admin-ui", 20_002)],
            ..spec()
        };
        let env = environment(&around, &"shop/eu/web/3@7".parse().unwrap(), &spec, &image);
        let expected = pairs(&[
            ("A", "image"),
            ("B", "job"),
            ("PORT", "20001"),
            ("PORT_HTTP", "20001"),
            ("PORT_ADMIN_UI", "20002"),
            ("POLDER_TASK", "shop/eu/web/3"),
            ("POLDER_JOB", "shop/eu/web"),
            ("POLDER_INDEX", "3"),
            ("POLDER_EPOCH", "7"),
            ("POLDER_HOST", "h1"),
            ("POLDER_REGION", "west"),
            ("POLDER_ADDRESS", "10.0.0.1"),
        ]);
        assert_eq!(env, expected);
    }

    #[test]
    fn host_names_fit() {
        assert_eq!(hostname(&"shop/web/3@7".parse().unwrap()), "web-3");
        let long = format!("shop/{}/{}@1", "a".repeat(63), u32::MAX);
        assert_eq!(hostname(&long.parse().unwrap()).len(), HOSTNAME_BYTES_MAX);
    }
}
