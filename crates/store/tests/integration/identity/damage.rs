//! A missing, foreign or outdated file is an error wherever it should have samples.

use std::fs;
use std::path::PathBuf;

use isochrony_store::{Mode, Store, VerifyOptions, verify};

use super::{on_disk, options, read, samples};

fn two_signals(sealed: bool) -> (tempfile::TempDir, PathBuf) {
    let (folder, store) = on_disk();
    for (name, made) in [("x", 1), ("y", 2)] {
        let writer = store.create(name, &options(made)).unwrap();
        writer.append(&samples(made, 3000)).unwrap();
        store.commit(true).unwrap();
        if sealed {
            store.seal(name, "zstd:1".parse().unwrap()).unwrap();
        }
    }
    store.close().unwrap();
    let path = store.path().to_path_buf();
    (folder, path)
}

fn code_of(path: &PathBuf, mode: Mode) -> &'static str {
    let store = Store::open(path, mode).unwrap();
    let error = read(&store.signal("x").unwrap()).unwrap_err();
    assert_eq!(read(&store.signal("y").unwrap()).unwrap(), samples(2, 3000));
    error.code()
}

/// Shallow and deep verification must agree, with one finding per file.
pub(super) fn findings(path: &PathBuf) -> Vec<(&'static str, PathBuf)> {
    let look = |deep| {
        let signals = None;
        let report = verify(path, &VerifyOptions { signals, deep }).unwrap();
        let named = report.findings.into_iter();
        let named = named.filter(|finding| finding.signal.as_deref() == Some("x"));
        let named = named.map(|finding| (finding.code, finding.path));
        named.collect::<Vec<_>>()
    };
    let quick = look(false);
    assert_eq!(quick, look(true));
    quick
}

#[test]
fn a_missing_shard_is_an_error_and_never_zeros() {
    for sealed in [false, true] {
        for mode in [Mode::Read, Mode::ReadWrite] {
            let (_folder, path) = two_signals(sealed);
            fs::remove_file(path.join("x/data/c/0")).unwrap();
            assert_eq!(code_of(&path, mode), "missing_samples", "sealed: {sealed}");
        }
    }
}

#[test]
fn a_shard_of_another_signal_is_an_error() {
    for sealed in [false, true] {
        for mode in [Mode::Read, Mode::ReadWrite] {
            let (_folder, path) = two_signals(sealed);
            fs::copy(path.join("y/data/c/0"), path.join("x/data/c/0")).unwrap();
            assert_eq!(code_of(&path, mode), "wrong_shard", "sealed: {sealed}");
            assert_eq!(findings(&path), [("wrong_shard", path.join("x/data/c/0"))]);
        }
    }
}

#[test]
fn a_shard_of_the_same_signal_in_another_store_is_an_error() {
    let (_folder, path) = two_signals(false);
    let (_other_folder, other) = two_signals(false);
    for mode in [Mode::Read, Mode::ReadWrite] {
        fs::copy(other.join("x/data/c/0"), path.join("x/data/c/0")).unwrap();
        assert_eq!(code_of(&path, mode), "wrong_shard");
    }
}

#[test]
fn another_signals_array_is_an_error_also_if_its_metadata_came_with_it() {
    let (_folder, path) = two_signals(true);
    fs::copy(path.join("y/data/c/0"), path.join("x/data/c/0")).unwrap();
    fs::copy(path.join("y/data/zarr.json"), path.join("x/data/zarr.json")).unwrap();
    assert_eq!(code_of(&path, Mode::Read), "wrong_shard");
}

#[test]
fn an_older_version_of_a_shard_is_an_error() {
    let (folder, path) = two_signals(false);
    let shard = path.join("x/data/c/0");
    let old = folder.path().join("old");
    fs::copy(&shard, &old).unwrap();
    let store = Store::open(&path, Mode::ReadWrite).unwrap();
    let writer = store.writer("x").unwrap();
    writer.write(5, &samples(3, 5)).unwrap();
    store.commit(true).unwrap();
    store.close().unwrap();
    fs::copy(&old, &shard).unwrap();
    for mode in [Mode::Read, Mode::ReadWrite] {
        assert_eq!(code_of(&path, mode), "wrong_shard");
    }
    assert_eq!(findings(&path), [("wrong_shard", shard.clone())]);
    let store = Store::open(&path, Mode::ReadWrite).unwrap();
    let refused = store
        .writer("x")
        .unwrap()
        .append(&samples(3, 5))
        .unwrap_err();
    assert_eq!(refused.code(), "wrong_shard");
}

#[test]
fn shards_of_earlier_versions_which_say_nothing_are_read_and_written() {
    let (_folder, path) = two_signals(false);
    let shard = path.join("x/data/c/0");
    let mut bytes = fs::read(&shard).unwrap();
    // In earlier versions: index, zeros, payload.
    let flat_index = bytes[..4096]
        .windows(8)
        .position(|at| at == b"ISOSHARD")
        .unwrap();
    bytes[flat_index..flat_index + 64].fill(0);
    fs::write(&shard, bytes).unwrap();
    for mode in [Mode::Read, Mode::ReadWrite] {
        let store = Store::open(&path, mode).unwrap();
        assert_eq!(read(&store.signal("x").unwrap()).unwrap(), samples(1, 3000));
    }
    let store = Store::open(&path, Mode::ReadWrite).unwrap();
    let writer = store.writer("x").unwrap();
    writer.append(&samples(3, 5)).unwrap();
    store.commit(true).unwrap();
    let found = read(&Store::open(&path, Mode::Read).unwrap().signal("x").unwrap()).unwrap();
    assert_eq!(found[..3000], samples(1, 3000));
    assert_eq!(found[3000..], samples(3, 5));
}
