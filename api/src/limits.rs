//! Every limit on what is accepted from outside.

use polder_types::{Bytes, Cpu, Millis};

/// Largest job file.
pub const JOB_FILE_BYTES_MAX: usize = 1 << 20;
/// Deepest nesting of brackets, and longest dotted key, of a job file.
pub const NESTING_MAX: usize = 64;
/// Most tasks of a job.
pub const TASKS_MAX: u32 = 100_000;
/// Most ports of a task.
pub const PORTS_MAX: usize = 16;
/// Most variables of an environment.
pub const ENV_VARS_MAX: usize = 256;
/// Longest name of a variable.
pub const ENV_NAME_BYTES_MAX: usize = 256;
/// Largest environment, names and values together.
pub const ENV_BYTES_MAX: usize = 128 << 10;
/// Most words of a command, and of its arguments.
pub const COMMAND_WORDS_MAX: usize = 1024;
/// Largest command, and largest arguments.
pub const COMMAND_BYTES_MAX: usize = 128 << 10;
/// Most entrypoints of a job.
pub const ENTRYPOINTS_MAX: usize = 64;
/// Most constraints of a job.
pub const CONSTRAINTS_MAX: usize = 32;
/// Most values of a constraint.
pub const CONSTRAINT_VALUES_MAX: usize = 256;
/// Longest value of a constraint.
pub const CONSTRAINT_VALUE_BYTES_MAX: usize = 256;
/// Most regions that a job names.
pub const REGIONS_MAX: usize = 256;
/// Largest weight of a region.
pub const WEIGHT_MAX: u32 = 10_000;
/// Longest image reference, path or user.
pub const TEXT_BYTES_MAX: usize = 4096;
/// Highest priority.
pub const PRIORITY_MAX: u8 = 100;
/// Most CPU of a task: 1,024 cores.
pub const CPU_MAX: Cpu = Cpu::from_centi_cores(102_400);
/// Least memory of a task; below this no process starts.
pub const MEMORY_MIN: Bytes = Bytes::from_mib(4);
/// Most memory of a task: 64 TiB.
pub const MEMORY_MAX: Bytes = Bytes::new(64 << 40);
/// Most processes and threads of a task: what Linux allows.
pub const PIDS_MAX: u32 = 4_194_304;
/// Longest time that a job file may give, 30 days.
pub const TIME_MAX: Millis = Millis::from_secs(30 * 86_400);
/// Shortest time between two health checks, and shortest wait before a restart.
pub const INTERVAL_MIN: Millis = Millis(100);
/// Most fields that one error lists.
pub const ISSUES_MAX: usize = 50;
/// Most items of one page of a list.
pub const PAGE_MAX: u32 = 1000;
/// Items of a page when the request does not say.
pub const PAGE_DEFAULT: u32 = 200;
/// Largest body of an answer that the client reads whole.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Largest event of a stream that the client reads.
pub const EVENT_BYTES_MAX: usize = 1 << 20;
/// Largest body of a request.
pub const BODY_BYTES_MAX: usize = 4 << 20;
/// Longest time that a drain may take, 30 days.
pub const DRAIN_DEADLINE_MAX: Millis = Millis::from_secs(30 * 86_400);
/// How often a stream without news shows that it lives.
pub const KEEP_ALIVE: core::time::Duration = core::time::Duration::from_secs(15);
/// How long the client waits for a connection.
pub const CONNECT_TIMEOUT: core::time::Duration = core::time::Duration::from_secs(5);
/// How long the client waits for an answer.
pub const ANSWER_TIMEOUT: core::time::Duration = core::time::Duration::from_secs(30);
/// How long a stream may be silent before the client takes it for dead: longer than [`KEEP_ALIVE`].
pub const SILENCE_MAX: core::time::Duration = core::time::Duration::from_secs(45);
