//! What opening, inspecting and closing change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use isochrony_cache::{Cache, CacheOptions, PinnedObject};

use crate::common::{PIECE, check_folder, fetch, key, object_files, options, read};

const QUOTA: u64 = 32 * PIECE;

fn filled(folder: &Path) -> (Cache, PinnedObject) {
    let cache = Cache::open(folder, options(QUOTA)).expect("a cache");
    let object = cache.pin(&key(1), 4 * PIECE).expect("pinned");
    fetch(&object, 1, 0..4 * PIECE).expect("fetched");
    (cache, object)
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("created");
    std::fs::write(path, text).expect("written");
}

/// Folders have no content.
fn content(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => {
                found.extend(content(&path));
                found.insert(path, None);
            }
            false => {
                let bytes = std::fs::read(&path).expect("a file");
                found.insert(path, Some(bytes));
            }
        }
    }
    found
}

#[test]
fn foreign_folders_with_names_of_a_cache_are_refused_and_unchanged() {
    let object = format!("objects/ab/{}", "0".repeat(62));
    let cases: [&[&str]; 7] = [
        &["journal", &object],
        &["journal"],
        &[&object],
        &["journal", "lock", &object],
        &["journal", "owners/anna", &object],
        &["owners/anna"],
        &["journal/monday", "objects/chair"],
    ];
    for files in cases {
        let folder = tempfile::tempdir().expect("a folder");
        for file in files {
            write(&folder.path().join(file), "dear diary");
        }
        let before = content(folder.path());
        for opened in [
            Cache::open(folder.path(), options(QUOTA)),
            Cache::open_existing(folder.path()),
        ] {
            let error = opened.expect_err("refused");
            assert_eq!(error.code(), "not_a_cache", "{files:?}: {error}");
        }
        assert_eq!(content(folder.path()), before, "{files:?}");
    }
}

#[test]
fn a_damaged_cache_is_emptied_only_if_nothing_else_is_in_its_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(filled(folder.path()));
    write(&folder.path().join("journal"), "dear diary");
    write(&folder.path().join("notes"), "x");
    let before = content(folder.path());
    let error = Cache::open(folder.path(), options(QUOTA)).expect_err("refused");
    assert_eq!(error.code(), "not_a_cache");
    assert_eq!(content(folder.path()), before);
    std::fs::remove_file(folder.path().join("notes")).expect("removed");
    let scratch = folder.path().join("scratch/part");
    write(&scratch, "x");
    let cache = Cache::open(folder.path(), options(QUOTA)).expect("a cache");
    let info = cache.info().expect("info");
    assert_eq!((info.objects, info.resets), (0, 1));
    assert!(scratch.exists());
    assert_eq!(object_files(folder.path()), Vec::<PathBuf>::new());
}

#[test]
fn only_files_with_the_names_of_objects_are_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(filled(folder.path()));
    let others = [
        "objects/stray".to_owned(),
        "objects/ab/garbage".to_owned(),
        format!("objects/AB/{}", "0".repeat(62)),
        format!("objects/ab/{}", "A".repeat(62)),
        format!("objects/abc/{}", "0".repeat(61)),
        format!("objects/ab/cd/{}", "0".repeat(60)),
        "owners/none".to_owned(),
        "owners/1".to_owned(),
        "notes".to_owned(),
    ];
    for other in &others {
        write(&folder.path().join(other), "x");
    }
    let orphan = folder.path().join(format!("objects/ab/{}", "0".repeat(62)));
    write(&orphan, "x");
    let cache = Cache::open(folder.path(), options(QUOTA)).expect("a cache");
    assert!(!orphan.exists());
    let object = cache.pin(&key(1), 4 * PIECE).expect("pinned");
    assert!(read(&object, 1, 0..4 * PIECE).is_some());
    drop((object, cache));
    std::fs::remove_file(folder.path().join("notes")).expect("removed");
    std::fs::remove_file(folder.path().join("journal")).expect("removed");
    let cache = Cache::open(folder.path(), options(QUOTA)).expect("a cache");
    assert_eq!(cache.info().expect("info").objects, 0);
    for other in others.iter().filter(|other| *other != "notes") {
        assert!(folder.path().join(other).exists(), "{other}");
    }
}

