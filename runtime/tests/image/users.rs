//! Finding users in an image, as a container would see its files.

use crate::support::{Place, Tar, plain, skip_unless_root};
use polder_runtime::image::{ResolvedUser, resolve_user};
use std::path::PathBuf;

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\n# a comment\nbroken\napp:x:1000:1001:App:/home/app:/bin/sh\n\
                      1234:x:7:8::/odd:/bin/sh\nlarge:x:4294967295:1::/:\n";
const GROUP: &str = "root:x:0:\napp:x:1001:\nvideo:x:44:other,app\nwheel:x:10:app\nempty:x:45:\n";

async fn layers(place: &Place, layers: &[Tar]) -> Vec<PathBuf> {
    let layers: Vec<_> = layers.iter().map(|tar| plain(tar.clone().end())).collect();
    place.store().prepare(&place.image("image", &layers)).await.unwrap().lower_layers
}

fn base() -> Tar {
    Tar::new().dir("etc").file("etc/passwd", PASSWD).file("etc/group", GROUP)
}

fn user(uid: u32, gid: u32, extra_gids: &[u32], home: Option<&str>) -> ResolvedUser {
    ResolvedUser { uid, gid, extra_gids: extra_gids.to_vec(), home: home.map(str::to_owned) }
}

#[tokio::test]
async fn names_and_numbers() {
    let place = Place::new();
    let lower = layers(&place, &[base()]).await;
    for (wanted, found) in [
        ("", user(0, 0, &[], Some("/root"))),
        ("root", user(0, 0, &[], Some("/root"))),
        ("app", user(1000, 1001, &[10, 44], Some("/home/app"))),
        ("1000", user(1000, 1001, &[10, 44], Some("/home/app"))),
        ("app:video", user(1000, 44, &[], Some("/home/app"))),
        ("app:9", user(1000, 9, &[], Some("/home/app"))),
        ("app:", user(1000, 1001, &[10, 44], Some("/home/app"))),
        (":app", user(0, 1001, &[], Some("/root"))),
        ("5000", user(5000, 0, &[], None)),
        ("5000:5001", user(5000, 5001, &[], None)),
        // A name that looks like a number is a name.
        ("1234", user(7, 8, &[], Some("/odd"))),
    ] {
        assert_eq!(resolve_user(&lower, wanted).unwrap(), found, "{wanted}");
    }
    for wanted in
        ["nobody", "app:nobody", "large", "4294967295", "2147483648", "0:4294967295", "-1", "99999999999999999999"]
    {
        let error = resolve_user(&lower, wanted).unwrap_err().to_string();
        assert!(error.contains("/etc/") || error.contains("too large"), "{wanted}: {error}");
    }
}

#[tokio::test]
async fn an_image_without_users() {
    let place = Place::new();
    let lower = layers(&place, &[Tar::new().file("f", "x")]).await;
    assert_eq!(resolve_user(&lower, "").unwrap(), user(0, 0, &[], None));
    assert_eq!(resolve_user(&lower, "7:8").unwrap(), user(7, 8, &[], None));
    assert!(resolve_user(&lower, "app").is_err());
}

#[tokio::test]
async fn the_top_layer_counts_and_links_stay_inside() {
    let place = Place::new();
    let out = place.path("outside").display().to_string();
    std::fs::write(place.path("outside/passwd"), "app:x:666:666::/:\n").unwrap();
    let t = Tar::new;
    let uid = async |tars: &[Tar]| resolve_user(&layers(&place, tars).await, "app").map(|user| user.uid).ok();
    let other = "app:x:2000:2000::/:\n";
    assert_eq!(uid(&[base(), t().file("etc/passwd", other)]).await, Some(2000));
    assert_eq!(uid(&[t().file("etc/passwd", other), base()]).await, Some(1000));
    assert_eq!(uid(&[base(), t().file("x", "")]).await, Some(1000));
    // Links in the image lead to places in the image, whatever is there on the host.
    assert_eq!(uid(&[base().file("real", other), t().symlink("etc/passwd", "/real")]).await, Some(2000));
    assert_eq!(uid(&[base().file("real", other), t().symlink("etc/passwd", "../../../real")]).await, Some(2000));
    assert_eq!(uid(&[t().symlink("etc", "usr/etc").file("usr/etc/passwd", other)]).await, Some(2000));
    assert_eq!(uid(&[base(), t().symlink("etc/passwd", &format!("{out}/passwd"))]).await, None);
    assert_eq!(uid(&[base(), t().symlink("etc", &out)]).await, None);
    assert_eq!(uid(&[base(), t().symlink("etc/passwd", "passwd")]).await, None);
    assert_eq!(uid(&[base(), t().dir("etc/passwd")]).await, None);
    assert_eq!(uid(&[base(), t().file("etc", "")]).await, None);
}

#[tokio::test]
async fn what_is_hidden_is_not_read() {
    skip_unless_root!();
    let place = Place::new();
    let t = Tar::new;
    let found = async |tars: &[Tar]| resolve_user(&layers(&place, tars).await, "app").is_ok();
    assert!(found(&[base()]).await);
    assert!(!found(&[base(), t().file("etc/.wh.passwd", "")]).await);
    assert!(!found(&[base(), t().file(".wh.etc", "")]).await);
    assert!(!found(&[base(), t().dir("etc").file("etc/.wh..wh.opq", "")]).await);
    assert!(found(&[base(), t().dir("etc").file("etc/.wh.group", "")]).await);
}
