//! The fields of a job file. The comments are its reference.

use super::{
    amounts::{ByteAmount, CpuAmount, EnvValue, TimeSpan},
    rule::{PortFile, Rule},
    schema::{job_kind_schema, restart_policy_schema, stop_signal_schema},
};
use polder_types::{AccountId, Bytes, Cpu, JobKind, Label, Millis, Name, RegionId, RestartPolicy, StopSignal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A job: what to run, how often, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a table of fields")]
#[schema(as = Job)]
pub struct JobFile {
    /// The job's name, unique in its account: lower-case letters, digits and `-`. The job is known as `account/name`.
    #[schema(value_type = String, max_length = 63, pattern = "^[a-z0-9][a-z0-9-]*$", example = "web")]
    pub name: Name,
    /// The account that owns the job and whose quota it uses. Accounts form a tree: `shop/checkout` is part of `shop`.
    #[schema(value_type = String, max_length = 200, example = "shop/checkout")]
    pub account: AccountId,
    /// What kind of work it is. A `service` runs until it is stopped; each task of a `batch` runs until it succeeds.
    /// Default: `"service"`.
    #[serde(default = "service")]
    #[schema(schema_with = job_kind_schema)]
    pub kind: JobKind,
    /// Number of tasks, over all regions: 1 to 100,000. Default: `1`.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 100_000)]
    pub tasks: u32,
    /// Who goes first when room is short: 0 to 100, higher goes first. Default: `50`.
    #[serde(default = "middle")]
    #[schema(maximum = 100)]
    pub priority: u8,
    /// The image: `oci:PATH[:TAG]` for an OCI layout folder, `oci-archive:PATH[:TAG]` for a tar file of one. The path is
    /// on the hosts; `polder apply` makes a relative one absolute, from the job file's folder.
    #[schema(example = "oci:/var/lib/polder/images/web:latest")]
    pub image: String,
    /// Which of `entrypoints` this job's tasks play. Default: none; the image's own command, or `command` and `args`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub entrypoint: Option<Name>,
    /// Roles that the image can play, by name: one image, several jobs. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, EntrypointFile>)]
    pub entrypoints: BTreeMap<Name, EntrypointFile>,
    /// The command, a list of words; no shell is involved. Default: the entrypoint's, or the image's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Arguments: appended to the command, or put in place of the image's own. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Environment variables, added to the entrypoint's and the image's own. Names that begin with `POLDER_` or `PORT_`
    /// are Polder's. Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, EnvValue>,
    /// `user[:group]`, by name or number. Default: the entrypoint's, or the image's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Working directory, an absolute path. Default: the entrypoint's, or the image's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// What each task needs of a host, and the most it may use.
    #[serde(default)]
    pub resources: ResourcesFile,
    /// Ports of each task: `["http"]`, or tables with `name` and `fixed`. A task sees a port's number in the variable
    /// `PORT_<NAME>`, in upper case with `_` for `-`, and listens there. 16 at most. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortFile>,
    /// Rules on the labels of hosts that a task can't do without, by label: `disk = "ssd"`, `zone = ["a", "b"]`,
    /// `arch = { not = "arm64" }`. The labels `host`, `rack`, `power_domain` and `datacenter` exist on each host.
    /// Default: none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Rule>)]
    pub constraints: BTreeMap<Label, Rule>,
    /// Hard limits on how many tasks may share a failure domain. Without them, tasks are still spread as evenly as room
    /// allows.
    #[serde(default, skip_serializing_if = "SpreadFile::is_default")]
    pub spread: SpreadFile,
    /// How a changed job reaches its tasks, and how many may be unavailable at a time.
    #[serde(default)]
    pub update: UpdateFile,
    /// How a task is stopped.
    #[serde(default)]
    pub stop: StopFile,
    /// When and how fast a task that ended is started again.
    #[serde(default)]
    pub restart: RestartFile,
    /// How long a silent host may keep its task before the task is started elsewhere as well. Default: `"1m"`.
    #[serde(default = "replace_after")]
    pub replace_after: TimeSpan,
    /// How to see that a task is well. Default: a task whose process runs is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthFile>,
    /// Over which regions, and how the tasks are split over them. Default: evenly over every region.
    #[serde(default, skip_serializing_if = "RegionsFile::is_default")]
    pub regions: RegionsFile,
}

/// A role that an image can play.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table with the fields of an entrypoint")]
#[schema(as = Entrypoint)]
pub struct EntrypointFile {
    /// The command, a list of words; no shell is involved. Default: the image's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Arguments: appended to the command, or put in place of the image's own. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Environment variables, added to the image's own. Default: none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, EnvValue>,
    /// `user[:group]`, by name or number. Default: the image's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Working directory, an absolute path. Default: the image's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
}

/// What each task needs of a host, and the most it may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table with `cpu`, `memory` and `pids`")]
#[schema(as = Resources)]
pub struct ResourcesFile {
    /// CPU, in cores. Default: `0.25`.
    pub cpu: CpuAmount,
    /// Memory; a task that uses more is killed. Default: `"256MiB"`.
    pub memory: ByteAmount,
    /// Processes and threads. Default: `512`.
    #[schema(minimum = 1, maximum = 4_194_304)]
    pub pids: u32,
}

/// Hard limits on how many tasks may share a failure domain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "a table with `max_per_host`, `max_per_rack` or `max_per_datacenter`"
)]
#[schema(as = Spread)]
pub struct SpreadFile {
    /// At most so many on a host. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_per_host: Option<u32>,
    /// At most so many in a rack. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_per_rack: Option<u32>,
    /// At most so many in a datacenter. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_per_datacenter: Option<u32>,
}

