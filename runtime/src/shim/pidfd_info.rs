//! What the kernel keeps about a process that has gone, for whoever has a pidfd of it (`PIDFD_GET_INFO`, from 6.15 on
//! with the exit status).

use std::{ffi::c_void, os::fd::BorrowedFd};

use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};

use super::process::Ended;

/// `PIDFD_INFO_EXIT`: the exit status is wanted, or given.
const INFO_EXIT: u64 = 1 << 3;

/// `struct pidfd_info`, as of its first version. Only the mask and the exit code are of interest.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Info {
    mask: u64,
    cgroup_id: u64,
    ids: [u32; 11],
    exit_code: i32,
}

struct GetInfo(Info);

// SAFETY: the opcode says a structure of `Info`'s size, which is what the pointer points to; the kernel fills in no more.
#[allow(unsafe_code)]
unsafe impl Ioctl for GetInfo {
    type Output = Info;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        opcode::read_write::<Info>(0xFF, 11)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, pointer: *mut c_void) -> rustix::io::Result<Info> {
        // SAFETY: it is the pointer that `as_ptr` gave.
        Ok(unsafe { *pointer.cast::<Info>() })
    }
}

/// None when this kernel will never say; `Some(None)` when it can't say yet.
#[allow(clippy::option_option, reason = "never and not yet differ")]
pub(crate) fn exit_status(pidfd: BorrowedFd<'_>) -> Option<Option<Ended>> {
    let ask = GetInfo(Info { mask: INFO_EXIT, ..Info::default() });
    // SAFETY: see the implementation above.
    #[allow(unsafe_code)]
    let info = match unsafe { ioctl(pidfd, ask) } {
        Ok(info) => info,
        // Not reaped yet by its parent, or just about to be.
        Err(rustix::io::Errno::SRCH) => return Some(None),
        Err(_) => return None,
    };
    if info.mask & INFO_EXIT == 0 {
        return Some(None);
    }
    // As `wait` gives it: the signal in the low seven bits, the code in the next byte.
    let status = info.exit_code;
    Some(Some(match status & 0x7f {
        0 => Ended::Code((status >> 8) & 0xff),
        signal => Ended::Signal(signal),
    }))
}
