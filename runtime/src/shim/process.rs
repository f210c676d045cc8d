//! A process that can be waited for and signalled without its number ever meaning another one.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
};

use polder_shim::ProcessMark;
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::{Instant, sleep, timeout},
};

use super::{
    limits::{REAP_LIMIT, REAP_PAUSE},
    pidfd_info::exit_status,
};

/// How a process ended, as the kernel says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Code(i32),
    Signal(i32),
}

/// A pidfd.
#[derive(Debug)]
pub(crate) struct Process {
    pidfd: OwnedFd,
    pid: i32,
}

impl Process {
    /// The process that a mark means.
    ///
    /// # Errors
    /// `NotFound` when it has gone.
    pub(crate) fn open(mark: ProcessMark) -> io::Result<Self> {
        let gone = || io::Error::new(io::ErrorKind::NotFound, format!("process {} has gone", mark.pid));
        let pid = Pid::from_raw(mark.pid).ok_or_else(gone)?;
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(Errno::SRCH) => return Err(gone()),
            Err(error) => return Err(error.into()),
        };
        // Looked at after it was opened: if the number meant the process then, the descriptor does.
        if mark.is_current() { Ok(Self { pidfd, pid: mark.pid }) } else { Err(gone()) }
    }

    /// As the host numbers it.
    pub(crate) fn pid(&self) -> u32 {
        u32::try_from(self.pid).unwrap_or_default()
    }

    /// Sends a signal; a process that has ended gets none.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        match pidfd_send_signal(&self.pidfd, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until it has ended. If it is a child of this process it is reaped.
    pub(crate) async fn ended(&self) -> io::Result<Option<Ended>> {
        // One of its own for each who waits: a descriptor can be registered once only.
        let own = self.pidfd.try_clone()?;
        // SAFETY: the registration owns the descriptor, so it is open as long as it is registered.
        #[allow(unsafe_code)]
        let watched = unsafe { AsyncFd::register_with_interest(own, Interest::READABLE) }?;
        // A pidfd is readable from the end of its process on, for ever.
        let _ = watched.readable().await?;
        Ok(self.reap())
    }

    fn reap(&self) -> Option<Ended> {
        let status =
            waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG).ok()??;
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Some(Ended::Code(code)),
            (None, Some(signal)) => Some(Ended::Signal(signal)),
            (None, None) => None,
        }
    }

    /// How it ended, of a process that isn't our child: newer kernels keep that for whoever had a pidfd, once it has
    /// been reaped.
    pub(crate) async fn status_from_kernel(&self) -> Option<Ended> {
        let asked = async {
            let until = Instant::now() + REAP_LIMIT;
            while Instant::now() < until {
                if let Some(ended) = exit_status(self.pidfd.as_fd())? {
                    return Some(ended);
                }
                sleep(REAP_PAUSE).await;
            }
            None
        };
        timeout(REAP_LIMIT, asked).await.ok().flatten()
    }
}
