//! Discovery of recordings in messy folders.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use isochrony_ingest::{DiscoverOptions, Interrupt, Layout, Symlinks, discover};
use proptest::prelude::*;

fn write(root: &Path, path: &str, bytes: usize) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, vec![7; bytes]).unwrap();
}

fn layout(template: &str) -> Layout {
    template.parse().unwrap()
}

#[test]
fn recordings_are_sorted_for_any_listing_order() {
    let folder = tempfile::tempdir().unwrap();
    for epoch in [90, 30, 1000, 60] {
        for station in ["b", "a"] {
            write(
                folder.path(),
                &format!("{station}/x/{station}_{epoch}.raw"),
                epoch,
            );
        }
    }
    let found = discover(
        folder.path(),
        &layout("{s}/{k}/{s}_{epoch}.raw"),
        &DiscoverOptions::default(),
    )
    .unwrap();
    let paths: Vec<String> = found.iter().map(|file| file.path).collect();
    let expected = ["a", "b"]
        .map(|s| [30, 60, 90, 1000].map(|e| format!("{s}/x/{s}_{e}.raw")))
        .concat();
    assert_eq!(paths, expected);
    assert_eq!(found.signals(), ["a/x", "b/x"]);
    assert_eq!(found.bytes(), 2 * (90 + 30 + 1000 + 60));
    assert!(found.problems().is_empty());
    assert_eq!(found.get(7).unwrap().signal, "b/x");
    assert_eq!(found.get(7).unwrap().size, 1000);
    assert_eq!(found.get(8), None);
}

#[test]
fn a_layout_without_names_names_the_signal_like_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "buoy/20100301.raw", 2);
    let found = discover(
        &folder.path().join("buoy"),
        &layout("{iso}.raw"),
        &DiscoverOptions::default(),
    )
    .unwrap();
    assert_eq!(found.get(0).unwrap().signal, "buoy");
    assert_eq!(
        found.get(0).unwrap().stamp.unwrap().resolution_ns,
        86_400_000_000_000
    );
}

#[cfg(unix)]
#[test]
fn everything_that_is_no_recording_is_listed_with_its_reason() {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "s_5.raw", 2);
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(root, "s_1.raw", 2);
    write(root, "notes.txt", 2);
    write(root, ".s_3.raw.part", 2);
    write(root, "deep/down/s_4.raw", 2);
    fs::write(root.join(std::ffi::OsStr::from_bytes(b"s_\xff.raw")), "x").unwrap();
    symlink(outside.path().join("s_5.raw"), root.join("s_5.raw")).unwrap();
    symlink(root.join("s_1.raw"), root.join("s_6.raw")).unwrap();
    symlink(root.join("nothing"), root.join("s_7.raw")).unwrap();
    symlink(root, root.join("deep/loop")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("s_8.raw")).unwrap();
    let options = |symlinks| DiscoverOptions {
        symlinks,
        ..DiscoverOptions::default()
    };

    let found = discover(root, &layout("{s}_{epoch}.raw"), &options(Symlinks::Inside)).unwrap();
    let problems: BTreeMap<&str, &str> = found
        .problems()
        .list
        .iter()
        .map(|problem| (problem.path.as_str(), problem.code))
        .collect();
    assert_eq!(
        problems,
        BTreeMap::from([
            ("notes.txt", "misnamed"),
            (".s_3.raw.part", "misnamed"),
            ("deep/down/s_4.raw", "misnamed"),
            ("s_\u{fffd}.raw", "not_unicode"),
            ("s_5.raw", "link_not_followed"),
            ("s_7.raw", "io"),
            ("deep/loop", "link_not_followed"),
            ("s_8.raw", "not_a_file"),
        ])
    );
    let names = |found: &isochrony_ingest::Catalogue| {
        found.iter().map(|file| file.path).collect::<Vec<_>>()
    };
    assert_eq!(names(&found), ["s_1.raw", "s_6.raw"]);
    let found = discover(root, &layout("{s}_{epoch}.raw"), &options(Symlinks::Follow)).unwrap();
    assert_eq!(names(&found), ["s_1.raw", "s_5.raw", "s_6.raw"]);
    let found = discover(root, &layout("{s}_{epoch}.raw"), &options(Symlinks::Refuse)).unwrap();
    assert_eq!(names(&found), ["s_1.raw"]);
}

#[cfg(unix)]
#[test]
fn link_cycles_end() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    write(folder.path(), "a/s_1.raw", 2);
    write(other.path(), "s_2.raw", 2);
    std::os::unix::fs::symlink(other.path(), folder.path().join("a/out")).unwrap();
    std::os::unix::fs::symlink(folder.path().join("a"), other.path().join("back")).unwrap();
    let options = DiscoverOptions {
        symlinks: Symlinks::Follow,
        ..DiscoverOptions::default()
    };
    let found = discover(folder.path(), &layout("{d}/out/{s}_{epoch}.raw"), &options).unwrap();
    assert_eq!(found.len(), 1);
    assert!(
        found
            .problems()
            .list
            .iter()
            .any(|problem| problem.code == "link_not_followed")
    );
}

#[test]
fn an_excluded_folder_is_skipped_silently() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "water.iso/zarr.json", 2);
    write(folder.path(), "s_1.raw", 2);
    let options = DiscoverOptions {
        leave_out: Some(folder.path().join("water.iso")),
        ..DiscoverOptions::default()
    };
    let found = discover(folder.path(), &layout("{s}_{epoch}.raw"), &options).unwrap();
    assert_eq!((found.len(), found.problems().len()), (1, 0));
}

#[test]
fn a_missing_folder_a_file_and_a_cancelled_walk_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "s_1.raw", 2);
    let layout = layout("{s}_{epoch}.raw");
    let mut options = DiscoverOptions::default();
    let code = |path: &str, options: &_| {
        discover(&folder.path().join(path), &layout, options)
            .unwrap_err()
            .code()
    };
    assert_eq!(code("nothing", &options), "io");
    assert_eq!(code("s_1.raw", &options), "not_a_folder");
    options.interrupt = Interrupt::default();
    options.interrupt.request();
    assert_eq!(code("", &options), "cancelled");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn the_catalogue_is_what_was_written_in_order(files in prop::collection::btree_map(("[ab]", 0_u32..500), 1_usize..9, 0..30)) {
        let folder = tempfile::tempdir().unwrap();
        for ((station, epoch), size) in files.iter().rev() {
            write(folder.path(), &format!("{station}/{}/{station}_{epoch}.raw", epoch % 7), *size);
        }
        let found = discover(folder.path(), &layout("{s}/*/{s}_{epoch}.raw"), &DiscoverOptions::default()).unwrap();
        let got: Vec<_> = found
            .iter()
            .map(|file| ((file.signal.to_owned(), (file.stamp.unwrap().ns / 1_000_000_000) as u32), file.size as usize))
            .collect();
        prop_assert_eq!(got, files.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn a_store_among_recordings_is_no_recording() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a_1.raw", 2);
    write(folder.path(), "old.iso/.isochrony/MANIFEST", 9);
    write(folder.path(), "old.iso/stn/data/c/0", 9);
    let found = discover(
        folder.path(),
        &layout("{station}_{epoch}.raw"),
        &DiscoverOptions::default(),
    )
    .unwrap();
    assert_eq!(found.len(), 1);
    assert!(found.problems().is_empty(), "{:?}", found.problems());
}
