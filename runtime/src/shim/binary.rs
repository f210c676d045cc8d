//! The shim program, held in memory.
//!
//! It is copied once into a memfd that nobody can change any more, and every shim is executed from there. A container
//! that gets at its shim's executable through `/proc` so finds nothing that it could overwrite, and an upgrade of the
//! file on disk doesn't touch what runs.

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use polder_shim::VERSION_LINE;
use rustix::{
    fs::{MemfdFlags, Mode, OFlags, SealFlags, fchmod, fcntl_add_seals, memfd_create, open},
    io::{Errno, pread},
};

use super::RuntimeError;

/// The largest program that is taken for a shim.
const BINARY_BYTES_MAX: u64 = 64 << 20;

/// The shim program in a sealed memfd.
#[derive(Clone, Debug)]
pub struct ShimBinary {
    memfd: Arc<OwnedFd>,
}

impl ShimBinary {
    /// Loads the program and checks that it is the one that belongs to this agent.
    ///
    /// # Errors
    /// When it can't be read or run, or is of another version.
    pub fn load(path: &Path) -> Result<Self, RuntimeError> {
        let refuse = |reason: String| RuntimeError::ShimBinary { path: path.to_owned(), reason };
        let memfd = sealed(path).map_err(|error| refuse(error.to_string()))?;
        if !is_static(&memfd).map_err(|error| refuse(error.to_string()))? {
            // In a dynamic one, the C library could be made to load code of an image.
            return Err(refuse("it is not a static program; runtime/shim/build.sh makes it".to_owned()));
        }
        let binary = Self { memfd: Arc::new(memfd) };
        let output = binary
            .command()
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| refuse(format!("it can't be run: {error}")))?;
        let said = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() || said.trim() != VERSION_LINE {
            let said: String = said.trim().chars().take(80).collect();
            return Err(refuse(format!("it says `{said}`, this agent needs `{VERSION_LINE}`; build both together")));
        }
        Ok(binary)
    }

    /// A command that runs it, with nothing of this process's environment.
    pub(crate) fn command(&self) -> Command {
        // The descriptor closes itself on exec, which is after the kernel has opened the program through it.
        let mut command = Command::new(format!("/proc/self/fd/{}", self.memfd.as_raw_fd()));
        command.env_clear().current_dir("/");
        command
    }

    /// Where it is, next to the program that runs now.
    ///
    /// # Errors
    /// When this program can't tell where it is itself.
    pub fn beside_this_program() -> io::Result<PathBuf> {
        Ok(std::env::current_exe()?.with_file_name("polder-shim"))
    }
}

fn sealed(path: &Path) -> io::Result<OwnedFd> {
    let mut source = File::open(path)?;
    let size = source.metadata()?;
    if !size.is_file() || size.len() > BINARY_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a program file of a sensible size"));
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 don't know the flag; later ones may forbid execution without it.
    let memfd = match memfd_create("polder-shim", flags | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => memfd_create("polder-shim", flags)?,
        other => other?,
    };
    let mut writable = File::from(memfd);
    io::copy(&mut source.by_ref().take(BINARY_BYTES_MAX), &mut writable)?;
    fchmod(&writable, Mode::from_raw_mode(0o555))?;
    fcntl_add_seals(&writable, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL)?;
    let readable =
        open(format!("/proc/self/fd/{}", writable.as_raw_fd()), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    // A program that somebody has open for writing can't be executed.
    drop(writable);
    Ok(readable)
}

/// Whether a program needs no interpreter, which is what loads libraries. Reads the program headers of a 64-bit ELF file.
fn is_static(program: &OwnedFd) -> io::Result<bool> {
    const HEADER_BYTES: usize = 64;
    const OFFSET_AT: usize = 32;
    const SIZE_AT: usize = 54;
    const COUNT_AT: usize = 56;
    const INTERPRETER: [u8; 4] = 3_u32.to_le_bytes();

    let mut header = [0; HEADER_BYTES];
    let read = pread(program, &mut header, 0)?;
    // 64-bit, little-endian.
    if read < HEADER_BYTES || !header.starts_with(b"\x7fELF\x02\x01") {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a 64-bit program"));
    }
    let number = |at: usize, bytes: usize| {
        header[at..at + bytes].iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
    };
    let (offset, size, count) = (number(OFFSET_AT, 8), number(SIZE_AT, 2), number(COUNT_AT, 2));
    for index in 0..count {
        let mut kind = [0; 4];
        let read = pread(program, &mut kind, offset.saturating_add(index * size))?;
        if read == kind.len() && kind == INTERPRETER {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_static_program_of_ours_is_taken() {
        let refused = |path: &Path| ShimBinary::load(path).unwrap_err().to_string();
        // Any test program is dynamic.
        let dynamic = std::env::current_exe().unwrap();
        assert!(refused(&dynamic).contains("static"), "{}", refused(&dynamic));
        let script = std::env::temp_dir().join(format!("polder-not-a-program-{}", std::process::id()));
        std::fs::write(&script, "#!/bin/sh\necho polder-shim\n").unwrap();
        assert!(refused(&script).contains("not a 64-bit program"));
        std::fs::remove_file(&script).unwrap();
        assert!(refused(&script).contains("can't be used"));
        assert!(refused(&std::env::temp_dir()).contains("can't be used"));
    }
}
