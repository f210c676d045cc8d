//! Finding one image in a layout.

use crate::support::{
    CONFIG, INDEX, MANIFEST, Place, REF_NAME, Tar, arch, blob, chain, gzip, image, index, plain, zstd,
};
use polder_runtime::image::{Digest, ExposedPort, ImageError, ImageReference, PortProtocol};
use serde_json::{Value, json};
use std::fs;

/// Changes a manifest and a configuration before they are written.
type Change = fn(&mut Value, &mut Value);

fn reference(place: &Place, name: &str, suffix: &str) -> ImageReference {
    format!("oci:{}{suffix}", place.path(name).display()).parse().unwrap()
}

fn tagged(mut descriptor: Value, tag: &str) -> Value {
    descriptor["annotations"] = json!({ REF_NAME: tag });
    descriptor
}

fn on(mut descriptor: Value, os: &str, arch: &str) -> Value {
    descriptor["platform"] = json!({ "os": os, "architecture": arch });
    descriptor
}

fn layer(content: &str) -> crate::support::Layer {
    plain(Tar::new().file("f", content).end())
}

#[tokio::test]
async fn tags_and_digests_choose() {
    let place = Place::new();
    let store = place.store();
    let dir = place.path("two");
    let (a, b) = (image(&dir, &[layer("a")], |_, _| {}), image(&dir, &[layer("b")], |_, _| {}));
    index(&dir, &[tagged(a.clone(), "v1"), tagged(b.clone(), "v2"), tagged(b.clone(), "latest")]);
    let digest = |descriptor: &Value| descriptor["digest"].as_str().unwrap().to_owned();
    for (suffix, wanted) in
        [(":v1".to_owned(), &a), (":v2".into(), &b), (":latest".into(), &b), (format!("@{}", digest(&a)), &a)]
    {
        let prepared = store.prepare(&reference(&place, "two", &suffix)).await.unwrap();
        assert_eq!(prepared.digest.to_string(), digest(wanted), "{suffix}");
    }
    for suffix in ["", ":v3", &format!("@{}", Digest::of(b"none"))] {
        let error = store.prepare(&reference(&place, "two", suffix)).await.unwrap_err();
        assert!(matches!(error, ImageError::Selection { .. }), "{suffix}: {}", chain(&error));
        assert!(error.to_string().contains("v1, v2, latest"), "{error}");
    }
    // Two names of one image are no question.
    index(&dir, &[tagged(a.clone(), "v1"), tagged(a, "latest")]);
    store.prepare(&reference(&place, "two", "")).await.unwrap();
}

#[tokio::test]
async fn the_image_for_this_machine_is_taken() {
    let place = Place::new();
    let store = place.store();
    let dir = place.path("many");
    let ours = image(&dir, &[layer("ours")], |_, _| {});
    let other = image(&dir, &[layer("other")], |_, config| config["architecture"] = json!("s390x"));
    let windows = image(&dir, &[layer("windows")], |_, config| config["os"] = json!("windows"));
    let record = image(&dir, &[layer("record")], |_, _| {});
    let manifests = [
        on(other.clone(), "linux", "s390x"),
        on(windows, "windows", arch()),
        on(ours.clone(), "linux", arch()),
        on(record, "unknown", "unknown"),
    ];
    let inner = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests });
    let inner = blob(&dir, INDEX, inner.to_string().as_bytes());
    index(&dir, &[tagged(inner, "v1")]);
    for suffix in ["", ":v1"] {
        let prepared = store.prepare(&reference(&place, "many", suffix)).await.unwrap();
        assert_eq!(prepared.digest.to_string(), ours["digest"].as_str().unwrap());
    }
    // The same, with the platforms in the outer index.
    index(&dir, &manifests);
    let prepared = store.prepare(&reference(&place, "many", "")).await.unwrap();
    assert_eq!(prepared.digest.to_string(), ours["digest"].as_str().unwrap());
    // By digest inside an inner index.
    let by_digest = reference(&place, "many", &format!("@{}", ours["digest"].as_str().unwrap()));
    store.prepare(&by_digest).await.unwrap();
    // None for this machine: said by the index, or only by the configuration.
    for manifests in [vec![on(other.clone(), "linux", "s390x")], vec![other]] {
        index(&dir, &manifests);
        let error = store.prepare(&reference(&place, "many", "")).await.unwrap_err();
        assert!(matches!(&error, ImageError::Platform { .. }), "{}", chain(&error));
        assert!(error.to_string().contains("linux/s390x"), "{error}");
    }
}

