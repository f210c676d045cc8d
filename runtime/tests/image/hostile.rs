//! Layers that try to get out, to take everything, or to lie.

use crate::support::{Place, Tar, blob_path, chain, gzip, is_root, plain, snapshot, zstd};
use polder_runtime::image::{Digest, ImageError, UnpackError};
use std::{fs, os::unix::fs::FileTypeExt};

fn is_refused(error: &ImageError) -> bool {
    matches!(error, ImageError::Layer { source: UnpackError::Refused { .. }, .. })
}

/// Every one of these must be refused, and leave nothing behind: not outside, not in the store.
#[tokio::test]
async fn what_reaches_out_is_refused() {
    let place = Place::new();
    let out = place.path("outside").display().to_string();
    let t = Tar::new;
    let long = "n".repeat(256);
    let deep = "d/".repeat(200) + "f";
    let cases: Vec<(&str, Tar)> = vec![
        ("up", t().file("../evil", "x")),
        ("up from inside", t().dir("a").file("a/../../evil", "x")),
        ("up and back", t().file("a/../b", "x")),
        ("absolute", t().file(&format!("{out}/evil"), "x")),
        ("absolute directory", t().dir("/tmp/evil")),
        ("nothing", t().file("./", "x")),
        ("nothing as a link", t().symlink(".", "/")),
        ("NUL", t().pax(&[("path", b"a\0b")]).file("a", "x")),
        ("long name", t().file(&long, "x")),
        ("deep", t().file(&deep, "x")),
        ("absolute link, file", t().symlink("a", &out).file("a/evil", "x")),
        ("absolute link, directory", t().symlink("a", &out).dir("a/evil")),
        ("absolute link, deep directory", t().symlink("a", &out).dir("a/dir/evil")),
        ("absolute link, link", t().symlink("a", &out).symlink("a/evil", "x")),
        ("absolute link, whiteout", t().symlink("a", &out).file("a/.wh.secret", "")),
        ("absolute link, opaque", t().symlink("a", &out).file("a/.wh..wh.opq", "")),
        ("absolute link, opaque below", t().symlink("a", &out).file("a/dir/.wh..wh.opq", "")),
        ("climbing link", t().symlink("a", "../../outside").file("a/evil", "x")),
        ("climbing link, deeper", t().dir("d").symlink("d/a", "../../../outside").file("d/a/evil", "x")),
        ("chain", t().symlink("b", &out).symlink("a", "b").file("a/evil", "x")),
        ("circle", t().symlink("a", "b").symlink("b", "a").file("a/evil", "x")),
        ("root link", t().symlink("a", "/").file("a/evil", "x")),
        ("proc link", t().symlink("a", "/proc/self/cwd").file("a/evil", "x")),
        ("link to nowhere", t().symlink("a", "nowhere").file("a/evil", "x")),
        ("file as directory", t().file("a", "x").file("a/evil", "x")),
        ("hard link out", t().hard_link("h", &format!("{out}/secret"))),
        ("hard link up", t().hard_link("h", "../../../outside/secret")),
        ("hard link through link", t().symlink("a", &out).hard_link("h", "a/secret")),
        ("hard link into link", t().file("f", "x").symlink("a", &out).hard_link("a/evil", "f")),
        ("hard link to nothing", t().hard_link("h", "missing")),
        ("hard link to a directory", t().dir("d").hard_link("h", "d")),
        ("hard link to the root", t().hard_link("h", ".")),
        ("hard link to what it replaces", t().file("d/f", "x").hard_link("d", "d/f")),
        ("empty whiteout", t().file(".wh.", "")),
        ("whiteout of here", t().file("a/.wh..", "")),
        ("whiteout of above", t().file("a/.wh...", "")),
        ("under a whiteout", t().file(".wh.a/b", "")),
        ("odd kind", t().raw(b'Z', b"a", b"", b"", None)),
        ("no link target", t().symlink("a", "")),
        ("large owner", {
            let mut tar = t();
            tar.uid = 1 << 33;
            tar.file("a", "x")
        }),
        ("owner nobody can be", {
            let mut tar = t();
            tar.uid = u32::MAX.into();
            tar.file("a", "x")
        }),
    ];
    let before = place.outside();
    for (name, tar) in cases {
        let error = match place.unpack(tar.end()).await {
            Err(error) => error,
            Ok(layer) => panic!("{name}: accepted: {:?}", snapshot(&layer)),
        };
        assert!(is_refused(&error), "{name}: {}", chain(&error));
        assert_eq!(place.outside(), before, "{name}");
        assert_eq!(place.in_store("layers"), [""; 0], "{name}");
        assert_eq!(place.in_store("tmp"), [""; 0], "{name}");
    }
}

