//! Making an image of files: a static program, the few files that programs expect, and how it is run.
//!
//! The same input gives the same bytes, so the same digest: nothing of the machine, the time or the order of
//! anything gets in.

use super::{
    digest::Digest,
    error::ImageError,
    lock::FileLock,
    reference::parse_tag,
    store::{sync_dir, write_durably},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

const LAYOUT: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const REF_NAME: &str = "org.opencontainers.image.ref.name";
/// Longest file that can be packed, in bytes: layers are made in memory.
pub const FILE_BYTES_MAX: u64 = 1 << 30;

const PASSWD: &str = "root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nnobody:x:65534:\n";

/// A file of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackFile {
    /// Where it is now.
    pub source: PathBuf,
    /// Where it will be in the image: an absolute path.
    pub target: String,
    /// Its permissions.
    pub mode: u32,
}

impl PackFile {
    /// A program.
    pub fn program(source: impl Into<PathBuf>, target: impl Into<String>) -> Self {
        Self { source: source.into(), target: target.into(), mode: 0o755 }
    }
}

/// What an image is to be made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackSpec {
    /// Its files.
    pub files: Vec<PackFile>,
    /// What runs.
    pub entrypoint: Vec<String>,
    /// Arguments that a job may replace.
    pub cmd: Vec<String>,
    /// Environment.
    pub env: BTreeMap<String, String>,
    /// TCP ports that it listens on.
    pub ports: BTreeSet<u16>,
    /// `user[:group]`.
    pub user: Option<String>,
    /// Working directory.
    pub workdir: Option<String>,
    /// The signal that stops it.
    pub stop_signal: Option<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

/// An image that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The digest of its manifest.
    pub digest: Digest,
    /// The length of its layer, compressed.
    pub layer_bytes: u64,
}

/// Everything of an image, in memory.
struct Image {
    blobs: Vec<(Digest, Vec<u8>)>,
    manifest: Value,
    packed: Packed,
}

