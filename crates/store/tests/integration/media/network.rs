//! Stores on network file systems: read without mappings, never written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::medium::Medium;
use isochrony_segment::{BufferKind, DType};
use isochrony_store::{CreateOptions, Mode, Store};
use isochrony_time::Rate;

/// In two shards, with a gap.
const COUNT: i64 = 9_000_000;

fn sample(index: i64) -> i16 {
    (index * 7 % 30_011) as i16
}

fn written() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("water.iso");
    let store = Store::open(&path, Mode::Create).unwrap();
    let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    let writer = store.create("n/s", &options).unwrap();
    let samples: Vec<i16> = (0..COUNT).map(sample).collect();
    writer.append(&samples).unwrap();
    writer.append_gap(50).unwrap();
    writer.append(&[1i16, 2, 3]).unwrap();
    store.commit(true).unwrap();
    store.close().unwrap();
    (folder, path)
}

fn on(network: Option<&'static str>, path: &Path, mode: Mode) -> Store {
    let medium = Arc::new(Medium::on_network(network));
    Store::open_on(path, mode, medium).unwrap()
}

/// Samples, and whether any are mapped.
fn read(store: &Store, start: i64, end: i64) -> (Vec<i16>, bool) {
    let selection = store.signal("n/s").unwrap().select(start..end).unwrap();
    let (mut samples, mut mapped) = (Vec::new(), false);
    for segment in selection.segments() {
        let segment = segment.unwrap();
        mapped |= segment
            .buffers()
            .any(|buffer| buffer.kind() == BufferKind::Mapped);
        samples.extend(segment.to_vec::<i16>().unwrap());
    }
    (samples, mapped)
}

#[test]
fn reads_network_file_systems_without_mappings() {
    let (_folder, path) = written();
    let (near, far) = (
        on(None, &path, Mode::Read),
        on(Some("NFS"), &path, Mode::Read),
    );
    let expected: Vec<i16> = (0..COUNT).map(sample).chain([1, 2, 3]).collect();
    assert_eq!(read(&near, 0, COUNT + 53), (expected.clone(), true));
    assert_eq!(read(&far, 0, COUNT + 53), (expected, false));
    let few = COUNT - 5..COUNT + 52;
    let ends: Vec<i16> = (COUNT - 5..COUNT).map(sample).chain([1, 2]).collect();
    assert_eq!(read(&far, few.start, few.end), (ends, false));
    let signal = far.signal("n/s").unwrap();
    assert_eq!(signal.gaps().iter().count(), 1);
    let report = far
        .verify(&isochrony_store::VerifyOptions::default())
        .unwrap();
    assert!(report.is_clean(), "{report:#?}");
    // It follows a writer for which the store is local.
    let writing = on(None, &path, Mode::ReadWrite);
    writing
        .writer("n/s")
        .unwrap()
        .append(&[9i16; 40_000])
        .unwrap();
    writing.commit(true).unwrap();
    assert!(far.refresh().unwrap());
    assert_eq!(
        read(&far, COUNT + 53, COUNT + 40_053),
        (vec![9; 40_000], false)
    );
}

#[test]
fn refuses_to_write_on_a_network_file_system() {
    let (folder, path) = written();
    for mode in [Mode::ReadWrite, Mode::Append] {
        assert_refused(&path, mode);
    }
    on(None, &path, Mode::ReadWrite).close().unwrap();
    for mode in [Mode::Create, Mode::Append] {
        let new = folder.path().join("far/new.iso");
        assert_refused(&new, mode);
        assert!(!folder.path().join("far").exists());
    }
}

fn assert_refused(path: &Path, mode: Mode) {
    let medium = Arc::new(Medium::on_network(Some("NFS")));
    let error = Store::open_on(path, mode, medium).err().unwrap();
    assert_eq!(error.code(), "network_file_system", "{error}");
    assert!(error.to_string().contains("NFS"), "{error}");
}
