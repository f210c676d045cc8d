//! Reading and writing the records: whole or not at all.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    path::Path,
};

use serde::{Serialize, de::DeserializeOwned};

use crate::{PROTOCOL_VERSION, Versioned};

/// The longest record that is read. A launch order with a full spec has some tens of kilobytes.
pub const RECORD_BYTES_MAX: u64 = 4 << 20;

fn invalid(path: &Path, what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()))
}

/// What a record is kept over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survives {
    /// The death of any process. It need not be there after a crash of the machine, which ends what it is about.
    ThisBoot,
    /// A crash of the machine, too.
    Reboot,
}

/// Reads a record. A file without a byte is what a crash of the machine may leave of one, and counts as none.
///
/// # Errors
/// `NotFound` when it isn't there; `InvalidData` when it is too long, not the JSON of such a record, or of a version
/// that this program doesn't know.
pub fn read_record<T: DeserializeOwned + Versioned>(path: &Path) -> io::Result<T> {
    let mut text = Vec::new();
    File::open(path)?.take(RECORD_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > RECORD_BYTES_MAX {
        return Err(invalid(path, "longer than any record can be"));
    }
    if text.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("{}: empty", path.display())));
    }
    let record: T = serde_json::from_slice(&text).map_err(|error| invalid(path, error))?;
    match record.version() {
        PROTOCOL_VERSION => Ok(record),
        other => {
            Err(invalid(path, format_args!("has version {other} of its format, this program knows {PROTOCOL_VERSION}")))
        }
    }
}

/// Writes a record so that a reader finds the old one or the new one, never a part.
///
/// # Errors
/// When the disk says so.
pub fn write_record<T: Serialize>(path: &Path, record: &T, survives: Survives) -> io::Result<()> {
    let parent = path.parent().ok_or_else(|| invalid(path, "a record needs a directory"))?;
    let mut name = path.file_name().ok_or_else(|| invalid(path, "a record needs a name"))?.to_owned();
    name.push(".tmp");
    let temporary = parent.join(name);
    let text = serde_json::to_vec(record).map_err(|error| invalid(path, error))?;
    let mut file = File::create(&temporary)?;
    file.write_all(&text)?;
    if survives == Survives::Reboot {
        file.sync_all()?;
    }
    std::fs::rename(&temporary, path)?;
    if survives == Survives::Reboot {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ExitRecord;

    fn scratch(name: &str) -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("polder-shim-files-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn a_record_comes_back_as_it_was() {
        let dir = scratch("back");
        let record = ExitRecord::not_started("a/b/1@2", "no such file".into(), 12);
        write_record(&dir.join("exit.json"), &record, Survives::Reboot).unwrap();
        assert_eq!(read_record::<ExitRecord>(&dir.join("exit.json")).unwrap(), record);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "no temporary file is left");
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_newer_version_is_refused() {
        let dir = scratch("newer");
        let mut record = ExitRecord::not_started("a/b/1@2", String::new(), 12);
        record.version = PROTOCOL_VERSION + 1;
        write_record(&dir.join("exit.json"), &record, Survives::Reboot).unwrap();
        let error = read_record::<ExitRecord>(&dir.join("exit.json")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn garbage_is_an_error() {
        let dir = scratch("garbage");
        for text in ["{", "null", "[[[["] {
            std::fs::write(dir.join("exit.json"), text).unwrap();
            let error = read_record::<ExitRecord>(&dir.join("exit.json")).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
        std::fs::write(dir.join("exit.json"), "").unwrap();
        let error = read_record::<ExitRecord>(&dir.join("exit.json")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
