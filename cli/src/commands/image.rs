use crate::{
    failure::Failure,
    output::{count, line},
    roles::chain,
};
use core::str::FromStr;
use polder_runtime::image::pack::{PackFile, PackSpec, Packed, pack_archive, pack_layout};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
};

/// Make images
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Image {
    Pack(Pack),
}

/// Make an image of a static program and files
///
/// The image holds what is given here and nothing else. The same input gives the same image, digest included.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  polder image pack --binary target/release/web --output images/web --tag v1\n  \
                        polder apply -f web.toml --image oci:images/web:v1")]
pub(crate) struct Pack {
    /// The program: it becomes `/NAME` and the image's entrypoint
    #[arg(long, value_name = "FILE")]
    binary: PathBuf,
    /// Where to put the image: a folder with an OCI layout, which may hold other images, or a `.tar` file
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    /// The image's name in the layout
    #[arg(short, long, default_value = "latest")]
    tag: String,
    /// Another file, and its absolute path in the image
    #[arg(long, value_name = "FILE:PATH")]
    add: Vec<Added>,
    /// An argument that the program gets unless the job gives others
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    arg: Vec<String>,
    /// An environment variable
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<Variable>,
    /// A TCP port that the program listens on
    #[arg(long, value_name = "NUMBER")]
    port: Vec<u16>,
    /// `user[:group]` that it runs as
    #[arg(long)]
    user: Option<String>,
    /// Its working directory
    #[arg(long, value_name = "PATH")]
    workdir: Option<String>,
}

impl Image {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self {
            Self::Pack(pack) => pack.run(),
        }
    }
}

impl Pack {
    fn run(self) -> Result<(), Failure> {
        let name = self
            .binary
            .file_name()
            .and_then(|name| name.to_str())
            .ok_or_else(|| Failure::user(format!("`{}` is not the path of a program", self.binary.display())))?;
        let program = format!("/{name}");
        let mut files = vec![PackFile::program(&self.binary, &program)];
        for added in self.add {
            files.push(added.into_file()?);
        }
        let spec = PackSpec {
            files,
            entrypoint: vec![program],
            cmd: self.arg,
            env: self.env.into_iter().map(|variable| (variable.name, variable.value)).collect::<BTreeMap<_, _>>(),
            ports: self.port.into_iter().collect::<BTreeSet<_>>(),
            user: self.user,
            workdir: self.workdir,
            ..PackSpec::default()
        };
        let archive = self.output.extension().is_some_and(|extension| extension == "tar");
        let packed = if archive {
            pack_archive(&spec, &self.output, &self.tag)
        } else {
            pack_layout(&spec, &self.output, &self.tag)
        };
        // Whoever packs chose the files and the place, so what is wrong with them is theirs to mend.
        let Packed { digest, layer_bytes } = packed.map_err(|error| Failure::user(chain(&error)))?;
        let kind = if archive { "oci-archive" } else { "oci" };
        let bytes = count(u32::try_from(layer_bytes).unwrap_or(u32::MAX), "byte");
        line(&format!("{kind}:{}:{} {digest} ({bytes})", self.output.display(), self.tag))
    }
}

/// `FILE:PATH`
#[derive(Clone, Debug)]
struct Added {
    source: PathBuf,
    target: String,
}

impl FromStr for Added {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.rsplit_once(':') {
            Some((source, target)) if !source.is_empty() && target.starts_with('/') => {
                Ok(Self { source: source.into(), target: target.to_owned() })
            }
            _ => Err("expected FILE:PATH with an absolute PATH"),
        }
    }
}

impl Added {
    /// A program stays one; nothing else of its permissions is kept.
    fn into_file(self) -> Result<PackFile, Failure> {
        let metadata = fs::metadata(&self.source)
            .map_err(|error| Failure::user(format!("can't read {}: {error}", self.source.display())))?;
        let mode = if metadata.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 };
        Ok(PackFile { source: self.source, target: self.target, mode })
    }
}

/// `NAME=VALUE`
#[derive(Clone, Debug)]
struct Variable {
    name: String,
    value: String,
}

impl FromStr for Variable {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok(Self { name: name.to_owned(), value: value.to_owned() }),
            _ => Err("expected NAME=VALUE"),
        }
    }
}