/// Makes an image and puts it into an OCI layout directory, which is made if it is missing. An image that has the tag
/// already is replaced; others stay. Blocks while it reads and writes files.
///
/// # Errors
/// When a file can't be read, a name is wrong, or the directory is something else than a layout.
pub fn pack_layout(spec: &PackSpec, output: &Path, tag: &str) -> Result<Packed, ImageError> {
    check_tag(tag)?;
    let image = build(spec)?;
    let writing = || ImageError::io(format!("write the image layout at {}", output.display()));
    let marker = output.join("oci-layout");
    if !marker.exists() && output.exists() && fs::read_dir(output).map_err(writing())?.next().is_some() {
        return Err(ImageError::Layout {
            path: output.to_owned(),
            problem: "the directory holds something else; name an empty or new one".into(),
        });
    }
    let blobs = output.join("blobs/sha256");
    fs::create_dir_all(&blobs).map_err(writing())?;
    for (digest, content) in &image.blobs {
        let path = blobs.join(digest.hex());
        if fs::metadata(&path).is_ok_and(|found| found.len() == content.len() as u64) {
            continue;
        }
        write_durably(&path, content).map_err(writing())?;
    }
    // Two that pack into one layout at once must not lose each other's tag.
    let lock = FileLock::exclusive(&output.join(".lock")).map_err(writing())?;
    let index = output.join("index.json");
    let mut manifests = match fs::read(&index) {
        Ok(bytes) => {
            let index: Value = serde_json::from_slice(&bytes).map_err(|error| ImageError::Layout {
                path: output.to_owned(),
                problem: format!("`index.json` is wrong: {error}"),
            })?;
            index.get("manifests").and_then(Value::as_array).cloned().unwrap_or_default()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(writing()(error)),
    };
    manifests.retain(|known| {
        known.pointer("/annotations").and_then(|a| a.get(REF_NAME)).and_then(Value::as_str) != Some(tag)
    });
    manifests.push(image.descriptor(tag));
    write_durably(&index, &index_of(&manifests)).map_err(writing())?;
    write_durably(&marker, LAYOUT.as_bytes()).map_err(writing())?;
    lock.remove().map_err(writing())?;
    Ok(image.packed)
}

/// Makes an image and writes it as a tar file that holds an OCI layout. Blocks while it reads and writes files.
///
/// # Errors
/// When a file can't be read or written, or a name is wrong.
pub fn pack_archive(spec: &PackSpec, output: &Path, tag: &str) -> Result<Packed, ImageError> {
    check_tag(tag)?;
    let image = build(spec)?;
    let writing = || ImageError::io(format!("write the image archive {}", output.display()));
    let mut tar = TarWriter::default();
    let put = |tar: &mut TarWriter, path: &str, content: &[u8]| tar.file(path, 0o644, content).map_err(writing());
    put(&mut tar, "oci-layout", LAYOUT.as_bytes())?;
    put(&mut tar, "index.json", &index_of(&[image.descriptor(tag)]))?;
    tar.directory("blobs", 0o755).map_err(writing())?;
    tar.directory("blobs/sha256", 0o755).map_err(writing())?;
    let mut blobs: Vec<_> = image.blobs.iter().collect();
    blobs.sort_by_key(|(digest, _)| *digest);
    for (digest, content) in blobs {
        put(&mut tar, &format!("blobs/sha256/{}", digest.hex()), content)?;
    }
    let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    write_durably(&parent.join(output.file_name().unwrap_or_default()), &tar.finish().map_err(writing())?)
        .map_err(writing())?;
    sync_dir(parent).map_err(writing())?;
    Ok(image.packed)
}

fn check_tag(tag: &str) -> Result<(), ImageError> {
    parse_tag(tag).map_err(|tag| {
        ImageError::Unsupported(format!(
            "`{}` is no tag; a tag is 1 to 128 letters, digits, `.`, `_` and `-`, and begins with none of `.` and `-`",
            tag.escape_debug()
        ))
    })
}

impl Image {
    fn descriptor(&self, tag: &str) -> Value {
        let mut descriptor = self.manifest.clone();
        if let Some(fields) = descriptor.as_object_mut() {
            fields.insert("annotations".into(), json!({ REF_NAME: tag }));
            fields.insert(
                "platform".into(),
                json!({ "architecture": oci_spec::image::Arch::default().to_string(), "os": "linux" }),
            );
        }
        descriptor
    }
}

fn index_of(manifests: &[Value]) -> Vec<u8> {
    json!({ "schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": manifests }).to_string().into_bytes()
}

fn build(spec: &PackSpec) -> Result<Image, ImageError> {
    let packing = || ImageError::io("pack the image");
    let tar = layer(spec)?;
    let diff_id = Digest::of(&tar);
    let mut encoder = flate2::GzBuilder::new().mtime(0).write(Vec::new(), flate2::Compression::default());
    io::Write::write_all(&mut encoder, &tar).map_err(packing())?;
    let layer = encoder.finish().map_err(packing())?;
    drop(tar);
    let config = configuration(spec, &diff_id).to_string().into_bytes();
    let descriptor = |media_type: &str, content: &[u8]| json!({ "mediaType": media_type, "digest": Digest::of(content).to_string(), "size": content.len() });
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": descriptor(CONFIG_TYPE, &config),
        "layers": [descriptor(LAYER_TYPE, &layer)],
    })
    .to_string()
    .into_bytes();
    let packed = Packed { digest: Digest::of(&manifest), layer_bytes: layer.len() as u64 };
    Ok(Image {
        manifest: descriptor(MANIFEST_TYPE, &manifest),
        blobs: [layer, config, manifest].into_iter().map(|content| (Digest::of(&content), content)).collect(),
        packed,
    })
}

fn configuration(spec: &PackSpec, diff_id: &Digest) -> Value {
    let mut config = serde_json::Map::new();
    let mut set = |name: &str, value: Value, is_set: bool| is_set.then(|| config.insert(name.into(), value));
    set("Cmd", json!(spec.cmd), !spec.cmd.is_empty());
    set("Entrypoint", json!(spec.entrypoint), !spec.entrypoint.is_empty());
    let env: Vec<String> = spec.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    set("Env", json!(env), !env.is_empty());
    let ports: BTreeMap<String, Value> = spec.ports.iter().map(|port| (format!("{port}/tcp"), json!({}))).collect();
    set("ExposedPorts", json!(ports), !ports.is_empty());
    set("Labels", json!(spec.labels), !spec.labels.is_empty());
    set("StopSignal", json!(spec.stop_signal), spec.stop_signal.is_some());
    set("User", json!(spec.user), spec.user.is_some());
    set("WorkingDir", json!(spec.workdir), spec.workdir.is_some());
    json!({
        "created": "1970-01-01T00:00:00Z",
        "architecture": oci_spec::image::Arch::default().to_string(),
        "os": "linux",
        "config": config,
        "rootfs": { "type": "layers", "diff_ids": [diff_id.to_string()] },
        "history": [{ "created": "1970-01-01T00:00:00Z", "created_by": "polder image pack" }],
    })
}

