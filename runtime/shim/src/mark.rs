//! Which process a number means.

use std::{fs, io};

use serde::{Deserialize, Serialize};

/// A process, told apart from a later one with the same number by when it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMark {
    /// Its number.
    pub pid: i32,
    /// When it started: clock ticks since the boot, as the kernel counts them.
    pub start_ticks: u64,
}

impl ProcessMark {
    /// Of a process that lives now, or is a zombie.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn of(pid: i32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        start_ticks(&stat)
            .map(|start_ticks| Self { pid, start_ticks })
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat is not as expected")))
    }

    /// Whether the number still means the same process.
    #[must_use]
    pub fn is_current(self) -> bool {
        Self::of(self.pid).is_ok_and(|now| now == self)
    }
}

/// The 22nd field. The 2nd, the command in parentheses, may hold spaces and parentheses of its own.
fn start_ticks(stat: &str) -> Option<u64> {
    const FIELDS_AFTER_COMMAND: usize = 19;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(FIELDS_AFTER_COMMAND)?.parse().ok()
}

/// The kernel's name for this boot.
///
/// # Errors
/// When `/proc` can't be read.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_may_hold_parentheses() {
        let stat = "12 (a) b (c) S 1 12 12 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 8765 1 2";
        assert_eq!(start_ticks(stat), Some(8765));
        assert_eq!(start_ticks("12"), None);
    }

    #[test]
    fn this_process_is_current() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let mark = ProcessMark::of(pid).unwrap();
        assert!(mark.is_current());
        assert!(!ProcessMark { start_ticks: mark.start_ticks + 1, ..mark }.is_current());
    }
}
