//! A spec written out as a job file again.

use super::{
    amounts::{ByteAmount, CpuAmount, EnvValue, TimeSpan},
    file::{
        EntrypointFile, HealthFile, JobFile, RegionsFile, ResourcesFile, RestartFile, SplitBy, SpreadFile, StopFile,
        UpdateFile,
    },
    rule::{PortFile, Rule},
};
use polder_types::{Constraint, ConstraintOp, Entrypoint, JobSpec, Label, RegionSplit, Regions};
use std::collections::BTreeMap;

impl From<&JobSpec> for JobFile {
    fn from(spec: &JobSpec) -> Self {
        let process = EntrypointFile::from(&spec.process);
        Self {
            name: spec.id.name.clone(),
            account: spec.id.account.clone(),
            kind: spec.kind,
            tasks: spec.tasks,
            priority: spec.priority.0,
            image: spec.image.clone(),
            entrypoint: spec.entrypoint.clone(),
            entrypoints: spec.entrypoints.iter().map(|(name, role)| (name.clone(), role.into())).collect(),
            command: process.command,
            args: process.args,
            env: process.env,
            user: process.user,
            workdir: process.workdir,
            resources: ResourcesFile {
                cpu: CpuAmount(spec.resources.cpu),
                memory: ByteAmount(spec.resources.memory),
                pids: spec.resources.pids,
            },
            ports: spec.ports.iter().map(|port| PortFile { name: port.name.clone(), fixed: port.fixed }).collect(),
            constraints: rules(&spec.constraints),
            spread: SpreadFile {
                max_per_host: spec.spread.max_per_host,
                max_per_rack: spec.spread.max_per_rack,
                max_per_datacenter: spec.spread.max_per_datacenter,
            },
            update: UpdateFile {
                max_unavailable: spec.update.max_unavailable,
                min_healthy: TimeSpan(spec.update.min_healthy),
            },
            stop: StopFile { signal: spec.stop.signal, grace: TimeSpan(spec.stop.grace) },
            restart: RestartFile {
                policy: Some(spec.restart.policy),
                backoff: TimeSpan(spec.restart.backoff),
                backoff_max: TimeSpan(spec.restart.backoff_max),
                reset_after: TimeSpan(spec.restart.reset_after),
                max_failures: spec.restart.max_failures,
            },
            replace_after: TimeSpan(spec.replace_after),
            health: spec.health.as_ref().map(|health| HealthFile {
                port: Some(health.port.clone()),
                path: health.path.clone(),
                interval: TimeSpan(health.interval),
                timeout: TimeSpan(health.timeout),
                failures: health.failures,
            }),
            regions: regions(&spec.regions),
        }
    }
}

impl From<&Entrypoint> for EntrypointFile {
    fn from(role: &Entrypoint) -> Self {
        Self {
            command: role.command.clone(),
            args: role.args.clone(),
            env: role.env.iter().map(|(key, value)| (key.clone(), EnvValue(value.clone()))).collect(),
            user: role.user.clone(),
            workdir: role.workdir.clone(),
        }
    }
}

/// All rules on one label come under its name: several `in` of one label mean what is in all of them.
fn rules(constraints: &[Constraint]) -> BTreeMap<Label, Rule> {
    let mut rules: BTreeMap<Label, Rule> = BTreeMap::new();
    for constraint in constraints {
        let rule = rules.entry(constraint.label.clone()).or_default();
        match constraint.op {
            ConstraintOp::In if rule.is.is_empty() => rule.is.clone_from(&constraint.values),
            ConstraintOp::In => rule.is.retain(|value| constraint.values.contains(value)),
            ConstraintOp::NotIn => rule.not.extend(constraint.values.iter().cloned()),
        }
    }
    rules
}

fn regions(regions: &Regions) -> RegionsFile {
    let mut file = RegionsFile { names: regions.names.clone(), ..RegionsFile::default() };
    match &regions.split {
        RegionSplit::Even if regions.names.is_empty() => {}
        RegionSplit::Even => file.split = Some(SplitBy::Even),
        RegionSplit::Weights { weights } => file.weights = Some(weights.clone()),
        RegionSplit::Counts { counts } => file.counts = Some(counts.clone()),
    }
    file
}
