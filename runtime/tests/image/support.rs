//! Making layouts and layers, also such as no honest program would make.

use polder_runtime::image::{Digest, ImageError, ImageReference, ImageStore, LayerLimits, PreparedImage};
use polder_types::Bytes;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

pub(crate) const GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// A tar stream, written field by field.
#[derive(Clone, Default)]
pub(crate) struct Tar {
    bytes: Vec<u8>,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) mode: u32,
    pub(crate) mtime: u64,
}

impl Tar {
    pub(crate) fn new() -> Self {
        Self { mode: 0o644, mtime: 1_000_000, ..Self::default() }
    }

    pub(crate) fn file(self, path: &str, content: &str) -> Self {
        self.raw(b'0', path.as_bytes(), b"", content.as_bytes(), None)
    }

    pub(crate) fn dir(mut self, path: &str) -> Self {
        let mode = std::mem::replace(&mut self.mode, 0o755);
        let mut tar = self.raw(b'5', path.as_bytes(), b"", b"", None);
        tar.mode = mode;
        tar
    }

    pub(crate) fn symlink(self, path: &str, target: &str) -> Self {
        self.raw(b'2', path.as_bytes(), target.as_bytes(), b"", None)
    }

    pub(crate) fn hard_link(self, path: &str, target: &str) -> Self {
        self.raw(b'1', path.as_bytes(), target.as_bytes(), b"", None)
    }

    /// An entry of any kind, with a size that need not be that of its content.
    pub(crate) fn raw(mut self, kind: u8, path: &[u8], link: &[u8], content: &[u8], size: Option<u64>) -> Self {
        if path.len() > 100 {
            self = self.pax(&[("path", path)]);
        }
        if link.len() > 100 {
            self = self.pax(&[("linkpath", link)]);
        }
        let mut header = tar::Header::new_gnu();
        let gnu = header.as_gnu_mut().unwrap();
        let (path, link) = (&path[..path.len().min(100)], &link[..link.len().min(100)]);
        gnu.name[..path.len()].copy_from_slice(path);
        gnu.linkname[..link.len()].copy_from_slice(link);
        header.set_entry_type(tar::EntryType::new(kind));
        header.set_mode(self.mode);
        header.set_uid(self.uid);
        header.set_gid(self.gid);
        header.set_mtime(self.mtime);
        header.set_size(size.unwrap_or(content.len() as u64));
        header.set_cksum();
        self.bytes.extend_from_slice(header.as_bytes());
        self.content(content)
    }

    pub(crate) fn pax(mut self, records: &[(&str, &[u8])]) -> Self {
        let mut data = Vec::new();
        for (key, value) in records {
            let rest = 3 + key.len() + value.len();
            let mut length = rest + 1;
            while length != rest + length.to_string().len() {
                length += 1;
            }
            data.extend_from_slice(format!("{length} {key}=").as_bytes());
            data.extend_from_slice(value);
            data.push(b'\n');
        }
        let saved = (self.uid, self.gid);
        (self.uid, self.gid) = (0, 0);
        self = self.raw(b'x', b"pax", b"", &data, None);
        (self.uid, self.gid) = saved;
        self
    }

    fn content(mut self, content: &[u8]) -> Self {
        self.bytes.extend_from_slice(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
        self
    }

    pub(crate) fn end(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(&[0; 1024]);
        self.bytes
    }
}

/// A layer as it is stored and as it is.
#[derive(Clone)]
pub(crate) struct Layer {
    pub(crate) stored: Vec<u8>,
    pub(crate) diff_id: Digest,
}

pub(crate) fn plain(tar: Vec<u8>) -> Layer {
    Layer { diff_id: Digest::of(&tar), stored: tar }
}

pub(crate) fn gzip(tar: &[u8]) -> Layer {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(tar).unwrap();
    Layer { stored: encoder.finish().unwrap(), diff_id: Digest::of(tar) }
}

pub(crate) fn zstd(tar: &[u8]) -> Layer {
    Layer { stored: ::zstd::encode_all(tar, 1).unwrap(), diff_id: Digest::of(tar) }
}

/// A place for everything that a test makes; gone afterwards.
pub(crate) struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self { dir: tempfile::Builder::new().prefix("polder-image-test-").tempdir().unwrap() };
        fs::create_dir(place.path("outside")).unwrap();
        fs::write(place.path("outside/secret"), "secret").unwrap();
        fs::create_dir(place.path("outside/dir")).unwrap();
        fs::write(place.path("outside/dir/keep"), "keep").unwrap();
        place
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub(crate) fn store(&self) -> ImageStore {
        ImageStore::open(self.path("store")).unwrap()
    }

