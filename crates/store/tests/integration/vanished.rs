//! A store's folder vanishes while open, as by unmounting: every call that needs its files reports that, none reports
//! damage or creates anything there, and everything committed is there when it returns.

use std::fs;
use std::path::{Path, PathBuf};

use isochrony_segment::DType;
use isochrony_store::{Codec, CreateOptions, Mode, Store, StoreError, VerifyOptions};
use isochrony_time::Rate;

const DEEP: VerifyOptions = VerifyOptions {
    signals: None,
    deep: true,
};

struct Case {
    folder: tempfile::TempDir,
    path: PathBuf,
    away: PathBuf,
    samples: Vec<i16>,
}

fn options() -> CreateOptions {
    CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap())
}

fn case() -> Case {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("here/gone.iso");
    fs::create_dir(folder.path().join("here")).unwrap();
    let store = Store::open(&path, Mode::Create).unwrap();
    let samples: Vec<i16> = (0..40_000).map(|x| (x % 20_011) as i16).collect();
    for name in ["a", "b"] {
        let writer = store.create(name, &options()).unwrap();
        writer.append(&samples).unwrap();
        writer.append_gap(100).unwrap();
        writer.append(&samples[..5]).unwrap();
    }
    store.commit(true).unwrap();
    store.close().unwrap();
    Case {
        away: folder.path().join("away"),
        folder,
        path,
        samples,
    }
}

impl Case {
    fn vanish(&self) {
        fs::rename(&self.path, &self.away).unwrap();
    }

    /// The folder must be empty.
    fn come_back(&self) {
        assert!(
            !self.path.exists(),
            "something was made where the store was"
        );
        fs::rename(&self.away, &self.path).unwrap();
    }

    fn assert_whole(&self) {
        let report = isochrony_store::verify(&self.path, &DEEP).unwrap();
        assert!(report.is_clean(), "{report:#?}");
        let store = Store::open(&self.path, Mode::Read).unwrap();
        for name in ["a", "b"] {
            let signal = store.signal(name).unwrap();
            let values = signal.select(0..40_000).unwrap();
            let values = values.as_segment().unwrap().to_vec::<i16>().unwrap();
            assert_eq!(values, self.samples);
            assert_eq!(signal.end_index(), 40_105);
        }
    }
}

fn read(store: &Store, name: &str) -> Result<Vec<i16>, StoreError> {
    let signal = store.signal(name)?;
    let segment = signal.select(0..40_000)?.as_segment()?;
    Ok(segment.to_vec()?)
}

fn assert_vanished<T>(what: &str, path: &Path, result: Result<T, StoreError>) {
    let error = result.err().unwrap_or_else(|| panic!("{what} went well"));
    let text = error.to_string();
    assert_eq!(error.code(), "store_vanished", "{what}: {text}");
    assert!(text.contains(&*path.to_string_lossy()), "{text}");
    assert!(!text.contains("--repair"), "{what}: {text}");
}

#[test]
fn a_writer_whose_store_vanished_says_so_and_changes_nothing() {
    let case = case();
    let store = Store::open(&case.path, Mode::ReadWrite).unwrap();
    let writer = store.writer("a").unwrap();
    case.vanish();
    let says = |what: &str, result: Result<(), StoreError>| {
        assert_vanished(what, &case.path, result);
    };
    says("reading", read(&store, "b").map(drop));
    // They wait in memory for a commit, which fails.
    let appended = writer.append(&[1i16, 2, 3]);
    if let Err(error) = appended {
        assert_eq!(error.code(), "store_vanished", "{error}");
    }
    let much = vec![7i16; 10_000_000];
    says("appending much", writer.append(&much).map(drop));
    says("writing", writer.write(5, &[1i16]));
    says("creating", store.create("c", &options()).map(drop));
    says("renaming", store.rename("a", "d"));
    says("removing", store.remove("a"));
    says("a scratch signal", store.scratch(&options()).map(drop));
    says(
        "sealing",
        store.seal("a", Codec::Zstd { level: 3 }).map(drop),
    );
    says("committing", store.commit(true).map(drop));
    says("a checkpoint", store.checkpoint());
    says("verifying", store.verify(&DEEP).map(drop));
    says("repairing", store.repair(&DEEP).map(drop));
    let _ = store.close();
    drop((writer, store));
    case.come_back();
    case.assert_whole();
}

#[test]
fn commits_pending_changes_once_the_store_is_back() {
    let case = case();
    let store = Store::open(&case.path, Mode::ReadWrite).unwrap();
    store.writer("a").unwrap().append(&[1i16, 2, 3]).unwrap();
    case.vanish();
    assert_vanished("committing", &case.path, store.commit(true));
    case.come_back();
    store.commit(true).unwrap();
    store.close().unwrap();
    let store = Store::open(&case.path, Mode::Read).unwrap();
    assert_eq!(store.signal("a").unwrap().end_index(), 40_108);
    case.assert_tail(&store);
}

#[test]
fn a_reader_whose_store_vanished_says_so() {
    let case = case();
    let store = Store::open(&case.path, Mode::Read).unwrap();
    let before = read(&store, "a").unwrap();
    case.vanish();
    assert_eq!(read(&store, "a").unwrap(), before);
    assert_vanished("reading", &case.path, read(&store, "b"));
    assert_vanished("looking for news", &case.path, store.refresh());
    assert_vanished("verifying", &case.path, store.verify(&DEEP));
    case.come_back();
    assert_eq!(read(&store, "b").unwrap(), case.samples);
    case.assert_whole();
}

#[test]
fn another_store_in_its_place_is_told_apart() {
    let case = case();
    let store = Store::open(&case.path, Mode::Read).unwrap();
    case.vanish();
    let other = Store::open(&case.path, Mode::Create).unwrap();
    other.close().unwrap();
    let error = read(&store, "b").unwrap_err();
    assert_eq!(error.code(), "store_vanished", "{error}");
    assert!(error.to_string().contains("another store"), "{error}");
}

impl Case {
    fn assert_tail(&self, store: &Store) {
        let tail = store.signal("a").unwrap().select(40_105..40_108).unwrap();
        let tail = tail.as_segment().unwrap().to_vec::<i16>().unwrap();
        assert_eq!(tail, [1, 2, 3]);
        assert!(self.folder.path().exists());
    }
}

#[test]
fn rejects_a_store_inside_a_store() {
    let case = case();
    for inside in ["c", "c/d.iso", "a/x"] {
        let path = case.path.join(inside);
        for mode in [Mode::Create, Mode::Append] {
            let error = Store::open(&path, mode).err().unwrap();
            assert_eq!(error.code(), "store_inside_store", "{error}");
            assert!(
                error.to_string().contains("gone.iso;") || error.to_string().contains("gone.iso,"),
                "{error}"
            );
        }
        assert!(!path.exists(), "{inside} was made");
    }
    // A scratch signal's store may be within the store, no other.
    let store = Store::open(&case.path, Mode::ReadWrite).unwrap();
    store.scratch(&options()).unwrap().append(&[1i16]).unwrap();
    store.close().unwrap();
    case.assert_whole();
    let other = Store::open(case.folder.path().join("other.iso"), Mode::Create).unwrap();
    other.close().unwrap();
    let nested = case.path.join("nested");
    fs::rename(case.folder.path().join("other.iso"), &nested).unwrap();
    let report = isochrony_store::verify(&case.path, &DEEP).unwrap();
    assert_eq!(report.findings.len(), 1, "{report:#?}");
    let finding = &report.findings[0];
    assert_eq!((finding.code, &finding.path), ("nested_store", &nested));
}
