//! A damaged or lost MANIFEST is reported, and rebuilt from an unambiguous redo log.

use std::fs;
use std::path::{Path, PathBuf};

use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Store, VerifyOptions, repair, verify};
use isochrony_time::Rate;

const DEEP: VerifyOptions = VerifyOptions {
    signals: None,
    deep: true,
};

/// Closed, or copied while commits were only in the log.
fn store(folder: &Path, closed: bool) -> PathBuf {
    let path = folder.join("a.iso");
    let store = Store::open(&path, Mode::Create).unwrap();
    let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    let writer = store.create("s", &options).unwrap();
    for _ in 0..2 {
        writer.append(&[1i16, 2, 3, 4, 5]).unwrap();
        store.commit(true).unwrap();
    }
    if closed {
        store.close().unwrap();
        return path;
    }
    let copy = folder.join("copy.iso");
    copy_folder(&path, &copy);
    copy
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn manifest(path: &Path) -> PathBuf {
    path.join(".isochrony/MANIFEST")
}

fn log(path: &Path) -> (PathBuf, u64) {
    let names = fs::read_dir(path.join(".isochrony")).unwrap();
    let generation = names.filter_map(|entry| {
        let name = entry.unwrap().file_name();
        name.to_str()?.strip_prefix("log.")?.parse().ok()
    });
    let generation: u64 = generation.max().unwrap();
    let log = path.join(format!(".isochrony/log.{generation}"));
    (log, generation)
}

fn assert_whole(path: &Path) {
    let report = verify(path, &DEEP).unwrap();
    assert!(report.is_clean(), "{report:#?}");
    let store = Store::open(path, Mode::Read).unwrap();
    let values = store.signal("s").unwrap().select(0..10).unwrap();
    let values = values.as_segment().unwrap().to_vec::<i16>().unwrap();
    assert_eq!(values, [1, 2, 3, 4, 5, 1, 2, 3, 4, 5]);
}

fn damage(path: &Path, how: &str) {
    let file = manifest(path);
    match how {
        "removed" => fs::remove_file(file).unwrap(),
        "empty" => fs::write(file, "").unwrap(),
        _ => {
            let mut bytes = fs::read(&file).unwrap();
            bytes[12] ^= 1;
            fs::write(file, bytes).unwrap();
        }
    }
}

#[test]
fn a_manifest_is_rebuilt_from_the_redo_log() {
    for closed in [true, false] {
        for how in ["removed", "empty", "flipped"] {
            let folder = tempfile::tempdir().unwrap();
            let path = store(folder.path(), closed);
            let before = fs::read(manifest(&path)).unwrap();
            damage(&path, how);
            let report = verify(&path, &DEEP).unwrap();
            assert_eq!(report.findings.len(), 1, "{report:#?}");
            let finding = &report.findings[0];
            assert_eq!(finding.code, "damaged_manifest");
            assert_eq!(finding.path, manifest(&path));
            assert!(finding.repairable && finding.mend.contains("--repair"));

            let (found, left) = repair(&path, &DEEP).unwrap();
            assert_eq!(found.findings[0].code, "damaged_manifest");
            assert!(left.is_clean(), "{how}: {left:#?}");
            assert_whole(&path);
            let uuid = |bytes: &[u8]| String::from_utf8_lossy(bytes)[..60].to_owned();
            assert_eq!(uuid(&fs::read(manifest(&path)).unwrap()), uuid(&before));
        }
    }
}

#[test]
fn the_growing_one_of_two_logs_is_live() {
    let folder = tempfile::tempdir().unwrap();
    let path = store(folder.path(), false);
    let (old, generation) = log(&path);
    let commits = fs::read(&old).unwrap();
    // A crash may leave the log before the checkpoint too.
    Store::open(&path, Mode::ReadWrite)
        .unwrap()
        .close()
        .unwrap();
    let (_, next) = log(&path);
    assert!(next > generation);
    fs::write(&old, &commits).unwrap();
    damage(&path, "flipped");
    let (_, left) = repair(&path, &DEEP).unwrap();
    assert!(left.is_clean(), "{left:#?}");
    assert_whole(&path);
}

#[test]
fn ambiguous_logs_are_not_guessed() {
    let folder = tempfile::tempdir().unwrap();
    let path = store(folder.path(), true);
    let (log, _) = log(&path);
    let mut bytes = fs::read(&log).unwrap();
    bytes[24] ^= 1;
    fs::write(&log, &bytes).unwrap();
    damage(&path, "flipped");
    let broken = fs::read(manifest(&path)).unwrap();
    let (found, left) = repair(&path, &DEEP).unwrap();
    assert_eq!(found, left);
    assert_eq!(left.findings.len(), 1);
    assert!(!left.findings[0].repairable);
    assert!(left.findings[0].mend.contains("copy"), "{left:#?}");
    assert_eq!(fs::read(manifest(&path)).unwrap(), broken);
}

#[test]
fn a_damaged_table_is_reported_with_the_way_to_mend_it_also_by_repair() {
    let folder = tempfile::tempdir().unwrap();
    let path = store(folder.path(), true);
    let growing = Store::open(&path, Mode::ReadWrite).unwrap();
    // 1 MiB: tables of shorter signals have no files.
    growing
        .writer("s")
        .unwrap()
        .append(&vec![7i16; 1 << 19])
        .unwrap();
    growing.commit(true).unwrap();
    growing.close().unwrap();
    let table = path.join("s/runs/c/0/0");
    assert!(table.exists());
    let mut bytes = fs::read(&table).unwrap();
    let at = bytes.len() / 2;
    bytes[at..].fill(0xa5);
    bytes[..at].fill(0x5a);
    fs::write(&table, bytes).unwrap();
    let found = verify(&path, &DEEP).unwrap();
    let (_, left) = repair(&path, &DEEP).unwrap();
    for report in [found, left] {
        let finding = &report.findings[0];
        assert!(!finding.repairable);
        assert!(
            finding.mend.contains("restore") && finding.mend.contains("copy"),
            "{finding:?}"
        );
        assert!(finding.path.starts_with(path.join("s")), "{finding:?}");
        assert!(
            !finding.what.contains("run `isochrony verify --repair`"),
            "{finding:?}"
        );
    }
}

#[test]
fn a_folder_without_logs_is_not_a_store() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(
        verify(folder.path(), &DEEP).unwrap_err().code(),
        "not_a_store"
    );
    assert_eq!(
        repair(folder.path(), &DEEP).unwrap_err().code(),
        "not_a_store"
    );
}
