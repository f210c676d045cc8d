//! A process that is killed in the middle leaves nothing that the next one trips over.

use crate::support::{Place, Tar, chain, gzip, layer_path};
use polder_runtime::image::{ImageReference, ImageStore};
use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const STORE: &str = "POLDER_IMAGE_TEST_STORE";
const REFERENCE: &str = "POLDER_IMAGE_TEST_REFERENCE";
const PATIENCE: Duration = Duration::from_secs(60);
const FILES: usize = 1000;

/// Not a test by itself: what the processes run that the others start.
#[tokio::test]
async fn as_a_process() {
    let (Ok(store), Ok(reference)) = (std::env::var(STORE), std::env::var(REFERENCE)) else { return };
    let reference: ImageReference = reference.parse().unwrap();
    ImageStore::open(store).unwrap().prepare(&reference).await.unwrap();
}

fn start(place: &Place, reference: &ImageReference) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::as_a_process"])
        .env(STORE, place.path("store"))
        .env(REFERENCE, reference.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn large(place: &Place) -> ImageReference {
    let tar = (0..FILES).fold(Tar::new(), |tar, n| tar.file(&format!("d{}/f{n}", n % 50), &format!("{n}").repeat(50)));
    place.image("image", &[gzip(&tar.end())])
}

/// Waits until a layer is in the making, or the process has ended.
fn wait_for_beginning(place: &Place, child: &mut Child) {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let begun = fs::read_dir(place.path("store/tmp")).is_ok_and(|mut entries| entries.next().is_some());
        if begun || child.try_wait().unwrap().is_some() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("the process did nothing");
}

fn count(path: &Path) -> usize {
    (0..50).map(|n| fs::read_dir(path.join(format!("d{n}"))).unwrap().count()).sum()
}

#[tokio::test]
async fn a_kill_at_any_point_leaves_a_store_that_works() {
    let place = Place::new();
    let reference = large(&place);
    let mut interrupted = 0;
    for round in 0..6 {
        let mut child = start(&place, &reference);
        wait_for_beginning(&place, &mut child);
        // Later in each round; when exactly does not matter, only that the moments differ.
        std::thread::sleep(Duration::from_millis(4 * round));
        let _ = child.kill();
        child.wait().unwrap();
        interrupted += usize::from(!place.in_store("tmp").is_empty());
        // Whatever is there under its name is whole.
        for name in place.in_store("layers") {
            assert_eq!(count(&place.path("store/layers").join(name)), FILES);
        }
        let store = place.store();
        assert_eq!(place.in_store("tmp"), [""; 0], "opening removes what was left");
        let prepared = store.prepare(&reference).await.unwrap_or_else(|error| panic!("{}", chain(&error)));
        assert_eq!(count(&prepared.lower_layers[0]), FILES);
        drop(prepared);
        store.collect(Default::default()).await.unwrap();
        assert_eq!(place.in_store("layers"), [""; 0]);
    }
    assert!(interrupted > 0, "no kill came in time");
}

#[tokio::test]
async fn what_another_process_is_making_is_left_alone() {
    let place = Place::new();
    let reference = large(&place);
    let mut child = start(&place, &reference);
    wait_for_beginning(&place, &mut child);
    let signal = |name: &str| {
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    };
    signal("STOP");
    let making = place.in_store("tmp");
    let store = place.store();
    assert_eq!(place.in_store("tmp"), making, "opening touches nothing that is in the making");
    signal("CONT");
    // Both finish, and there is one layer.
    let prepared = store.prepare(&reference).await.unwrap_or_else(|error| panic!("{}", chain(&error)));
    assert!(child.wait().unwrap().success());
    assert_eq!(count(&prepared.lower_layers[0]), FILES);
    assert!(layer_path(&prepared, 0, "d0/f0").exists());
    assert_eq!(place.in_store("tmp"), [""; 0]);
}

#[tokio::test]
async fn leftovers_of_every_kind_are_removed() {
    let place = Place::new();
    drop(place.store());
    let hex = "a".repeat(64);
    for path in [format!("tmp/{hex}/d"), format!("trash/{hex}-1/d")] {
        fs::create_dir_all(place.path("store").join(path)).unwrap();
    }
    std::os::unix::fs::symlink(place.path("outside"), place.path("store/tmp").join(&hex).join("link")).unwrap();
    fs::write(place.path("store/images/.new-x-1"), "{").unwrap();
    let before = place.outside();
    drop(place.store());
    for folder in ["tmp", "trash", "images"] {
        assert_eq!(place.in_store(folder), [""; 0], "{folder}");
    }
    assert_eq!(place.outside(), before);
}
