//! Why a call failed.

use crate::problem::Problem;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address can't be understood.
    #[error("`{address}` is not an address: {reason}")]
    Address {
        /// The address as it was given.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody answers.
    #[error("can't reach Polder at {address}: {reason}")]
    Connect {
        /// The address.
        address: String,
        /// What the system said.
        reason: String,
    },
    /// The answer did not come in time. What was asked may still happen.
    #[error("no answer from {address} in time")]
    Timeout {
        /// The address.
        address: String,
    },
    /// The connection broke off. What was asked may still happen.
    #[error("the connection to {address} broke off: {reason}")]
    Broken {
        /// The address.
        address: String,
        /// How.
        reason: String,
    },
    /// The answer can't be understood.
    #[error("the answer of {address} can't be understood: {reason}")]
    Answer {
        /// The address.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The server says no.
    #[error("{problem}")]
    Problem {
        /// The address.
        address: String,
        /// What it says.
        problem: Box<Problem>,
    },
}

impl ClientError {
    pub(super) fn of(address: &str, error: &reqwest::Error) -> Self {
        let address = address.to_owned();
        if error.is_connect() {
            Self::Connect { address, reason: deepest(error) }
        } else if error.is_timeout() {
            Self::Timeout { address }
        } else {
            Self::Broken { address, reason: deepest(error) }
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Address { .. } => Some("an address is `http://HOST:PORT`, in --addr or POLDER_ADDR".to_owned()),
            Self::Connect { .. } => {
                Some("is it running? `polder dev` starts one here; --addr or POLDER_ADDR names another".to_owned())
            }
            Self::Timeout { .. } | Self::Broken { .. } => {
                Some("what was asked may still happen: look with `polder status`, then try again".to_owned())
            }
            Self::Answer { .. } => Some(
                "is that Polder's address, and is it of this version? `polder --version` shows this one's".to_owned(),
            ),
            Self::Problem { problem, .. } => problem.hint.clone(),
        }
    }

    /// What the server said, if it was the server who said no.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem { problem, .. } => Some(problem),
            _ => None,
        }
    }

    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Address { .. } | Self::Answer { .. } => false,
            Self::Connect { .. } | Self::Timeout { .. } | Self::Broken { .. } => true,
            Self::Problem { problem, .. } => problem.retryable,
        }
    }

    /// Whether it is the fault of what was asked, rather than of the system.
    #[must_use]
    pub fn is_users_fault(&self) -> bool {
        match self {
            Self::Address { .. } => true,
            Self::Problem { problem, .. } => (400..500).contains(&problem.status) && !problem.retryable,
            Self::Connect { .. } | Self::Timeout { .. } | Self::Broken { .. } | Self::Answer { .. } => false,
        }
    }
}

/// The cause at the bottom: `connection refused` rather than `error sending request`.
fn deepest(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
