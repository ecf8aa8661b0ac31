//! Readers after a restart of the machine with records in the log, whose samples the files may have lost. A reader that
//! may write recovers the store; another shows the last checkpoint.

use std::path::Path;
use std::sync::Arc;

use super::medium::Medium;
use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Store};
use isochrony_time::Rate;

fn in_boot(boot: &'static str, may_lock: bool, path: &Path, mode: Mode) -> Store {
    let medium = Arc::new(Medium::in_boot(boot, may_lock));
    Store::open_on(path, mode, medium).unwrap()
}

fn samples(store: &Store) -> Vec<i16> {
    let signal = store.signal("s").unwrap();
    let selection = signal.select(0..signal.end_index()).unwrap();
    let parts = selection
        .segments()
        .map(|part| part.unwrap().to_vec::<i16>().unwrap());
    parts.collect::<Vec<_>>().concat()
}

/// 1,000 samples at the last checkpoint and 500 more in the log.
fn writer(path: &Path) -> Store {
    let store = in_boot("one", true, path, Mode::Create);
    let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    let writer = store.create("s", &options).unwrap();
    writer.append(&[1i16; 1000]).unwrap();
    store.commit(true).unwrap();
    store.checkpoint().unwrap();
    writer.append(&[2i16; 500]).unwrap();
    store.commit(false).unwrap();
    store
}

#[test]
fn a_reader_that_may_not_recover_shows_the_last_checkpoint_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iso");
    let writing = writer(&path);
    let stale = in_boot("two", false, &path, Mode::Read);
    assert!(stale.is_stale());
    assert_eq!(samples(&stale), [1; 1000]);
    writing.writer("s").unwrap().append(&[3i16; 10]).unwrap();
    writing.commit(false).unwrap();
    assert!(!stale.refresh().unwrap());
    assert_eq!(samples(&stale), [1; 1000]);
    // In the writer's boot the log is valid.
    let live = in_boot("one", false, &path, Mode::Read);
    assert!(!live.is_stale());
    assert_eq!(samples(&live).len(), 1510);
    writing.close().unwrap();
    let after = in_boot("two", false, &path, Mode::Read);
    assert!(!after.is_stale());
    let expected = [vec![1; 1000], vec![2; 500], vec![3; 10]].concat();
    assert_eq!(samples(&after), expected);
}

#[test]
fn a_stale_reader_refuses_signals_whose_tables_went_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iso");
    let writing = writer(&path);
    writing.writer("s").unwrap().append_gap(7).unwrap();
    // Published gaps are newer than the reader's checkpoint.
    writing.commit(true).unwrap();
    let stale = in_boot("two", false, &path, Mode::Read);
    assert!(stale.is_stale());
    let error = stale.signal("s").err().unwrap();
    assert_eq!(error.code(), "needs_recovery", "{error}");
    assert!(error.to_string().contains("a.iso"), "{error}");
}

#[test]
fn a_reader_that_may_write_recovers_what_a_crash_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iso");
    let copy = folder.path().join("b.iso");
    let writing = writer(&path);
    // As after a crash: the files, and a free lock.
    copy_folder(&path, &copy);
    let reader = in_boot("two", true, &copy, Mode::Read);
    assert!(!reader.is_stale());
    assert_eq!(samples(&reader), [vec![1; 1000], vec![2; 500]].concat());
    drop(writing);
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (from, to) = {
            let entry = entry.unwrap();
            (entry.path(), to.join(entry.file_name()))
        };
        if from.is_dir() {
            copy_folder(&from, &to);
        } else {
            std::fs::copy(&from, &to).unwrap();
        }
    }
}