#[tokio::test]
async fn manifests_need_no_media_type_but_must_not_be_two_things() {
    let place = Place::new();
    let store = place.store();
    let drop_type = |manifest: &mut Value, _: &mut Value| drop(manifest.as_object_mut().unwrap().remove("mediaType"));
    store.prepare(&place.image_with("untyped", &[layer("a")], drop_type)).await.unwrap();
    let both = |manifest: &mut Value, _: &mut Value| manifest["manifests"] = json!([]);
    let lying = |manifest: &mut Value, _: &mut Value| manifest["mediaType"] = json!(INDEX);
    let old = |manifest: &mut Value, _: &mut Value| manifest["schemaVersion"] = json!(1);
    let short = |_: &mut Value, config: &mut Value| config["rootfs"]["diff_ids"] = json!([]);
    let sha512 = |_: &mut Value, config: &mut Value| config["rootfs"]["diff_ids"] = json!(["sha512:00"]);
    let nul = |_: &mut Value, config: &mut Value| config["config"]["Entrypoint"] = json!(["a\0b"]);
    let relative = |_: &mut Value, config: &mut Value| config["config"]["WorkingDir"] = json!("srv");
    let changes: [(&str, Change); 7] = [
        ("both", both),
        ("lying", lying),
        ("old", old),
        ("short", short),
        ("sha512", sha512),
        ("nul", nul),
        ("relative", relative),
    ];
    for (name, change) in changes {
        let error = store.prepare(&place.image_with(name, &[layer("a")], change)).await.unwrap_err();
        assert!(matches!(error, ImageError::Layout { .. }), "{name}: {}", chain(&error));
    }
    let artifact = |manifest: &mut Value, _: &mut Value| {
        let empty = blob(&place.path("artifact"), "application/vnd.oci.empty.v1+json", b"{}");
        manifest["config"] = empty;
    };
    let foreign = |manifest: &mut Value, _: &mut Value| {
        manifest["layers"][0]["mediaType"] = json!("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip");
    };
    let error = store.prepare(&place.image_with("artifact", &[layer("a")], artifact)).await.unwrap_err();
    assert!(matches!(error, ImageError::Unsupported(_)), "{}", chain(&error));
    let error = store.prepare(&place.image_with("foreign", &[layer("a")], foreign)).await.unwrap_err();
    assert!(matches!(error, ImageError::Unsupported(_)), "{}", chain(&error));
}

