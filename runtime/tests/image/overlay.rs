//! What a container will see: owners, modes, times, and whiteouts under a real overlay mount.

use crate::support::{Place, Tar, chain, gzip, plain, skip_unless_root, snapshot};
use std::{fs, os::unix::fs::MetadataExt, process::Command};

#[tokio::test]
async fn modes_times_and_links_are_kept() {
    let place = Place::new();
    let mut tar = Tar::new();
    tar.mode = 0o4750;
    tar = tar.file("setuid", "x");
    tar.mode = 0o600;
    tar = tar
        .pax(&[("mtime", b"1500000000.25")])
        .file("plain", "x")
        .hard_link("other", "plain")
        .symlink("link", "/no/where");
    tar = tar.pax(&[("mtime", b"1400000000")]).dir("d").file("d/f", "x");
    let layer = place.unpack(tar.end()).await.unwrap();
    let meta = |path: &str| fs::symlink_metadata(layer.join(path)).unwrap();
    assert_eq!(meta("setuid").mode() & 0o7777, 0o4750);
    assert_eq!(meta("plain").mode() & 0o7777, 0o600);
    assert_eq!((meta("plain").mtime(), meta("plain").mtime_nsec()), (1_500_000_000, 250_000_000));
    assert_eq!(meta("plain").ino(), meta("other").ino());
    assert_eq!(fs::read_link(layer.join("link")).unwrap().to_str(), Some("/no/where"));
    assert_eq!(meta("link").mtime(), 1_000_000);
    assert_eq!(meta("d").mtime(), 1_400_000_000, "a file made in a directory does not change its time");
    assert_eq!(fs::metadata(place.path("store")).unwrap().mode() & 0o777, 0o700, "nobody else can reach a layer");
}

