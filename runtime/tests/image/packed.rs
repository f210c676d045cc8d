//! What Polder packs, it can prepare; and the same input gives the same image.

use crate::support::{Place, chain, snapshot};
use polder_runtime::image::{
    ImageError, ImageReference, PortProtocol,
    pack::{PackFile, PackSpec, Packed, pack_archive, pack_layout},
};
use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt};

fn spec(place: &Place) -> PackSpec {
    fs::write(place.path("program"), "#!/bin/sh\n").unwrap();
    PackSpec {
        files: vec![PackFile::program(place.path("program"), "/usr/bin/demo")],
        entrypoint: vec!["/usr/bin/demo".into()],
        cmd: vec!["serve".into()],
        env: BTreeMap::from([("B".into(), "2".into()), ("A".into(), "1".into())]),
        ports: [8080, 80].into(),
        user: Some("nobody".into()),
        workdir: Some("/srv/app".into()),
        stop_signal: Some("SIGTERM".into()),
        labels: BTreeMap::from([("l".into(), "v".into())]),
    }
}

#[tokio::test]
async fn a_packed_image_can_be_prepared() {
    let place = Place::new();
    let store = place.store();
    let spec = spec(&place);
    let packed = pack_layout(&spec, &place.path("layout"), "v1").unwrap();
    let archived = pack_archive(&spec, &place.path("demo.tar"), "v1").unwrap();
    assert_eq!(packed, archived);
    let mut seen = Vec::new();
    for text in [
        format!("oci:{}:v1", place.path("layout").display()),
        format!("oci:{}", place.path("layout").display()),
        format!("oci-archive:{}:v1", place.path("demo.tar").display()),
        format!("oci-archive:{}@{}", place.path("demo.tar").display(), packed.digest),
    ] {
        let prepared = store.prepare(&text.parse().unwrap()).await.unwrap_or_else(|e| panic!("{text}: {}", chain(&e)));
        assert_eq!(prepared.digest, packed.digest);
        assert_eq!(prepared.config.command_line(), ["/usr/bin/demo", "serve"]);
        assert_eq!(prepared.config.env, spec.env);
        assert_eq!(prepared.config.user, spec.user);
        assert_eq!(prepared.config.workdir, spec.workdir);
        assert_eq!(prepared.config.stop_signal, spec.stop_signal);
        assert_eq!(prepared.config.labels, spec.labels);
        let ports: Vec<_> = prepared.config.exposed_ports.iter().map(|port| (port.port, port.protocol)).collect();
        assert_eq!(ports, [(80, PortProtocol::Tcp), (8080, PortProtocol::Tcp)]);
        seen.push(prepared.lower_layers);
    }
    seen.dedup();
    assert_eq!(seen.len(), 1);
    let layer = &seen[0][0];
    assert_eq!(fs::read_to_string(layer.join("usr/bin/demo")).unwrap(), "#!/bin/sh\n");
    let mode = |path: &str| fs::metadata(layer.join(path)).unwrap().mode() & 0o7777;
    assert_eq!(mode("usr/bin/demo"), 0o755);
    assert_eq!(mode("tmp"), 0o1777);
    assert_eq!(mode("etc/passwd"), 0o644);
    assert_eq!(mode("srv/app"), 0o755);
    assert!(fs::read_to_string(layer.join("etc/passwd")).unwrap().starts_with("root:x:0:0:"));
    assert!(fs::metadata(layer.join("usr/bin/demo")).unwrap().mtime() == 0);
    for directory in ["proc", "sys", "dev"] {
        assert!(layer.join(directory).is_dir());
    }
}

#[test]
fn the_same_input_gives_the_same_image() {
    let (one, two) = (Place::new(), Place::new());
    let packed: Vec<Packed> = [&one, &two]
        .into_iter()
        .map(|place| {
            let spec = spec(place);
            // Neither times nor the order of files get in.
            let packed = pack_layout(&spec, &place.path("layout"), "v1").unwrap();
            pack_archive(&spec, &place.path("demo.tar"), "v1").unwrap();
            packed
        })
        .collect();
    assert_eq!(packed[0], packed[1]);
    assert_eq!(snapshot(&one.path("layout")), snapshot(&two.path("layout")));
    assert_eq!(fs::read(one.path("demo.tar")).unwrap(), fs::read(two.path("demo.tar")).unwrap());
    let mut other = spec(&one);
    other.env.insert("C".into(), "3".into());
    assert_ne!(pack_layout(&other, &one.path("layout"), "v1").unwrap().digest, packed[0].digest);
}

#[tokio::test]
async fn a_layout_takes_several_images() {
    let place = Place::new();
    let store = place.store();
    let layout = place.path("layout");
    let mut spec = spec(&place);
    let first = pack_layout(&spec, &layout, "v1").unwrap();
    spec.cmd = vec!["other".into()];
    let second = pack_layout(&spec, &layout, "v2").unwrap();
    let get = async |tag: &str| {
        let reference: ImageReference = format!("oci:{}:{tag}", layout.display()).parse().unwrap();
        store.prepare(&reference).await.map(|prepared| prepared.digest)
    };
    assert_eq!(get("v1").await.unwrap(), first.digest);
    assert_eq!(get("v2").await.unwrap(), second.digest);
    // The same tag again takes the place of the first.
    spec.cmd = vec!["third".into()];
    let third = pack_layout(&spec, &layout, "v1").unwrap();
    assert_eq!(get("v1").await.unwrap(), third.digest);
    assert_eq!(get("v2").await.unwrap(), second.digest);
    assert!(!snapshot(&layout).keys().any(|path| path.to_string_lossy().contains(".new-")));
}

#[test]
fn what_cannot_be_packed_says_why() {
    let place = Place::new();
    let good = spec(&place);
    let with = |files: Vec<PackFile>| PackSpec { files, ..good.clone() };
    let program = |target: &str| PackFile::program(place.path("program"), target);
    for (name, spec) in [
        ("relative", with(vec![program("bin/demo")])),
        ("climbing", with(vec![program("/bin/../demo")])),
        ("no name", with(vec![program("/")])),
        ("twice", with(vec![program("/demo"), program("//demo")])),
        ("file and directory", with(vec![program("/demo"), program("/demo/demo")])),
        ("missing", with(vec![PackFile::program(place.path("missing"), "/demo")])),
        ("a directory", with(vec![PackFile::program(place.path("outside"), "/demo")])),
    ] {
        let error = pack_layout(&spec, &place.path("layout"), "v1").unwrap_err();
        assert!(!place.path("layout").exists(), "{name}: {error}");
    }
    for tag in ["", "a b", "-a", "a/b", &"a".repeat(129)] {
        assert!(pack_layout(&good, &place.path("layout"), tag).is_err(), "{tag}");
    }
    let before = place.outside();
    let error = pack_layout(&good, &place.path("outside"), "v1").unwrap_err();
    assert!(matches!(error, ImageError::Layout { .. }), "{error}");
    assert_eq!(place.outside(), before);
    // A long path in the image is no trouble.
    let deep = format!("/{}/demo", "directory/".repeat(20));
    pack_layout(&with(vec![program(&deep)]), &place.path("layout"), "v1").unwrap();
}
