//! Verification reports something else in place of any file.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Store};
use isochrony_time::Rate;

use super::{CloseCommitted, DEEP, Finding, verify};

fn store_at(path: &Path) {
    let store = Store::open(path, Mode::Create).expect("created");
    for name in ["plain", "sealed"] {
        let options = CreateOptions::new(DType::I16, Rate::from_hz(100).expect("a rate"));
        let writer = store.create(name, &options).expect("a signal");
        let samples: Vec<i16> = (0..150_000).map(|x| (x % 30_011) as i16).collect();
        writer.append(&samples).expect("appended");
        writer.append_gap(100).expect("a gap");
        writer.append(&samples[..500]).expect("appended");
        let fields = serde_json::Map::new();
        writer.add_event("note", 5..9, &fields).expect("noted");
    }
    store.commit(true).expect("committed");
    store
        .seal("sealed", "zstd:3".parse().expect("a codec"))
        .expect("sealed");
    store.close_committed();
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => files(&path, found),
            false => found.push(path),
        }
    }
}

/// Each file is outside the store meanwhile.
fn each_is_found(replace: impl Fn(&Path, &Path)) {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, moved) = (folder.path().join("a.iso"), folder.path().join("moved"));
    store_at(&path);
    let mut all = Vec::new();
    files(&path, &mut all);
    let mut missed = Vec::new();
    for file in &all {
        // Only the lock's holder matters.
        if file.ends_with("LOCK") {
            continue;
        }
        fs::rename(file, &moved).expect("moved");
        replace(&moved, file);
        match verify(&path, &DEEP) {
            Ok(report) if report.is_clean() => missed.push(file.clone()),
            _ => {}
        }
        match fs::symlink_metadata(file).expect("there").is_dir() {
            true => fs::remove_dir(file).expect("removed"),
            false => fs::remove_file(file).expect("removed"),
        }
        fs::rename(&moved, file).expect("moved back");
    }
    assert!(all.len() > 30);
    assert_eq!(missed, [] as [PathBuf; 0]);
    let found: Vec<Finding> = verify(&path, &DEEP).expect("verified").findings;
    assert_eq!(found, []);
}

#[test]
fn a_link_in_the_place_of_any_file_is_found() {
    each_is_found(|moved, file| symlink(moved, file).expect("linked"));
}

#[test]
fn a_folder_in_the_place_of_any_file_is_found() {
    each_is_found(|_, file| fs::create_dir(file).expect("made"));
}

#[test]
fn a_pipe_in_the_place_of_a_shard_is_an_unexpected_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.iso");
    store_at(&path);
    for file in ["plain/data/c/0", "plain/crc/c/0"] {
        let (file, moved) = (path.join(file), folder.path().join("moved"));
        fs::rename(&file, &moved).expect("moved");
        let made = std::process::Command::new("mkfifo").arg(&file).status();
        assert!(made.expect("mkfifo").success());
        let report = verify(&path, &DEEP).expect("verified");
        let codes: Vec<_> = report.findings.iter().map(|found| found.code).collect();
        assert!(codes.contains(&"unexpected_file"), "{report:#?}");
        assert!(!codes.contains(&"io"), "{report:#?}");
        fs::remove_file(&file).expect("removed");
        fs::rename(&moved, &file).expect("moved back");
    }
}

#[test]
fn checksums_behind_a_link_hide_no_flipped_bit_of_another_signal() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.iso");
    store_at(&path);
    let (sums, moved) = (path.join("plain/crc/c/0"), folder.path().join("moved"));
    fs::rename(&sums, &moved).expect("moved");
    symlink(&moved, &sums).expect("linked");
    let report = verify(&path, &DEEP).expect("verified");
    let [finding] = report.findings.as_slice() else {
        panic!("{report:#?}")
    };
    assert_eq!(finding.code, "unexpected_file");
    assert_eq!(finding.path, sums);
    assert_eq!(finding.range, Some(0..131_072));
    assert!(report.unchecked >= 131_072, "{report:#?}");
}

#[test]
fn reports_damage_despite_a_link_that_looks_like_another_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.iso");
    store_at(&path);
    fs::create_dir(path.join("h")).expect("made");
    symlink("/tmp", path.join("h/.isochrony")).expect("linked");
    fs::remove_file(path.join("plain/data/c/0")).expect("removed");
    let report = verify(&path, &DEEP).expect("verified");
    let codes: Vec<_> = report.findings.iter().map(|found| found.code).collect();
    assert!(codes.contains(&"missing_shard"), "{report:#?}");
    assert!(codes.contains(&"unexpected_file"), "{report:#?}");
}