#[tokio::test]
async fn a_directory_without_rights_can_still_be_filled() {
    let place = Place::new();
    let mut closed = Tar::new();
    closed.mode = 0;
    closed = closed.raw(b'5', b"closed", b"", b"", None).file("closed/f", "x");
    let layer = place.unpack(closed.end()).await.unwrap();
    assert_eq!(fs::metadata(layer.join("closed")).unwrap().mode() & 0o7777, 0);
    fs::set_permissions(layer.join("closed"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    assert_eq!(fs::read_to_string(layer.join("closed/f")).unwrap(), "x");
}

#[tokio::test]
async fn owners_are_kept() {
    skip_unless_root!();
    let place = Place::new();
    let mut tar = Tar::new();
    (tar.uid, tar.gid) = (1234, 5678);
    tar = tar.dir(".").dir("d").file("f", "x").symlink("l", "f");
    let layer = place.unpack(tar.end()).await.unwrap();
    for path in [".", "d", "f", "l"] {
        let meta = fs::symlink_metadata(layer.join(path)).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (1234, 5678), "{path}");
    }
}

/// Mounts an image in a namespace that dies with the command, and lists what is seen.
async fn seen(place: &Place, layers: &[Tar]) -> Vec<String> {
    let layers: Vec<_> = layers.iter().map(|tar| gzip(&tar.clone().end())).collect();
    let prepared =
        place.store().prepare(&place.image("image", &layers)).await.unwrap_or_else(|e| panic!("{}", chain(&e)));
    let lower: Vec<_> = prepared.lower_layers.iter().map(|path| path.display().to_string()).collect();
    // A mount without an upper directory needs two lower ones.
    fs::create_dir_all(place.path("empty")).unwrap();
    fs::create_dir_all(place.path("mount")).unwrap();
    // What can be looked up is what is there: in a directory that only one layer has, the kernel lists its whiteouts,
    // and then says that there is no such file.
    let script = r#"mount -t overlay overlay -o "lowerdir=$1" "$2" && cd "$2" &&
        find . -mindepth 1 | sort | while read -r path; do if [ -e "$path" ]; then echo "$path"; fi; done"#;
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"])
        .arg(format!("{}:{}", lower.join(":"), place.path("empty").display()))
        .arg(place.path("mount"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_dir(place.path("mount")).unwrap().count(), 0, "the mount is gone with its namespace");
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line.trim_start_matches("./").to_owned()).collect()
}

#[tokio::test]
async fn whiteouts_hide_what_is_below() {
    skip_unless_root!();
    let place = Place::new();
    let t = Tar::new;
    let base = || t().dir("d").file("d/a", "1").file("d/b", "1").dir("e").file("e/a", "1").file("f", "1");
    let cases: Vec<(&str, Vec<Tar>, Vec<&str>)> = vec![
        ("nothing", vec![base()], vec!["d", "d/a", "d/b", "e", "e/a", "f"]),
        ("a file", vec![base(), t().file("d/.wh.a", "")], vec!["d", "d/b", "e", "e/a", "f"]),
        ("a directory", vec![base(), t().file(".wh.d", "")], vec!["e", "e/a", "f"]),
        (
            "what is not there",
            vec![base(), t().file("x/.wh.y", "").file(".wh.z", "")],
            vec!["d", "d/a", "d/b", "e", "e/a", "f", "x"],
        ),
        (
            "opaque",
            vec![base(), t().dir("d").file("d/.wh..wh.opq", "").file("d/c", "2")],
            vec!["d", "d/c", "e", "e/a", "f"],
        ),
        (
            "opaque, mark last",
            vec![base(), t().dir("d").file("d/c", "2").file("d/.wh..wh.opq", "")],
            vec!["d", "d/c", "e", "e/a", "f"],
        ),
        (
            "whiteout, then the same directory",
            vec![base(), t().file(".wh.d", "").dir("d").file("d/c", "2")],
            vec!["d", "d/c", "e", "e/a", "f"],
        ),
        (
            "the same directory, then whiteout",
            vec![base(), t().dir("d").file("d/c", "2").file(".wh.d", "")],
            vec!["d", "d/c", "e", "e/a", "f"],
        ),
        (
            "whiteout, then a file in it",
            vec![base(), t().file(".wh.d", "").file("d/c", "2")],
            vec!["d", "d/c", "e", "e/a", "f"],
        ),
        (
            "whiteout, then the same file",
            vec![base(), t().file(".wh.f", "").file("f", "2")],
            vec!["d", "d/a", "d/b", "e", "e/a", "f"],
        ),
        (
            "hidden and made again",
            vec![base(), t().file(".wh.d", ""), t().dir("d").file("d/n", "3")],
            vec!["d", "d/n", "e", "e/a", "f"],
        ),
        ("opaque root", vec![base(), t().file(".wh..wh.opq", "").file("n", "2"), t().file("m", "3")], vec!["m", "n"]),
        ("a layer twice", vec![t().file("a", "1"), t().file(".wh.a", ""), t().file("a", "1")], vec!["a"]),
    ];
    for (name, layers, wanted) in cases {
        assert_eq!(seen(&place, &layers).await, wanted, "{name}");
    }
}

#[tokio::test]
async fn whiteouts_are_devices_and_opaque_is_an_attribute() {
    skip_unless_root!();
    let place = Place::new();
    let tar = Tar::new().file(".wh.gone", "").dir("d").file("d/.wh..wh.opq", "");
    let layer = place.unpack(tar.end()).await.unwrap();
    let seen = snapshot(&layer);
    assert!(seen[std::path::Path::new("gone")].ends_with("device 0"), "{seen:?}");
    let mut value = [0; 8];
    let directory = fs::File::open(layer.join("d")).unwrap();
    let length = rustix::fs::fgetxattr(&directory, "trusted.overlay.opaque", &mut value).unwrap();
    assert_eq!(&value[..length], b"y");
    assert!(place.image("again", &[plain(Tar::new().end())]).path().exists());
}
