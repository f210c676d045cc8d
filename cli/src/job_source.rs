//! Reads a job file for a command: from a path or from stdin, and never more of it than may be.

use crate::failure::{Failure, JobFileReport};
use polder_api::{
    job_file::{self, Format, JobFile, Parsed},
    limits::JOB_FILE_BYTES_MAX,
};
use std::{
    fs::File,
    io::{self, Read},
    path::{Component, Path, PathBuf},
};

/// Where a job file comes from.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct JobSource {
    /// The job file, TOML or JSON; `-` reads stdin
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
}

impl JobSource {
    /// Reads and checks the file.
    pub(crate) fn read(&self) -> Result<Parsed, Failure> {
        let name = self.name();
        let bytes = self.bytes().map_err(|error| {
            let failure = Failure::user(format!("can't read the job file {name}: {error}"));
            if error.kind() == io::ErrorKind::NotFound { failure.with_hint("is the path right?") } else { failure }
        })?;
        let format = match self.file.extension().and_then(|extension| extension.to_str()) {
            Some("json") => Format::Json,
            Some("toml") => Format::Toml,
            _ => Format::of(&bytes),
        };
        job_file::parse(&bytes, format)
            .map_err(|error| Failure::JobFile(Box::new(JobFileReport::new(&name, &bytes, error))))
    }

    /// What the file is called in messages.
    pub(crate) fn name(&self) -> String {
        if self.is_stdin() { "<stdin>".to_owned() } else { self.file.display().to_string() }
    }

    fn is_stdin(&self) -> bool {
        self.file == Path::new("-")
    }

    /// One byte more than may be is enough to know that it is too much.
    fn bytes(&self) -> io::Result<Vec<u8>> {
        let limit = u64::try_from(JOB_FILE_BYTES_MAX).unwrap_or(u64::MAX) + 1;
        let mut bytes = Vec::new();
        if self.is_stdin() {
            io::stdin().lock().take(limit).read_to_end(&mut bytes)?;
        } else {
            File::open(&self.file)?.take(limit).read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    }

    /// Makes the image's path absolute: relative ones start at the job file's folder, or where the command runs for a
    /// file from stdin.
    pub(crate) fn absolute_image(&self, file: &mut JobFile) -> Result<(), Failure> {
        let folder = if self.is_stdin() { Path::new("") } else { self.file.parent().unwrap_or_else(|| Path::new("")) };
        file.image = absolute(&file.image, folder)?;
        Ok(())
    }
}

/// `oci:PATH` with a path that does not depend on where somebody stands.
pub(crate) fn absolute(image: &str, folder: &Path) -> Result<String, Failure> {
    let Some((kind, path)) = image.split_once(':').filter(|(_, path)| !path.is_empty()) else {
        return Ok(image.to_owned());
    };
    let folder = std::path::absolute(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
        .map_err(|error| Failure::system(format!("can't tell where the image `{image}` is: {error}")))?;
    let joined = plain(&folder.join(path));
    let joined = joined.to_str().ok_or_else(|| {
        Failure::user(format!("the folder of the image `{image}` has a name that is not UTF-8"))
            .with_hint("give the image's path in full")
    })?;
    Ok(format!("{kind}:{joined}"))
}

/// The path without `.` and `..`, so that one image has one name.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_images_are_whole_and_plain() {
        let of = |image: &str| absolute(image, Path::new("/srv/jobs")).unwrap();
        assert_eq!(of("oci:./a/../b:v1"), "oci:/srv/jobs/b:v1");
        assert_eq!(of("oci-archive:../x.tar"), "oci-archive:/srv/x.tar");
        assert_eq!(of("oci:/a/./b/../../../c"), "oci:/c");
        assert_eq!((of("web").as_str(), of("oci:").as_str()), ("web", "oci:"));
    }
}
