//! A full disk: the call that needs space fails and leaves nothing behind; others continue.

use std::path::PathBuf;
use std::sync::Arc;

use super::medium::Medium;
use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Store, StoreError, VerifyOptions};
use isochrony_time::{Fixed, Rate};

struct Case {
    _folder: tempfile::TempDir,
    path: PathBuf,
    medium: Arc<Medium>,
    store: Store,
}

fn options() -> CreateOptions {
    CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap())
}

fn ramp(count: usize) -> Vec<i16> {
    (0..count).map(|number| (number % 9973) as i16).collect()
}

fn case() -> Case {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iso");
    let medium = Arc::new(Medium::new());
    let store = Store::open_on(&path, Mode::Create, medium.clone()).unwrap();
    store
        .create("a", &options())
        .unwrap()
        .append(&ramp(100))
        .unwrap();
    store.commit(true).unwrap();
    Case {
        _folder: folder,
        path,
        medium,
        store,
    }
}

impl Case {
    fn samples(store: &Store, name: &str) -> Vec<i16> {
        let signal = store.signal(name).unwrap();
        let selection = signal.select(0..signal.end_index()).unwrap();
        let parts = selection
            .segments()
            .map(|part| part.unwrap().to_vec::<i16>().unwrap());
        parts.collect::<Vec<_>>().concat()
    }

    fn close(&self) -> Store {
        self.store.close().unwrap();
        let deep = VerifyOptions {
            deep: true,
            ..VerifyOptions::default()
        };
        let report = isochrony_store::verify(&self.path, &deep).unwrap();
        assert!(report.is_clean(), "{report:#?}");
        Store::open(&self.path, Mode::Read).unwrap()
    }
}

fn assert_full<T>(result: Result<T, StoreError>) {
    let error = result.err().expect("there was room");
    assert_eq!(error.code(), "disk_full", "{error}");
}

#[test]
fn a_failed_creation_leaves_nothing_pending() {
    let case = case();
    case.medium.fill_after(0);
    for name in ["b", "group/c"] {
        assert_full(case.store.create(name, &options()));
    }
    assert_eq!(case.store.names().unwrap(), ["a"]);
    assert!(!case.store.has_pending());
    case.store.writer("a").unwrap().append(&ramp(50)).unwrap();
    case.store.commit(true).unwrap();
    case.medium.make_room();
    case.store
        .create("b", &options())
        .unwrap()
        .append(&ramp(7))
        .unwrap();
    case.store.commit(true).unwrap();
    let stored = case.close();
    assert_eq!(stored.names().unwrap(), ["a", "b"]);
    assert_eq!(Case::samples(&stored, "a"), [ramp(100), ramp(50)].concat());
    assert_eq!(Case::samples(&stored, "b"), ramp(7));
}

#[test]
fn a_signal_that_could_not_be_replaced_stays() {
    let case = case();
    let mut replace = options();
    replace.overwrite = true;
    case.medium.fill_after(0);
    assert_full(case.store.create("a", &replace));
    assert!(!case.store.has_pending());
    case.store.writer("a").unwrap().append(&ramp(3)).unwrap();
    case.store.commit(true).unwrap();
    case.medium.make_room();
    let stored = case.close();
    assert_eq!(Case::samples(&stored, "a"), [ramp(100), ramp(3)].concat());
}

#[test]
fn a_signal_with_an_impossible_start_leaves_nothing_and_replaces_nothing() {
    let case = case();
    for name in ["a", "b"] {
        let mut impossible = options();
        impossible.overwrite = true;
        impossible.start = Fixed::from_i128(4 * i128::from(i64::MAX));
        let error = case.store.create(name, &impossible).err().unwrap();
        assert!(!case.store.has_pending(), "{name}: {error}");
        assert_eq!(case.store.names().unwrap(), ["a"]);
    }
    case.store.commit(true).unwrap();
    let stored = case.close();
    assert_eq!(stored.names().unwrap(), ["a"]);
    assert_eq!(Case::samples(&stored, "a"), ramp(100));
}