    /// A store in which everything is small.
    pub(crate) fn small_store(&self) -> ImageStore {
        let limits = LayerLimits { stored: Bytes::new(1 << 20), unpacked: Bytes::new(4 << 20), entries: 100 };
        ImageStore::open_with(self.path("store"), limits).unwrap()
    }

    /// Writes a layout with one image and gives the reference to it.
    pub(crate) fn image(&self, name: &str, layers: &[Layer]) -> ImageReference {
        self.image_with(name, layers, |_, _| {})
    }

    pub(crate) fn image_with(
        &self,
        name: &str,
        layers: &[Layer],
        change: impl FnOnce(&mut Value, &mut Value),
    ) -> ImageReference {
        let dir = self.path(name);
        let manifest = image(&dir, layers, change);
        index(&dir, &[manifest]);
        format!("oci:{}", dir.display()).parse().unwrap()
    }

    /// What nothing may change, whatever an image says.
    pub(crate) fn outside(&self) -> BTreeMap<PathBuf, String> {
        snapshot(&self.path("outside"))
    }

    /// The names in a folder of the store.
    pub(crate) fn in_store(&self, folder: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path("store").join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Prepares an image of one layer and gives its directory.
    pub(crate) async fn unpack(&self, tar: Vec<u8>) -> Result<PathBuf, ImageError> {
        let reference = self.image("image", &[plain(tar)]);
        let prepared = self.store().prepare(&reference).await?;
        Ok(prepared.lower_layers.first().unwrap().clone())
    }
}

/// Writes the blobs of an image and gives the descriptor of its manifest.
pub(crate) fn image(dir: &Path, layers: &[Layer], change: impl FnOnce(&mut Value, &mut Value)) -> Value {
    let mut config = json!({
        "architecture": arch(),
        "os": "linux",
        "config": { "Entrypoint": ["/bin/run"] },
        "rootfs": {
            "type": "layers",
            "diff_ids": layers.iter().map(|layer| layer.diff_id.to_string()).collect::<Vec<_>>(),
        },
    });
    let mut manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "layers": layers.iter().map(|layer| blob(dir, GZIP, &layer.stored)).collect::<Vec<_>>(),
    });
    change(&mut manifest, &mut config);
    if manifest.get("config").is_none() {
        manifest["config"] = blob(dir, CONFIG, config.to_string().as_bytes());
    }
    blob(dir, MANIFEST, manifest.to_string().as_bytes())
}

pub(crate) fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Writes a blob and gives its descriptor.
pub(crate) fn blob(dir: &Path, media_type: &str, content: &[u8]) -> Value {
    let digest = Digest::of(content);
    fs::create_dir_all(dir.join("blobs/sha256")).unwrap();
    fs::write(blob_path(dir, &digest), content).unwrap();
    json!({ "mediaType": media_type, "digest": digest.to_string(), "size": content.len() })
}

pub(crate) fn blob_path(dir: &Path, digest: &Digest) -> PathBuf {
    dir.join("blobs/sha256").join(digest.hex())
}

pub(crate) fn index(dir: &Path, manifests: &[Value]) {
    fs::write(dir.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
    let index = json!({ "schemaVersion": 2, "manifests": manifests });
    fs::write(dir.join("index.json"), index.to_string()).unwrap();
}

/// Every path of a tree with its kind, mode, owner and content.
pub(crate) fn snapshot(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut seen = BTreeMap::new();
    let mut ahead = vec![root.to_owned()];
    while let Some(path) = ahead.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let kind = meta.file_type();
        let what = if kind.is_dir() {
            ahead.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            "directory".into()
        } else if kind.is_symlink() {
            format!("link to {}", fs::read_link(&path).unwrap().display())
        } else if kind.is_char_device() {
            format!("device {}", meta.rdev())
        } else if kind.is_file() {
            format!("file {:?}", String::from_utf8_lossy(&fs::read(&path).unwrap()))
        } else {
            "something else".into()
        };
        let name = path.strip_prefix(root).unwrap().to_owned();
        seen.insert(name, format!("{:o} {}:{} {what}", meta.mode(), meta.uid(), meta.gid()));
    }
    seen
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Says that a test was not run, and why.
macro_rules! skip_unless_root {
    () => {
        if !crate::support::is_root() {
            eprintln!("skipped: {} must be run as root", module_path!());
            return;
        }
    };
}
pub(crate) use skip_unless_root;

/// The whole chain of an error, as people see it.
pub(crate) fn chain(error: &ImageError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
}

pub(crate) fn layer_path(prepared: &PreparedImage, place: usize, path: &str) -> PathBuf {
    prepared.lower_layers.get(place).unwrap().join(path)
}
