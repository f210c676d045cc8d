//! Random layers: whatever they hold, nothing outside is touched and nothing panics.

use crate::support::{Place, Tar, plain, snapshot};
use proptest::prelude::*;

const CASES: u32 = 150;

#[derive(Clone, Debug)]
struct RandomEntry {
    kind: u8,
    path: String,
    link: String,
}

/// Few names, so that entries meet.
fn path(out: String) -> impl Strategy<Value = String> {
    let part = prop_oneof![
        6 => Just("a".to_owned()),
        6 => Just("b".to_owned()),
        4 => Just("c".to_owned()),
        1 => Just("..".to_owned()),
        1 => Just(".".to_owned()),
        1 => Just(".wh.a".to_owned()),
        1 => Just(".wh..wh.opq".to_owned()),
        1 => Just("secret".to_owned()),
    ];
    prop_oneof![
        12 => proptest::collection::vec(part, 1..4).prop_map(|parts| parts.join("/")),
        1 => Just(out),
    ]
}

fn entries() -> impl Strategy<Value = Vec<RandomEntry>> {
    let link = prop_oneof![
        4 => path("OUT/secret".into()),
        2 => Just("OUT".to_owned()),
        1 => Just("../../../outside".to_owned()),
        1 => Just("/".to_owned()),
        1 => Just("OUT/dir/keep".to_owned()),
    ];
    let kind = prop_oneof![
        4 => Just(b'0'), 3 => Just(b'5'), 4 => Just(b'2'), 3 => Just(b'1'), 1 => Just(b'3'), 1 => Just(b'6')
    ];
    let entry = (kind, path("OUT/evil".into()), link).prop_map(|(kind, path, link)| RandomEntry { kind, path, link });
    proptest::collection::vec(entry, 1..12)
}

fn unpack(place: &Place, tar: Vec<u8>) -> Option<std::path::PathBuf> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(place.unpack(tar)).ok()
}

fn tar(entries: &[RandomEntry], out: &str) -> Vec<u8> {
    entries
        .iter()
        .fold(Tar::new(), |tar, entry| {
            let (path, link) = (entry.path.replace("OUT", out), entry.link.replace("OUT", out));
            let content: &[u8] = if entry.kind == b'0' { b"evil" } else { b"" };
            tar.raw(entry.kind, path.as_bytes(), link.as_bytes(), content, None)
        })
        .end()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_layers_stay_inside(entries in entries()) {
        let place = Place::new();
        let before = place.outside();
        let out = place.path("outside").display().to_string();
        let layer = unpack(&place, tar(&entries, &out));
        prop_assert_eq!(place.outside(), before);
        prop_assert_eq!(place.in_store("tmp"), [""; 0]);
        prop_assert_eq!(place.in_store("layers").len(), usize::from(layer.is_some()));
        let Some(layer) = layer else { return Ok(()) };
        for (path, what) in snapshot(&layer) {
            let kind = what.splitn(3, ' ').nth(2).unwrap();
            let known = ["file \"evil\"", "directory", "device 0"].contains(&kind) || kind.starts_with("link to");
            prop_assert!(known, "{}: {}", path.display(), what);
        }
    }

    #[test]
    fn damaged_streams_do_not_panic(
        entries in entries(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let place = Place::new();
        let before = place.outside();
        let mut bytes = tar(&entries, &place.path("outside").display().to_string());
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        unpack(&place, bytes);
        prop_assert_eq!(place.outside(), before);
    }

    #[test]
    fn noise_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..3000), magic in 0..3_u8) {
        let place = Place::new();
        let head: &[u8] = match magic { 0 => &[0x1f, 0x8b, 8], 1 => &[0x28, 0xb5, 0x2f, 0xfd], _ => &[] };
        let stored = [head, &bytes].concat();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _ = runtime.block_on(place.store().prepare(&place.image("noise", &[plain(stored)])));
    }
}
