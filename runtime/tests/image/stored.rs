//! Sharing layers, using them at the same time, and collecting what nobody uses.

use crate::support::{Layer, Place, Tar, chain, gzip, layer_path, plain};
use polder_runtime::image::{ImageError, ImageStore};
use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt};

fn layer(name: &str) -> Layer {
    gzip(&Tar::new().file(name, name).end())
}

#[tokio::test]
async fn layers_are_shared_and_ordered_from_the_top() {
    let place = Place::new();
    let store = place.store();
    let one = store.prepare(&place.image("one", &[layer("base"), layer("one")])).await.unwrap();
    let base = fs::metadata(layer_path(&one, 1, "base")).unwrap().ino();
    let two = store.prepare(&place.image("two", &[layer("base"), layer("two")])).await.unwrap();
    assert_eq!(one.lower_layers[1], two.lower_layers[1]);
    assert_eq!(fs::metadata(layer_path(&two, 1, "base")).unwrap().ino(), base);
    assert_eq!(fs::read_to_string(layer_path(&two, 0, "two")).unwrap(), "two");
    assert_eq!(place.in_store("layers").len(), 3);
    assert!(one.lower_layers.iter().all(|path| path.is_absolute()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_prepare_at_once() {
    let place = Place::new();
    // Two stores on one directory are as two agents.
    let stores = [place.store(), place.store()];
    let big = "x".repeat(200_000);
    let shared = gzip(&Tar::new().file("big", &big).end());
    let references: Vec<_> =
        (0..4).map(|n| place.image(&format!("image{n}"), &[shared.clone(), layer(&format!("top{n}"))])).collect();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..32 {
        let (store, reference) = (stores[n % 2].clone(), references[n % 4].clone());
        tasks.spawn(async move { store.prepare(&reference).await });
    }
    let mut inodes = BTreeSet::new();
    while let Some(result) = tasks.join_next().await {
        let prepared = result.unwrap().unwrap_or_else(|error| panic!("{}", chain(&error)));
        assert_eq!(fs::read_to_string(layer_path(&prepared, 1, "big")).unwrap().len(), big.len());
        inodes.insert(fs::metadata(layer_path(&prepared, 1, "big")).unwrap().ino());
    }
    assert_eq!(inodes.len(), 1, "the shared layer was unpacked once");
    assert_eq!(place.in_store("layers").len(), 5);
    assert_eq!(place.in_store("tmp"), [""; 0]);
    assert!(place.in_store("locks").iter().all(|name| !name.starts_with("layer-")), "{:?}", place.in_store("locks"));
}

#[tokio::test]
async fn a_dropped_preparation_does_no_harm() {
    let place = Place::new();
    let store = place.store();
    let reference = place.image("image", &[gzip(&Tar::new().file("f", &"x".repeat(3 << 20)).end())]);
    for _ in 0..5 {
        let preparing = store.prepare(&reference);
        tokio::select! {
            biased;
            _ = preparing => {}
            () = tokio::task::yield_now() => {}
        }
    }
    let prepared = store.prepare(&reference).await.unwrap();
    assert_eq!(fs::metadata(layer_path(&prepared, 0, "f")).unwrap().len(), 3 << 20);
}

#[tokio::test]
async fn what_nobody_uses_is_collected() {
    let place = Place::new();
    let store = place.store();
    let one = store.prepare(&place.image("one", &[layer("base"), layer("one")])).await.unwrap();
    let two = store.prepare(&place.image("two", &[layer("base"), layer("two")])).await.unwrap();
    // While somebody holds them nothing goes, also for another store on the same directory.
    let collected = place.store().collect(BTreeSet::new()).await.unwrap();
    assert!(collected.images.is_empty() && collected.layers.is_empty());
    let (digest_one, digest_two) = (one.digest, two.digest);
    let (path_one, path_two, path_base) =
        (one.lower_layers[0].clone(), two.lower_layers[0].clone(), one.lower_layers[1].clone());
    drop((one, two));
    // After a restart, what the records on disk say is all there is.
    drop(store);
    let store = place.store();
    let collected = store.collect(BTreeSet::from([digest_two])).await.unwrap();
    assert_eq!(collected.images, [digest_one]);
    assert_eq!(collected.layers.len(), 1);
    assert!(!path_one.exists() && path_two.exists() && path_base.exists());
    // It can be had again.
    let one = store.prepare(&place.image("one", &[layer("base"), layer("one")])).await.unwrap();
    assert!(path_one.exists());
    drop(one);
    let collected = store.collect(BTreeSet::new()).await.unwrap();
    assert_eq!((collected.images.len(), collected.layers.len()), (2, 3));
    assert_eq!(place.in_store("layers"), [""; 0]);
    assert_eq!(place.in_store("trash"), [""; 0]);
    assert_eq!(place.in_store("images"), [""; 0]);
    assert_eq!(place.in_store("locks"), ["gate"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preparing_and_collecting_at_once_never_loses_a_layer() {
    let place = Place::new();
    let store = place.store();
    let references: Vec<_> =
        (0..3).map(|n| place.image(&format!("image{n}"), &[layer("base"), layer(&format!("top{n}"))])).collect();
    let collector = tokio::spawn({
        let store = store.clone();
        async move {
            for _ in 0..40 {
                store.collect(BTreeSet::new()).await.unwrap();
                tokio::task::yield_now().await;
            }
        }
    });
    let mut rounds = 0;
    while !collector.is_finished() || rounds < 10 {
        let prepared = store.prepare(&references[rounds % 3]).await.unwrap_or_else(|error| panic!("{}", chain(&error)));
        assert!(layer_path(&prepared, 1, "base").exists());
        assert!(layer_path(&prepared, 0, &format!("top{}", rounds % 3)).exists());
        rounds += 1;
    }
    collector.await.unwrap();
}

#[tokio::test]
async fn a_store_of_a_newer_version_is_refused() {
    let place = Place::new();
    drop(place.store());
    fs::write(place.path("store/version"), "2\n").unwrap();
    let error = ImageStore::open(place.path("store")).unwrap_err();
    assert!(matches!(error, ImageError::Unsupported(_)), "{error}");
    let reference = place.image("image", &[plain(Tar::new().end())]);
    assert!(reference.to_string().starts_with("oci:/"));
}