/// These look dangerous, or are odd, but stay inside.
#[tokio::test]
async fn what_stays_inside_is_accepted() {
    let place = Place::new();
    let out = place.path("outside").display().to_string();
    let secret = format!("{out}/secret");
    let t = Tar::new;
    let cases: Vec<(&str, Tar, &str, &str)> = vec![
        ("link inside", t().dir("usr/lib").symlink("lib", "usr/lib").file("lib/f", "x"), "usr/lib/f", "x"),
        ("link up and inside", t().dir("a").dir("b").symlink("a/l", "../b").file("a/l/f", "x"), "b/f", "x"),
        ("link replaced by directory", t().symlink("a", &out).dir("a").file("a/f", "x"), "a/f", "x"),
        ("link replaced by file", t().symlink("a", &secret).file("a", "x"), "a", "x"),
        ("hard link to link replaced", t().symlink("l", &secret).hard_link("h", "l").file("h", "x"), "h", "x"),
        ("directory replaced by file", t().file("a/b/c", "y").file("a", "x"), "a", "x"),
        ("file replaced by directory", t().file("a", "y").dir("a").file("a/f", "x"), "a/f", "x"),
        ("the last one counts", t().file("a", "y").file("a", "x"), "a", "x"),
        ("dots and slashes", t().file("./a//./b", "x"), "a/b", "x"),
        ("missing parents", t().file("p/q/r", "x"), "p/q/r", "x"),
        ("hard link", t().file("a", "x").hard_link("b", "a"), "b", "x"),
        ("hard link to itself", t().file("a", "x").hard_link("a", "a"), "a", "x"),
        ("hard link over a file", t().file("a", "x").file("b", "y").hard_link("b", "./a"), "b", "x"),
        ("hard link with a size", t().file("a", "x").raw(b'1', b"b", b"a", b"", Some(1 << 40)), "b", "x"),
        ("note of an old driver", t().file("a", "x").file(".wh..wh.plnk", ""), "a", "x"),
        ("old kind of file", t().raw(0, b"a", b"", b"x", None), "a", "x"),
    ];
    let before = place.outside();
    for (name, tar, path, content) in cases {
        let layer = place.unpack(tar.end()).await.unwrap_or_else(|error| panic!("{name}: {}", chain(&error)));
        let kind = fs::symlink_metadata(layer.join(path)).unwrap().file_type();
        assert!(kind.is_file(), "{name}: {kind:?}");
        assert_eq!(fs::read_to_string(layer.join(path)).unwrap(), content, "{name}");
        assert_eq!(place.outside(), before, "{name}");
    }
}

#[tokio::test]
async fn nodes_are_left_out() {
    let place = Place::new();
    let tar = Tar::new()
        .raw(b'3', b"dev/null", b"", b"", None)
        .raw(b'4', b"dev/sda", b"", b"", None)
        .raw(b'6', b"pipe", b"", b"", None)
        // Would hide a file of the layer below without being a whiteout.
        .raw(b'3', b"hidden", b"", b"", None)
        .file("f", "x");
    let layer = place.unpack(tar.end()).await.unwrap();
    let names: Vec<_> = snapshot(&layer).into_keys().map(|path| path.display().to_string()).collect();
    assert_eq!(names, ["", "f"]);
}