/// The only layer: the files, the directories they are in, and what programs expect to find.
fn layer(spec: &PackSpec) -> Result<Vec<u8>, ImageError> {
    let mut files: BTreeMap<String, (u32, Vec<u8>)> = BTreeMap::new();
    files.insert("etc/passwd".into(), (0o644, PASSWD.into()));
    files.insert("etc/group".into(), (0o644, GROUP.into()));
    let mut given = BTreeSet::new();
    for file in &spec.files {
        let target = target(&file.target)?;
        if !given.insert(target.clone()) {
            return Err(ImageError::Unsupported(format!("two files are to be packed as `/{target}`; name each once")));
        }
        files.insert(target, (file.mode & 0o7777, read(&file.source)?));
    }
    // Places for mounts are there too, so that the root can stay read-only.
    let mut directories: BTreeMap<String, u32> =
        ["dev", "etc", "proc", "root", "sys", "tmp"].into_iter().map(|name| (name.to_owned(), 0o755)).collect();
    directories.insert("root".into(), 0o700);
    directories.insert("tmp".into(), 0o1777);
    let workdir =
        spec.workdir.as_deref().filter(|workdir| !workdir.trim_matches('/').is_empty()).map(target).transpose()?;
    for path in files.keys().chain(&workdir) {
        let is_directory = Some(path) == workdir.as_ref();
        let ends = path.match_indices('/').map(|(end, _)| end).chain(is_directory.then_some(path.len()));
        for end in ends {
            directories.entry(path.get(..end).unwrap_or_default().to_owned()).or_insert(0o755);
        }
    }
    if let Some(clash) = directories.keys().find(|directory| files.contains_key(*directory)) {
        return Err(ImageError::Unsupported(format!("`/{clash}` can't be both a file and a directory in the image")));
    }
    let packing = || ImageError::io("pack the image");
    let mut tar = TarWriter::default();
    // A directory sorts before what is in it.
    for (path, mode) in &directories {
        tar.directory(path, *mode).map_err(packing())?;
    }
    for (path, (mode, content)) in &files {
        tar.file(path, *mode, content).map_err(packing())?;
    }
    tar.finish().map_err(packing())
}

/// A path in the image without its first slash.
fn target(path: &str) -> Result<String, ImageError> {
    let wrong = |problem: &str| {
        Err(ImageError::Unsupported(format!("`{}` is no path in an image: {problem}", path.escape_debug())))
    };
    let Some(inner) = path.strip_prefix('/') else { return wrong("it must be absolute") };
    match super::tree::InnerPath::parse(inner.as_bytes()) {
        Err(problem) => wrong(problem),
        Ok(parsed) if parsed.split().is_none() => wrong("it names no file"),
        Ok(parsed) => Ok(parsed.as_path().to_string_lossy().into_owned()),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ImageError> {
    let reading = || ImageError::io(format!("read {} for the image", path.display()));
    let file = File::open(path).map_err(reading())?;
    if !file.metadata().map_err(reading())?.is_file() {
        return Err(ImageError::Unsupported(format!("{} is no regular file; name one to pack", path.display())));
    }
    let mut content = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut content).map_err(reading())?;
    match content.len() as u64 {
        actual if actual > FILE_BYTES_MAX => Err(ImageError::Limit {
            what: format!("the size of {}, in bytes,", path.display()),
            actual,
            limit: FILE_BYTES_MAX,
        }),
        _ => Ok(content),
    }
}

/// Writes entries with nothing in them that differs from one machine or day to another.
struct TarWriter(tar::Builder<Vec<u8>>);

impl Default for TarWriter {
    fn default() -> Self {
        Self(tar::Builder::new(Vec::new()))
    }
}

impl TarWriter {
    fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        self.entry(tar::EntryType::Regular, path, mode, content)
    }

    fn directory(&mut self, path: &str, mode: u32) -> io::Result<()> {
        self.entry(tar::EntryType::Directory, &format!("{path}/"), mode, &[])
    }

    fn entry(&mut self, kind: tar::EntryType, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(content.len() as u64);
        self.0.append_data(&mut header, path, content)
    }

    fn finish(self) -> io::Result<Vec<u8>> {
        self.0.into_inner()
    }
}
