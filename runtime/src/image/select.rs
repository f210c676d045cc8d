//! From a layout and a selector to one image for this machine: its manifest, configuration and layers, all verified.

use super::{
    config::ImageConfig,
    digest::Digest,
    error::ImageError,
    layout::Layout,
    limits::{CONFIG_BYTES_MAX, INDEX_DEPTH_MAX, LAYERS_MAX, LayerLimits, MANIFEST_BYTES_MAX},
    reference::Selector,
    unpack::LayerSource,
};
use oci_spec::image::{Arch, Descriptor, ImageConfiguration, ImageIndex, ImageManifest, Os};
use std::collections::BTreeMap;

const REF_NAME: &str = "org.opencontainers.image.ref.name";
const INDEX_TYPES: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];
const MANIFEST_TYPES: [&str; 2] =
    ["application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json"];
const CONFIG_TYPES: [&str; 2] =
    ["application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"];
/// Which compression it really is, the content says.
const LAYER_TYPES: [&str; 5] = [
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
];

/// One image, found and verified except for its layers.
pub(super) struct Selected {
    /// The digest of the manifest.
    pub(super) digest: Digest,
    pub(super) config: ImageConfig,
    /// From the bottom to the top.
    pub(super) layers: Vec<LayerSource>,
}

/// A manifest or an index.
enum Node {
    Index(Box<ImageIndex>),
    Manifest(Box<ImageManifest>),
}

/// Finds the image that a selector means.
pub(super) fn select(layout: &Layout, selector: &Selector, limits: LayerLimits) -> Result<Selected, ImageError> {
    let index: ImageIndex =
        serde_json::from_slice(&layout.index()?).map_err(|e| layout.broken(format!("`index.json` is wrong: {e}")))?;
    let named = by_selector(layout, &index, selector)?;
    let (digest, manifest) = for_this_machine(layout, named, selector, 0)?;
    let (config, diff_ids) = configuration(layout, &manifest)?;
    let layers = layers(layout, &manifest, &diff_ids, limits)?;
    Ok(Selected { digest, config, layers })
}

fn by_selector(layout: &Layout, index: &ImageIndex, selector: &Selector) -> Result<Vec<Descriptor>, ImageError> {
    let all = index.manifests();
    let found: Vec<Descriptor> = match selector {
        Selector::Only => all.clone(),
        Selector::Tag(tag) => all.iter().filter(|d| ref_name(d) == Some(tag)).cloned().collect(),
        Selector::Digest(digest) => {
            let found = find_digest(layout, all, digest, 0)?;
            found.into_iter().collect()
        }
    };
    let holds = || all.iter().map(|d| ref_name(d).map_or_else(|| d.digest().to_string(), str::to_owned)).collect();
    let none = |problem| ImageError::Selection { path: layout.path().to_owned(), problem, holds: holds() };
    if found.is_empty() {
        return Err(none(match selector {
            Selector::Only => "there is no image".to_owned(),
            Selector::Tag(tag) => format!("there is no tag `{tag}`"),
            Selector::Digest(digest) => format!("there is no image {digest}"),
        }));
    }
    // Several names for one image, or one name for the platforms of one image, are no question; several names are.
    let names: BTreeMap<&str, ()> = found.iter().filter_map(|d| ref_name(d)).map(|name| (name, ())).collect();
    let same = found.iter().all(|d| Some(d.digest()) == found.first().map(Descriptor::digest));
    if matches!(selector, Selector::Only) && names.len() > 1 && !same {
        return Err(none("no tag was given, and there is more than one image".to_owned()));
    }
    Ok(found)
}

fn ref_name(descriptor: &Descriptor) -> Option<&str> {
    descriptor.annotations().as_ref()?.get(REF_NAME).map(String::as_str)
}