#[test]
fn inspecting_a_damaged_cache_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(filled(folder.path()));
    let journal = folder.path().join("journal");
    let mut bytes = std::fs::read(&journal).expect("the journal");
    bytes[60] ^= 1;
    for damaged in [Some(bytes.as_slice()), Some(&b"dear diary"[..]), None] {
        match damaged {
            Some(bytes) => std::fs::write(&journal, bytes).expect("written"),
            None => std::fs::remove_file(&journal).expect("removed"),
        }
        let before = content(folder.path());
        let error = Cache::open_existing(folder.path()).expect_err("damaged");
        assert_eq!(error.code(), "damaged_journal", "{error}");
        assert_eq!(content(folder.path()), before);
    }
    let cache = Cache::open(folder.path(), options(QUOTA)).expect("a cache");
    assert_eq!(cache.info().expect("info").objects, 0);
}

#[test]
fn inspecting_a_cache_evicts_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (cache, object) = filled(folder.path());
    // Another process has a quota below what is pinned.
    let smaller = Cache::open(folder.path(), options(3 * PIECE)).expect("a cache");
    drop((object, cache, smaller));
    let look = Cache::open_existing(folder.path()).expect("a cache");
    let info = look.info().expect("info");
    assert_eq!((info.objects, info.present_bytes), (1, 4 * PIECE));
    drop(look);
    let smaller = Cache::open(folder.path(), options(3 * PIECE)).expect("a cache");
    assert_eq!(smaller.info().expect("info").objects, 0);
}

#[test]
fn each_handle_reports_its_own_options() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = Cache::open(folder.path(), options(QUOTA)).expect("a cache");
    let larger = CacheOptions {
        piece_bytes: 2 * PIECE,
        ..options(2 * QUOTA)
    };
    let second = Cache::open(folder.path(), larger).expect("a cache");
    let told = |cache: &Cache| {
        let info = cache.info().expect("info");
        (info.quota_bytes, info.piece_bytes)
    };
    assert_eq!(told(&first), (QUOTA, PIECE));
    assert_eq!(told(&second), (2 * QUOTA, 2 * PIECE));
    let object = first.pin(&key(0), 3 * PIECE).expect("pinned");
    assert_eq!(object.piece_bytes(), PIECE);
}

#[test]
fn handles_of_dead_processes_are_not_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Cache::open(folder.path(), options(QUOTA)).expect("a cache");
    let other = Cache::open(folder.path(), options(QUOTA)).expect("a cache");
    // Left by a killed process, and a foreign file.
    write(&folder.path().join("owners/0123456789abcdef"), "");
    write(&folder.path().join("owners/12"), "");
    assert_eq!(cache.info().expect("info").handles, 2);
    drop(other);
    assert_eq!(cache.info().expect("info").handles, 1);
}

#[test]
fn dropping_does_not_create_a_removed_folder_again() {
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = temporary.path().join("cache");
    let (cache, object) = filled(&folder);
    let large = cache.pin(&key(2), 8 * PIECE).expect("pinned");
    let reservation = large.reserve(0..4 * PIECE).expect("reserved");
    std::fs::remove_dir_all(&folder).expect("removed");
    drop((reservation, large, object));
    assert!(!folder.exists());
    drop(cache);
    assert!(!folder.exists());
    let (cache, object) = filled(&folder);
    std::fs::remove_dir_all(&folder).expect("removed");
    cache.pin(&key(2), PIECE).expect("pinned");
    drop((cache, object));
    check_folder(&folder, QUOTA, 0..3);
}
