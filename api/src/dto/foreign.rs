//! Schemas of types that live in crates without them.

use utoipa::ToSchema;

/// Amounts that quota counts.
#[derive(Debug, ToSchema)]
#[schema(as = Amounts)]
pub struct AmountsSchema {
    /// CPU in hundredths of a core.
    pub cpu: u32,
    /// Memory in bytes.
    pub memory: u64,
    /// Number of tasks.
    pub tasks: u32,
}

/// Ports that a host hands out, both ends included.
#[derive(Debug, ToSchema)]
#[schema(as = PortRange)]
pub struct PortRangeSchema {
    /// The lowest.
    pub first: u16,
    /// The highest.
    pub last: u16,
}

/// How a container ended.
#[derive(Debug, ToSchema)]
#[schema(as = ExitStatus)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum ExitSchema {
    /// It returned a code.
    Code {
        /// The code.
        code: i32,
    },
    /// A signal ended it.
    Signal {
        /// The signal's number.
        signal: i32,
        /// Whether the kernel killed it for using more memory than its limit.
        oom: bool,
    },
    /// It never ran.
    NotStarted {
        /// Why.
        reason: String,
    },
    /// It is gone and nobody saw how.
    Unknown {
        /// What is known.
        reason: String,
    },
}