/// How a changed job reaches its tasks, and what may be done to them at all: one budget over releases and drains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table with `max_unavailable` and `min_healthy`")]
#[schema(as = Update)]
pub struct UpdateFile {
    /// How many tasks in a region may be unavailable at a time because of Polder. Default: `1`.
    #[schema(minimum = 1)]
    pub max_unavailable: u32,
    /// How long a task must have been ready before the next one may be touched. Default: `"5s"`.
    pub min_healthy: TimeSpan,
}

/// How a task is stopped: the signal, then SIGKILL after the grace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table with `signal` and `grace`")]
#[schema(as = Stop)]
pub struct StopFile {
    /// The signal. Default: `"SIGTERM"`.
    #[schema(schema_with = stop_signal_schema)]
    pub signal: StopSignal,
    /// How long a task has after the signal. Default: `"10s"`.
    pub grace: TimeSpan,
}

/// When and how fast a task that ended is started again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table with the fields of `restart`")]
#[schema(as = Restart)]
pub struct RestartFile {
    /// Which ends are followed by a new start: `always`, `on_failure` or `never`. Default: `"always"` for a service,
    /// `"on_failure"` for a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = restart_policy_schema)]
    pub policy: Option<RestartPolicy>,
    /// Wait before the first restart; it doubles with each until `backoff_max`. Default: `"1s"`.
    pub backoff: TimeSpan,
    /// The longest wait. Default: `"1m"`.
    pub backoff_max: TimeSpan,
    /// Running this long makes the next wait the first again. Default: `"1m"`.
    pub reset_after: TimeSpan,
    /// How many failures in a row end a task for good. Default: none do.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_failures: Option<u32>,
}

/// An HTTP request that a task answers with 2xx or 3xx when it is well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table with the fields of `health`")]
#[schema(as = Health)]
pub struct HealthFile {
    /// The name of the port. Default: the job's port, if it has just one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub port: Option<Name>,
    /// The path. Default: `"/"`.
    pub path: String,
    /// Time between requests. Default: `"2s"`.
    pub interval: TimeSpan,
    /// How long an answer may take. Default: `"1s"`.
    pub timeout: TimeSpan,
    /// How many failures in a row make a task that was ready not ready. Default: `3`.
    #[schema(minimum = 1)]
    pub failures: u32,
}

/// How tasks are split over regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SplitBy {
    /// As evenly as possible; regions named first get the remainder.
    Even,
    /// In the proportions of `weights`.
    Weights,
    /// By the numbers of `counts`.
    Counts,
}

/// Over which regions a job runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields, expecting = "a table with `names`, `split`, `weights` or `counts`")]
#[schema(as = Regions)]
pub struct RegionsFile {
    /// The regions, in order of preference. Default: those of `weights` or `counts`, or every region.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub names: Vec<RegionId>,
    /// How tasks are split. Default: `"weights"` or `"counts"` if that table is there, otherwise `"even"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<SplitBy>,
    /// The weight of each region: with `{ eu = 2, us = 1 }`, `eu` gets two tasks for each of `us`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, u32>>)]
    pub weights: Option<BTreeMap<RegionId, u32>>,
    /// The number of tasks of each region; they must add up to `tasks`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, u32>>)]
    pub counts: Option<BTreeMap<RegionId, u32>>,
}

const fn service() -> JobKind {
    JobKind::Service
}

const fn one() -> u32 {
    1
}

const fn middle() -> u8 {
    50
}

const fn replace_after() -> TimeSpan {
    TimeSpan(Millis::from_secs(60))
}

impl Default for ResourcesFile {
    fn default() -> Self {
        Self { cpu: CpuAmount(Cpu::from_centi_cores(25)), memory: ByteAmount(Bytes::from_mib(256)), pids: 512 }
    }
}

impl Default for UpdateFile {
    fn default() -> Self {
        Self { max_unavailable: 1, min_healthy: TimeSpan(Millis::from_secs(5)) }
    }
}

impl Default for StopFile {
    fn default() -> Self {
        Self { signal: StopSignal::Sigterm, grace: TimeSpan(Millis::from_secs(10)) }
    }
}

impl Default for RestartFile {
    fn default() -> Self {
        Self {
            policy: None,
            backoff: TimeSpan(Millis::from_secs(1)),
            backoff_max: TimeSpan(Millis::from_secs(60)),
            reset_after: TimeSpan(Millis::from_secs(60)),
            max_failures: None,
        }
    }
}

impl Default for HealthFile {
    fn default() -> Self {
        Self {
            port: None,
            path: "/".to_owned(),
            interval: TimeSpan(Millis::from_secs(2)),
            timeout: TimeSpan(Millis::from_secs(1)),
            failures: 3,
        }
    }
}

impl SpreadFile {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl RegionsFile {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