#[tokio::test]
async fn attributes_that_act_on_the_host_are_left_out() {
    let place = Place::new();
    let capability = b"\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x00\x00\x00\x00\x00".as_slice();
    let records: &[(&str, &[u8])] = &[
        ("SCHILY.xattr.trusted.overlay.redirect", b"/etc"),
        ("SCHILY.xattr.trusted.overlay.opaque", b"y"),
        ("SCHILY.xattr.user.overlay.opaque", b"y"),
        ("SCHILY.xattr.security.selinux", b"x"),
        ("SCHILY.xattr.user.mine", b"a\nb"),
        ("SCHILY.xattr.security.capability", capability),
    ];
    let tar = Tar::new().pax(records).dir("d").pax(records).file("f", "x");
    let layer = place.unpack(tar.end()).await.unwrap();
    for path in ["d", "f"] {
        let file = fs::File::open(layer.join(path)).unwrap();
        let mut buffer = vec![0; 4096];
        let length = rustix::fs::flistxattr(&file, &mut buffer).unwrap();
        let mut names: Vec<_> = buffer[..length]
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
            .map(String::from_utf8_lossy)
            .collect();
        names.sort();
        let mut value = vec![0; 64];
        let length = rustix::fs::fgetxattr(&file, "user.mine", &mut value).unwrap();
        assert_eq!(&value[..length], b"a\nb");
        if is_root() {
            assert_eq!(names, ["security.capability", "user.mine"], "{path}");
            let length = rustix::fs::fgetxattr(&file, "security.capability", &mut value).unwrap();
            assert_eq!(&value[..length], capability);
        } else {
            assert_eq!(names, ["user.mine"], "{path}");
        }
    }
}

fn is_limit(error: &ImageError) -> bool {
    matches!(error, ImageError::Limit { .. } | ImageError::Layer { source: UnpackError::Limit { .. }, .. })
        || chain(error).contains("larger than")
        || chain(error).contains("longer than")
}

#[tokio::test]
async fn what_takes_too_much_is_refused() {
    let place = Place::new();
    let store = place.small_store();
    let zeros = "\0".repeat(5 << 20);
    let many = (0..101).fold(Tar::new(), |tar, number| tar.file(&format!("f{number}"), ""));
    let mut trailing = Tar::new().file("a", "x").end();
    trailing.resize(5 << 20, 0);
    let cases = [
        ("a file that is said to be huge", plain(Tar::new().raw(b'0', b"a", b"", b"x", Some(1 << 62)).end())),
        ("an extension that is said to be huge", plain(Tar::new().raw(b'L', b"a", b"", b"x", Some(1 << 40)).end())),
        (
            "extended headers that are said to be huge",
            plain(Tar::new().raw(b'x', b"a", b"", b"x", Some(1 << 31)).end()),
        ),
        ("a small file that becomes large, gzip", gzip(&Tar::new().file("a", &zeros).end())),
        ("a small file that becomes large, zstd", zstd(&Tar::new().file("a", &zeros).end())),
        ("zeros behind the end", gzip(&trailing)),
        ("many entries", plain(many.end())),
    ];
    for (name, layer) in cases {
        let error = store.prepare(&place.image("image", &[layer])).await.unwrap_err();
        assert!(is_limit(&error), "{name}: {}", chain(&error));
        assert!(!error.is_transient(), "{name}");
        assert_eq!(place.in_store("layers"), [""; 0], "{name}");
        assert_eq!(place.in_store("tmp"), [""; 0], "{name}");
    }
    let noise: Vec<u8> = (0..(2_u32 << 20)).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    let error = store.prepare(&place.image("image", &[plain(noise)])).await.unwrap_err();
    assert!(matches!(error, ImageError::Limit { .. }), "{}", chain(&error));
    let layer = plain(Tar::new().file("a", "x").end());
    let error = store.prepare(&place.image("image", &vec![layer; 200])).await.unwrap_err();
    assert!(matches!(error, ImageError::Limit { limit: 127, .. }), "{}", chain(&error));
}