#[test]
fn a_new_signal_can_be_dropped_if_its_commit_finds_no_space() {
    let case = case();
    // Its own folder fits, its parents do not.
    let created = case.store.create("group/b", &options()).unwrap();
    case.store.writer("a").unwrap().append(&ramp(50)).unwrap();
    case.medium.fill_after(0);
    assert_full(created.append(&vec![1i16; 100_000]));
    assert_full(case.store.commit(true));
    assert!(case.store.has_pending());
    case.store.remove("group/b").unwrap();
    case.store.commit(true).unwrap();
    assert!(!case.store.has_pending());
    case.medium.make_room();
    let again = case.store.create("group/b", &options()).unwrap();
    again.append(&ramp(5)).unwrap();
    case.store.commit(true).unwrap();
    let stored = case.close();
    assert_eq!(stored.names().unwrap(), ["a", "group/b"]);
    assert_eq!(Case::samples(&stored, "a"), [ramp(100), ramp(50)].concat());
    assert_eq!(Case::samples(&stored, "group/b"), ramp(5));
}

#[test]
fn an_append_that_failed_is_in_no_part_of_a_later_commit() {
    // Three blocks, the first of which fit.
    for calls in 0..3 {
        let case = case();
        let writer = case.store.writer("a").unwrap();
        let other = case.store.create("b", &options()).unwrap();
        case.store.commit(true).unwrap();
        other.append(&ramp(10)).unwrap();
        case.medium.fill_after(calls);
        assert_full(writer.append(&ramp(300_000)));
        assert_eq!(writer.signal().unwrap().end_index(), 100, "{calls}");
        case.medium.make_room();
        case.store.commit(true).unwrap();
        let seen = Store::open_on(&case.path, Mode::Read, case.medium.clone()).unwrap();
        assert_eq!(Case::samples(&seen, "a"), ramp(100), "{calls}");
        assert_eq!(Case::samples(&seen, "b"), ramp(10), "{calls}");
        // Others overwrite the failed ones, with checksums and views of their own.
        let others: Vec<i16> = ramp(200_000).into_iter().rev().collect();
        writer.append(&others).unwrap();
        case.store.commit(true).unwrap();
        let stored = case.close();
        assert_eq!(Case::samples(&stored, "a"), [ramp(100), others].concat());
    }
}

#[test]
fn a_write_for_which_there_is_no_room_leaves_no_copy_of_its_shard() {
    let case = case();
    let before = Case::samples(&case.store, "a");
    case.medium.fill_after(0);
    assert_full(case.store.writer("a").unwrap().write(5, &[-7i16; 10]));
    let left = std::fs::read_dir(case.path.join(".isochrony/tmp")).unwrap();
    assert_eq!(left.count(), 0);
    case.medium.make_room();
    assert_eq!(Case::samples(&case.close(), "a"), before);
}

#[test]
fn a_fill_for_which_there_is_no_room_leaves_no_copy_of_a_shard() {
    let case = case();
    let writer = case.store.writer("a").unwrap();
    // The first shard ends between the invalidated samples.
    let border = 1i64 << 23;
    writer.append(&ramp((1 << 23) + 100)).unwrap();
    case.store.commit(true).unwrap();
    writer.mark_invalid(border - 8..border + 8).unwrap();
    case.store.commit(true).unwrap();
    for calls in 0..2 {
        case.medium.fill_after(calls);
        assert_full(writer.fill(border - 8, &[-7i16; 16]));
        case.medium.make_room();
        let left = std::fs::read_dir(case.path.join(".isochrony/tmp")).unwrap();
        assert_eq!(left.count(), 0, "{calls}");
        assert!(!case.store.has_pending(), "{calls}");
        case.store.commit(true).unwrap();
    }
    writer.fill(border - 8, &[-7i16; 16]).unwrap();
    case.store.commit(true).unwrap();
    let stored = case.close();
    let signal = stored.signal("a").unwrap();
    let selection = signal.select(border - 9..border + 9).unwrap();
    let segments = selection
        .segments()
        .map(|part| part.unwrap().to_vec::<i16>().unwrap());
    let shown = segments.collect::<Vec<_>>().concat();
    assert_eq!(shown[1..17], [-7; 16]);
}
