//! Verification of stores left unfinished, or opened meanwhile.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::medium::Medium;
use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Report, Store, VerifyOptions, repair_on};
use isochrony_time::Rate;

fn ramp(count: usize) -> Vec<i16> {
    (0..count).map(|number| (number % 9973) as i16).collect()
}

/// Beside an active writer, the copy is as after its kill.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let from = entry.unwrap().path();
        let to = to.join(from.file_name().unwrap());
        match from.is_dir() {
            true => copy(&from, &to),
            false => _ = fs::copy(&from, &to).unwrap(),
        }
    }
}

fn create(path: &Path, medium: &Arc<Medium>, samples: usize) -> Store {
    let store = Store::open_on(path, Mode::Create, medium.clone()).unwrap();
    let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    let writer = store.create("x", &options).unwrap();
    writer.append(&ramp(samples)).unwrap();
    store.commit(true).unwrap();
    store
}

fn verify(path: &Path, medium: &Arc<Medium>) -> Report {
    let store = Store::open_on(path, Mode::Read, medium.clone()).unwrap();
    let deep = VerifyOptions {
        deep: true,
        ..VerifyOptions::default()
    };
    store.verify(&deep).unwrap()
}

#[test]
fn a_publication_after_the_log_was_read_is_not_a_lost_commit() {
    let folder = tempfile::tempdir().unwrap();
    let (path, killed) = (folder.path().join("a.iso"), folder.path().join("b.iso"));
    let medium = Arc::new(Medium::new());
    let store = create(&path, &medium, 500);
    copy(&path, &killed);
    drop(store);
    let writer = Arc::new(Medium::new());
    let reader = Arc::new(Medium::new());
    // Compared with the log after that was read.
    let path = killed.clone();
    let opened = Store::open_on(&killed, Mode::Read, reader.clone()).unwrap();
    reader.before_open("data/zarr.json", move || {
        let store = Store::open_on(&path, Mode::ReadWrite, writer).unwrap();
        let signal = store.writer("x").unwrap();
        signal.append(&ramp(100_000)).unwrap();
        store.commit(true).unwrap();
        std::mem::forget(store);
    });
    let report = opened.verify(&VerifyOptions::default()).unwrap();
    assert_eq!(report.findings, []);
}

#[test]
fn a_replacement_that_waits_for_the_next_writer_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let (path, killed) = (folder.path().join("a.iso"), folder.path().join("b.iso"));
    let medium = Arc::new(Medium::new());
    let store = create(&path, &medium, 200_000);
    medium.refuse_replacements();
    store
        .writer("x")
        .unwrap()
        .write(70_000, &[-5i16; 10])
        .unwrap();
    // The record is durable, and the file stays in `tmp/`.
    store.commit(true).unwrap_err();
    copy(&path, &killed);
    let medium = Arc::new(Medium::new());
    assert_eq!(verify(&killed, &medium).findings, []);
    let tmp = fs::read_dir(killed.join(".isochrony/tmp")).unwrap();
    let tmp: Vec<_> = tmp.map(|entry| entry.unwrap().path()).collect();
    let replacement = tmp.iter().find(|path| path.is_file()).unwrap();
    let file = fs::OpenOptions::new()
        .write(true)
        .open(replacement)
        .unwrap();
    file.write_all_at(&[0xAA; 4], 4096 + 2 * 100_000).unwrap();
    let report = verify(&killed, &medium);
    let codes: Vec<_> = report.findings.iter().map(|found| found.code).collect();
    assert_eq!(codes, ["flipped_bits"], "{report:#?}");
}

#[test]
fn a_root_that_a_bad_sector_hides_is_an_error_and_is_never_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iso");
    let medium = Arc::new(Medium::new());
    let store = create(&path, &medium, 500);
    let mut attributes = serde_json::Map::new();
    attributes.insert("operator".into(), "city water works".into());
    store.set_attributes(&attributes).unwrap();
    store.close().unwrap();
    let killed = folder.path().join("killed.iso");
    let store = Store::open_on(&path, Mode::ReadWrite, medium.clone()).unwrap();
    store.writer("x").unwrap().append(&ramp(10)).unwrap();
    store.commit(true).unwrap();
    copy(&path, &killed);
    store.close().unwrap();
    for path in [path, killed] {
        let root = path.join("zarr.json");
        let before = fs::read(&root).unwrap();
        medium.set_unreadable(Some(root.clone()));
        let store = Store::open_on(&path, Mode::ReadWrite, medium.clone()).unwrap();
        assert_eq!(store.attributes().unwrap_err().code(), "io");
        let refused = store.set_attributes(&serde_json::Map::new());
        assert_eq!(refused.unwrap_err().code(), "io");
        store.writer("x").unwrap().append(&ramp(10)).unwrap();
        store.commit(true).unwrap();
        store.close().unwrap();
        let report = verify(&path, &medium);
        let [finding] = report.findings.as_slice() else {
            panic!("{report:#?}")
        };
        assert_eq!(finding.path, root);
        assert!(!finding.repairable, "{finding:#?}");
        let (_, left) = repair_on(&path, &VerifyOptions::default(), medium.clone()).unwrap();
        assert_eq!((left.findings.len(), left.lost.len()), (1, 0), "{left:#?}");
        medium.set_unreadable(None);
        assert_eq!(fs::read(&root).unwrap(), before);
        assert_eq!(verify(&path, &medium).findings, []);
        let store = Store::open_on(&path, Mode::Read, medium.clone()).unwrap();
        assert_eq!(store.attributes().unwrap(), attributes);
    }
}

#[test]
fn a_damaged_root_that_an_earlier_repair_kept_is_never_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iso");
    let medium = Arc::new(Medium::new());
    create(&path, &medium, 500).close().unwrap();
    let (root, kept) = (
        path.join("zarr.json"),
        path.join(".isochrony/zarr.json.damaged"),
    );
    let repair = || repair_on(&path, &VerifyOptions::default(), medium.clone());
    fs::write(&root, "{ first").unwrap();
    repair().unwrap();
    fs::write(&root, "{ second").unwrap();
    medium.set_unseen(Some(kept.clone()));
    assert_eq!(repair().unwrap_err().code(), "io");
    medium.set_unseen(None);
    assert_eq!(fs::read(&kept).unwrap(), b"{ first");
    assert_eq!(fs::read(&root).unwrap(), b"{ second");
    let (_, after) = repair().unwrap();
    let lost: Vec<&str> = after.lost.iter().map(|loss| &*loss.reason).collect();
    assert_eq!((after.findings, lost), (vec![], vec!["damaged_metadata"]));
    assert_eq!(fs::read(&kept).unwrap(), b"{ first");
    assert_eq!(
        fs::read(kept.with_extension("damaged.1")).unwrap(),
        b"{ second"
    );
}