/// Looks for a manifest by its digest in the index and in the indexes that it points to.
fn find_digest(
    layout: &Layout,
    descriptors: &[Descriptor],
    wanted: &Digest,
    depth: usize,
) -> Result<Option<Descriptor>, ImageError> {
    for descriptor in descriptors {
        if digest(layout, descriptor)? == *wanted {
            return Ok(Some(descriptor.clone()));
        }
    }
    for descriptor in descriptors.iter().filter(|d| INDEX_TYPES.contains(&d.media_type().as_ref())) {
        if depth < INDEX_DEPTH_MAX
            && let Node::Index(index) = node(layout, descriptor)?
            && let Some(found) = find_digest(layout, index.manifests(), wanted, depth + 1)?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn for_this_machine(
    layout: &Layout,
    candidates: Vec<Descriptor>,
    selector: &Selector,
    depth: usize,
) -> Result<(Digest, ImageManifest), ImageError> {
    if depth > INDEX_DEPTH_MAX {
        return Err(layout.broken(format!("its indexes point to each other more than {INDEX_DEPTH_MAX} deep")));
    }
    let has = || candidates.iter().map(platform_name).collect();
    let mut fitting: Vec<_> = candidates.iter().filter(|d| fits(d)).collect();
    // A platform that is named fits better than one that is not.
    if fitting.iter().any(|d| d.platform().is_some()) {
        fitting.retain(|d| d.platform().is_some());
    }
    let Some(first) = fitting.first() else {
        return Err(ImageError::Platform { wanted: this_platform(), has: has() });
    };
    if fitting.iter().any(|d| d.digest() != first.digest()) {
        let holds = fitting.iter().map(|d| format!("{} {}", platform_name(d), d.digest())).collect();
        let what = match selector {
            Selector::Tag(tag) => format!("tag `{tag}` names more than one image for {}", this_platform()),
            _ => format!("there is more than one image for {}, and no tag says which", this_platform()),
        };
        return Err(ImageError::Selection { path: layout.path().to_owned(), problem: what, holds });
    }
    match node(layout, first)? {
        Node::Manifest(manifest) => Ok((digest(layout, first)?, *manifest)),
        Node::Index(index) => for_this_machine(layout, index.manifests().clone(), selector, depth + 1),
    }
}

/// Whether a descriptor may be for this machine. Build records (`unknown/unknown`) are for none.
fn fits(descriptor: &Descriptor) -> bool {
    descriptor.platform().as_ref().is_none_or(|platform| {
        // Later variants of a processor need not run here; the plain one and arm64's only common one do.
        let variant = platform.variant().as_deref().unwrap_or_default();
        *platform.os() == Os::Linux
            && *platform.architecture() == Arch::default()
            && matches!((platform.architecture(), variant), (_, "" | "v1") | (Arch::ARM64, "v8"))
    })
}

fn this_platform() -> String {
    format!("linux/{}", Arch::default())
}

fn platform_name(descriptor: &Descriptor) -> String {
    descriptor.platform().as_ref().map_or_else(
        || "an unnamed platform".to_owned(),
        |platform| {
            let variant = platform.variant().as_ref().map(|variant| format!("/{variant}")).unwrap_or_default();
            format!("{}/{}{variant}", platform.os(), platform.architecture())
        },
    )
}

fn digest(layout: &Layout, descriptor: &Descriptor) -> Result<Digest, ImageError> {
    descriptor.digest().to_string().parse().map_err(|error| layout.broken(format!("a digest in it is wrong: {error}")))
}

/// Reads a manifest or index. Some have no media type, so what is in it says what it is; what could be read as both
/// is refused, because two programs could see two images in it.
fn node(layout: &Layout, descriptor: &Descriptor) -> Result<Node, ImageError> {
    let media_type = descriptor.media_type().as_ref();
    let digest = digest(layout, descriptor)?;
    if !INDEX_TYPES.contains(&media_type) && !MANIFEST_TYPES.contains(&media_type) {
        return Err(ImageError::Unsupported(format!(
            "{digest} is `{}`, which is no image manifest; old formats must be converted (for example with `skopeo copy --format oci`)",
            media_type.escape_debug()
        )));
    }
    let bytes = layout.verified(&digest, descriptor.size(), MANIFEST_BYTES_MAX, "image manifest")?;
    let wrong = |error| layout.broken(format!("manifest {digest} is wrong: {error}"));
    let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(wrong)?;
    let inner_type = value.get("mediaType").and_then(serde_json::Value::as_str);
    let (has_manifests, has_layers) = (value.get("manifests").is_some(), value.get("layers").is_some());
    let is_index = match (has_manifests, has_layers) {
        (true, false) => true,
        (false, true) => false,
        (true, true) => return Err(layout.broken(format!("{digest} is a manifest and an index at once"))),
        (false, false) => return Err(layout.broken(format!("{digest} is neither a manifest nor an index"))),
    };
    let types = if is_index { INDEX_TYPES } else { MANIFEST_TYPES };
    if !types.contains(&media_type) || inner_type.is_some_and(|inner| !types.contains(&inner)) {
        return Err(layout.broken(format!("{digest} is not of the kind that its media type says")));
    }
    let (node, version) = if is_index {
        let index: ImageIndex = serde_json::from_value(value).map_err(wrong)?;
        let version = index.schema_version();
        (Node::Index(Box::new(index)), version)
    } else {
        let manifest: ImageManifest = serde_json::from_value(value).map_err(wrong)?;
        let version = manifest.schema_version();
        (Node::Manifest(Box::new(manifest)), version)
    };
    if version == 2 { Ok(node) } else { Err(layout.broken(format!("{digest} has schema version {version}, not 2"))) }
}

fn configuration(layout: &Layout, manifest: &ImageManifest) -> Result<(ImageConfig, Vec<Digest>), ImageError> {
    let descriptor = manifest.config();
    let media_type = descriptor.media_type().as_ref();
    if !CONFIG_TYPES.contains(&media_type) {
        return Err(ImageError::Unsupported(format!(
            "this is no container image: its configuration is of type `{}`",
            media_type.escape_debug()
        )));
    }
    let digest = digest(layout, descriptor)?;
    let bytes = layout.verified(&digest, descriptor.size(), CONFIG_BYTES_MAX, "image configuration")?;
    let wrong = |problem: String| layout.broken(format!("image configuration {digest} is wrong: {problem}"));
    let config: ImageConfiguration = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    if *config.os() != Os::Linux || *config.architecture() != Arch::default() {
        return Err(ImageError::Platform {
            wanted: this_platform(),
            has: vec![format!("{}/{}", config.os(), config.architecture())],
        });
    }
    let roots = config.rootfs();
    if roots.typ() != "layers" {
        return Err(wrong(format!("its root filesystem is of type `{}`, not `layers`", roots.typ().escape_debug())));
    }
    let diff_ids = roots
        .diff_ids()
        .iter()
        .map(|id| id.parse().map_err(|error| wrong(format!("a layer's digest: {error}"))))
        .collect::<Result<Vec<Digest>, _>>()?;
    Ok((ImageConfig::from_oci(&config).map_err(wrong)?, diff_ids))
}

fn layers(
    layout: &Layout,
    manifest: &ImageManifest,
    diff_ids: &[Digest],
    limits: LayerLimits,
) -> Result<Vec<LayerSource>, ImageError> {
    let descriptors = manifest.layers();
    if descriptors.len() != diff_ids.len() {
        return Err(layout.broken(format!(
            "its manifest names {} layers but its configuration {}",
            descriptors.len(),
            diff_ids.len()
        )));
    }
    if descriptors.len() > LAYERS_MAX {
        let actual = descriptors.len() as u64;
        return Err(ImageError::Limit { what: "the number of layers".into(), actual, limit: LAYERS_MAX as u64 });
    }
    if descriptors.is_empty() {
        return Err(layout.broken("the image has no layers, so there is nothing to run"));
    }
    descriptors
        .iter()
        .zip(diff_ids)
        .map(|(descriptor, diff_id)| {
            let media_type = descriptor.media_type().as_ref();
            if !LAYER_TYPES.contains(&media_type) {
                return Err(ImageError::Unsupported(format!(
                    "a layer is of type `{}`; only plain, gzip and zstd tar layers that come with the image are supported",
                    media_type.escape_debug()
                )));
            }
            if descriptor.size() > limits.stored.get() {
                let (actual, limit) = (descriptor.size(), limits.stored.get());
                return Err(ImageError::Limit { what: "the size of a layer, in bytes,".into(), actual, limit });
            }
            Ok(LayerSource { blob: digest(layout, descriptor)?, size: descriptor.size(), diff_id: *diff_id })
        })
        .collect()
}