#[tokio::test]
async fn what_is_no_layout_says_so() {
    let place = Place::new();
    let store = place.store();
    let error = store.prepare(&reference(&place, "missing", "")).await.unwrap_err();
    assert!(matches!(error, ImageError::NoLayout { .. }), "{}", chain(&error));
    let archive: ImageReference = format!("oci-archive:{}", place.path("outside/secret").display()).parse().unwrap();
    let error = store.prepare(&archive).await.unwrap_err();
    assert!(matches!(error, ImageError::Layout { .. }), "{}", chain(&error));
    let directory: ImageReference = format!("oci-archive:{}", place.path("outside").display()).parse().unwrap();
    assert!(store.prepare(&directory).await.is_err());
    for (file, content) in [
        ("oci-layout", "{"),
        ("oci-layout", r#"{"imageLayoutVersion":"2.0.0"}"#),
        ("index.json", "[]"),
        ("index.json", r#"{"schemaVersion":2,"manifests":[]}"#),
        ("index.json", &"[".repeat(200_000)),
        ("index.json", &" ".repeat(5 << 20)),
    ] {
        let broken = place.image("broken", &[layer("a")]);
        fs::write(place.path("broken").join(file), content).unwrap();
        let error = store.prepare(&broken).await.unwrap_err();
        assert!(!error.to_string().is_empty());
        fs::remove_dir_all(place.path("broken")).unwrap();
    }
    // An index that points to itself can't be made, but one can point to others too deeply.
    let dir = place.path("deep");
    let mut descriptor = image(&dir, &[layer("a")], |_, _| {});
    for _ in 0..10 {
        let inner = json!({ "schemaVersion": 2, "manifests": [descriptor] });
        descriptor = blob(&dir, INDEX, inner.to_string().as_bytes());
    }
    index(&dir, &[descriptor]);
    let error = store.prepare(&reference(&place, "deep", "")).await.unwrap_err();
    assert!(matches!(error, ImageError::Layout { .. }), "{}", chain(&error));
    // A manifest that says it is longer than any may be.
    let dir = place.path("large");
    let mut descriptor = image(&dir, &[layer("a")], |_, _| {});
    descriptor["size"] = json!(1_u64 << 40);
    index(&dir, &[descriptor]);
    let error = store.prepare(&reference(&place, "large", "")).await.unwrap_err();
    assert!(matches!(error, ImageError::Limit { .. }), "{}", chain(&error));
}

#[tokio::test]
async fn every_compression_gives_the_same_layer() {
    let place = Place::new();
    let store = place.store();
    let tar = Tar::new().file("f", &"x".repeat(100_000)).end();
    let mut members = gzip(&tar[..1000]);
    members.stored.extend(gzip(&tar[1000..]).stored);
    members.diff_id = Digest::of(&tar);
    let mut dirs = Vec::new();
    for (name, layer) in
        [("plain", plain(tar.clone())), ("gzip", gzip(&tar)), ("zstd", zstd(&tar)), ("members", members)]
    {
        let place = Place::new();
        let prepared = place.store().prepare(&place.image(name, std::slice::from_ref(&layer))).await.unwrap();
        assert_eq!(fs::read(prepared.lower_layers[0].join("f")).unwrap(), vec![b'x'; 100_000], "{name}");
        let shared = store.prepare(&place.image(name, &[layer])).await.unwrap();
        dirs.push(shared.lower_layers[0].clone());
    }
    dirs.dedup();
    assert_eq!(dirs.len(), 1, "the content decides which layer it is, not how it is stored");
}

#[tokio::test]
async fn the_configuration_is_read() {
    let place = Place::new();
    let config = |_: &mut Value, config: &mut Value| {
        config["config"] = json!({
            "Entrypoint": ["/bin/run", "--fast"],
            "Cmd": ["serve"],
            "Env": ["PATH=/bin", "A=1=2", "EMPTY=", "ODD", "=x", "A=3"],
            "User": "app:app",
            "WorkingDir": "/srv",
            "StopSignal": "SIGINT",
            "Labels": { "a": "b" },
            "ExposedPorts": { "80/tcp": {}, "53/udp": {}, "8080": {}, "1-5/tcp": {} },
            "Volumes": { "/data": {} },
        });
    };
    let config = place.store().prepare(&place.image_with("image", &[layer("a")], config)).await.unwrap().config;
    assert_eq!(config.command_line(), ["/bin/run", "--fast", "serve"]);
    let env: Vec<_> = config.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(env, ["A=3", "EMPTY=", "PATH=/bin"]);
    assert_eq!(config.user.as_deref(), Some("app:app"));
    assert_eq!(config.workdir.as_deref(), Some("/srv"));
    assert_eq!(config.stop_signal.as_deref(), Some("SIGINT"));
    assert_eq!(config.labels.get("a").map(String::as_str), Some("b"));
    let port = |port, protocol| ExposedPort { port, protocol };
    assert_eq!(
        config.exposed_ports,
        [port(53, PortProtocol::Udp), port(80, PortProtocol::Tcp), port(8080, PortProtocol::Tcp)]
    );
    // Docker writes null for what is not there.
    let nulls = |_: &mut Value, config: &mut Value| {
        config["config"] =
            json!({ "Entrypoint": null, "Cmd": null, "Env": null, "Labels": null, "User": "", "WorkingDir": "" });
    };
    let config = place.store().prepare(&place.image_with("nulls", &[layer("a")], nulls)).await.unwrap().config;
    assert_eq!(config, polder_runtime::image::ImageConfig::default());
}

#[tokio::test]
async fn docker_types_are_images_too() {
    let place = Place::new();
    let dir = place.path("docker");
    let docker = |manifest: &mut Value, config: &mut Value| {
        manifest["mediaType"] = json!("application/vnd.docker.distribution.manifest.v2+json");
        manifest["layers"][0]["mediaType"] = json!("application/vnd.docker.image.rootfs.diff.tar.gzip");
        manifest["config"] =
            blob(&dir, "application/vnd.docker.container.image.v1+json", config.to_string().as_bytes());
    };
    let mut descriptor = image(&dir, &[layer("a")], docker);
    descriptor["mediaType"] = json!("application/vnd.docker.distribution.manifest.v2+json");
    index(&dir, std::slice::from_ref(&descriptor));
    place.store().prepare(&reference(&place, "docker", "")).await.unwrap();
    descriptor["mediaType"] = json!("application/vnd.docker.distribution.manifest.v1+json");
    index(&dir, &[descriptor]);
    let error = place.store().prepare(&reference(&place, "docker", "")).await.unwrap_err();
    assert!(matches!(error, ImageError::Unsupported(_)), "{}", chain(&error));
    assert_ne!(MANIFEST, CONFIG);
}