#[tokio::test]
async fn damage_is_noticed() {
    let place = Place::new();
    let store = place.store();
    let tar = Tar::new().file("a", &"content ".repeat(1000)).end();
    let damaged = |change: &dyn Fn(&mut Vec<u8>)| {
        let layer = gzip(&tar);
        let reference = place.image("image", std::slice::from_ref(&layer));
        let path = blob_path(&place.path("image"), &Digest::of(&layer.stored));
        let mut stored = layer.stored;
        change(&mut stored);
        fs::write(path, stored).unwrap();
        reference
    };
    let error = store.prepare(&damaged(&|stored| stored.truncate(100))).await.unwrap_err();
    assert!(matches!(error, ImageError::WrongSize { .. }), "{}", chain(&error));
    let error = store.prepare(&damaged(&|stored| stored[4] ^= 1)).await.unwrap_err();
    assert!(matches!(error, ImageError::WrongDigest { .. }), "{}", chain(&error));

    let mut truncated = gzip(&tar);
    truncated.stored.truncate(truncated.stored.len() - 20);
    let mut followed = gzip(&tar);
    followed.stored.extend_from_slice(b"garbage");
    let mut cut = zstd(&tar);
    cut.stored.truncate(cut.stored.len() - 5);
    let mut broken = zstd(&tar);
    let middle = broken.stored.len() / 2;
    broken.stored[middle] ^= 0xff;
    let short = plain(tar[..tar.len() - 4096].to_vec());
    let hole = plain([&[0; 512], &tar[..]].concat());
    let noise = plain(vec![7; 5000]);
    for (name, layer) in [
        ("truncated gzip", truncated),
        ("garbage after gzip", followed),
        ("truncated zstd", cut),
        ("broken zstd", broken),
        ("truncated tar", short),
        ("a hole in the tar", hole),
        ("no tar", noise),
    ] {
        let error = store.prepare(&place.image("image", &[layer])).await.unwrap_err();
        let is_stream = matches!(error, ImageError::Layer { source: UnpackError::Stream(_), .. });
        assert!(is_stream || matches!(error, ImageError::WrongDigest { .. }), "{name}: {}", chain(&error));
    }
    let mut lying = gzip(&tar);
    lying.diff_id = Digest::of(b"something else");
    let error = store.prepare(&place.image("image", &[lying])).await.unwrap_err();
    assert!(matches!(&error, ImageError::WrongDigest { what, .. } if what.contains("unpacked")), "{}", chain(&error));
    assert_eq!(place.in_store("layers"), [""; 0]);
    assert_eq!(place.in_store("tmp"), [""; 0]);
    // And what is whole is still fine.
    assert!(store.prepare(&place.image("image", &[gzip(&tar)])).await.is_ok());
}

#[tokio::test]
async fn a_layout_can_lead_nowhere_else() {
    let place = Place::new();
    let store = place.store();
    let layer = plain(Tar::new().file("a", "x").end());
    let reference = place.image("image", std::slice::from_ref(&layer));
    let path = blob_path(&place.path("image"), &layer.diff_id);
    // A link to a file elsewhere, with just the right content.
    let elsewhere = place.path("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    let error = store.prepare(&reference).await.unwrap_err();
    assert!(matches!(error, ImageError::NoBlob { .. }), "{}", chain(&error));
    // A pipe that nobody writes into must not be waited for.
    fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(fs::metadata(&path).unwrap().file_type().is_fifo());
    let error = store.prepare(&reference).await.unwrap_err();
    assert!(matches!(error, ImageError::NoBlob { .. }), "{}", chain(&error));
    fs::remove_file(&path).unwrap();
    let error = store.prepare(&reference).await.unwrap_err();
    assert!(matches!(error, ImageError::NoBlob { .. }), "{}", chain(&error));
    fs::rename(&elsewhere, &path).unwrap();
    store.prepare(&reference).await.unwrap();
}
