//! Foreign entries in a store: links, pipes, sockets and folders instead of files. Nothing behind a link is read,
//! changed or removed, nothing hangs, and every error names the obstacle.

mod resolving;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Store, StoreError, VerifyOptions};
use isochrony_time::Rate;

const DEEP: VerifyOptions = VerifyOptions {
    signals: None,
    deep: true,
};
const COUNT: i64 = 3000;

fn options() -> CreateOptions {
    CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap())
}

fn samples() -> Vec<i16> {
    (0..COUNT).map(|x| (x % 251) as i16).collect()
}

fn make_store(path: &Path) {
    let store = Store::open(path, Mode::Create).unwrap();
    for name in ["a", "b/c"] {
        let writer = store.create(name, &options()).unwrap();
        writer.append(&samples()).unwrap();
        writer.append_gap(10).unwrap();
        writer.append(&samples()).unwrap();
        let fields = serde_json::Map::new();
        writer.add_event("mark", 3..5, &fields).unwrap();
    }
    store.commit(true).unwrap();
    store.close().unwrap();
}

/// Files with their bytes; others by type.
fn tree(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![path.to_path_buf()];
    while let Some(at) = open.pop() {
        let about = fs::symlink_metadata(&at).unwrap();
        let what = if about.is_dir() {
            open.extend(
                fs::read_dir(&at)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            b"folder".to_vec()
        } else if about.is_file() {
            fs::read(&at).unwrap()
        } else {
            b"other".to_vec()
        };
        found.insert(at, what);
    }
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => _ = fs::copy(entry.path(), target).unwrap(),
        }
    }
}

fn use_store(path: &Path) -> Vec<StoreError> {
    let mut errors = Vec::new();
    let mut note = |result: Result<(), StoreError>| errors.extend(result.err());
    let read = |store: &Store| -> Result<(), StoreError> {
        for name in ["a", "b/c"] {
            let signal = store.signal(name)?;
            let values = signal.select(0..COUNT)?.as_segment()?.to_vec::<i16>()?;
            assert_eq!(values, samples(), "{name}");
        }
        Ok(())
    };
    note(isochrony_store::verify(path, &DEEP).map(drop));
    note(Store::open(path, Mode::Read).and_then(|store| {
        store.info(None)?;
        store.attributes()?;
        read(&store)
    }));
    note(isochrony_store::repair(path, &DEEP).map(drop));
    note(Store::open(path, Mode::ReadWrite).and_then(|store| {
        read(&store)?;
        store.set_attributes(&serde_json::Map::new())?;
        store.writer("a")?.write(7, &samples()[7..9])?;
        store.writer("a")?.append(&[1i16])?;
        store.commit(true)?;
        store.rename("a", "d")?;
        store.commit(true)?;
        store.remove("d")?;
        store.remove("b/c")?;
        store.commit(true)?;
        store.close()
    }));
    errors
}

/// Replaces each entry in turn and uses the store: nothing outside may change. At least `least` replacements must be
/// refused.
fn replace_each(what: &str, crashed: bool, least: usize, replace: impl Fn(&Path, &Path)) {
    let folder = tempfile::tempdir().unwrap();
    let sound = folder.path().join("sound.iso");
    make_store(&sound);
    if crashed {
        // As of a killed writer: its name in the lock, a record in the log.
        let store = Store::open(&sound, Mode::ReadWrite).unwrap();
        store.writer("a").unwrap().append(&[5i16; 20]).unwrap();
        store.commit(false).unwrap();
        let left = folder.path().join("left.iso");
        copy(&sound, &left);
        store.close().unwrap();
        drop(store);
        fs::remove_dir_all(&sound).unwrap();
        fs::rename(&left, &sound).unwrap();
    }
    let below = |path: &PathBuf| path.strip_prefix(&sound).unwrap().to_path_buf();
    let places: Vec<PathBuf> = tree(&sound).keys().map(below).collect();
    assert!(places.len() > 30, "{places:?}");
    let mut refusals = 0;
    for place in places.iter().filter(|place| !place.as_os_str().is_empty()) {
        let case = tempfile::tempdir().unwrap();
        let (path, outside) = (case.path().join("a.iso"), case.path().join("outside"));
        copy(&sound, &path);
        fs::create_dir(&outside).unwrap();
        let moved = outside.join("moved");
        fs::rename(path.join(place), &moved).unwrap();
        replace(&path.join(place), &moved);
        let before = tree(&outside);
        let errors = use_store(&path);
        assert_eq!(tree(&outside), before, "{what} at {}", place.display());
        for error in errors {
            let text = error.to_string();
            assert!(text.len() > 20, "{what} at {}: {text}", place.display());
            refusals += usize::from(error.code() == "unexpected_file");
        }
    }
    assert!(refusals >= least, "{what}: {refusals} refusals");
}

#[test]
fn nothing_behind_a_link_in_a_store_is_read_changed_or_removed() {
    replace_each("a link", false, 11, |place, moved| {
        symlink(moved, place).unwrap()
    });
}

#[test]
fn nothing_behind_a_link_in_a_crashed_store_is_read_changed_or_removed() {
    replace_each("a link", true, 11, |place, moved| {
        symlink(moved, place).unwrap()
    });
}

fn make_pipe(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

#[test]
fn a_pipe_in_the_place_of_a_file_hangs_nothing() {
    replace_each("a pipe", true, 11, |place, _| make_pipe(place));
}

#[test]
fn a_device_in_the_place_of_a_file_is_neither_read_nor_written() {
    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    let make = |path: &Path| {
        // `/dev/zero`, which accepts all writes.
        let device = makedev(1, 5);
        let mode = Mode::from_raw_mode(0o600);
        mknodat(CWD, path, FileType::CharacterDevice, mode, device)
    };
    let folder = tempfile::tempdir().unwrap();
    if make(&folder.path().join("zero")) == Err(rustix::io::Errno::PERM) {
        eprintln!("not tested: only root may make devices");
        return;
    }
    replace_each("a device", true, 11, |place, _| make(place).unwrap());
}

fn hard_link(from: &Path, to: &Path) {
    if from.is_file() {
        return fs::hard_link(from, to).unwrap();
    }
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        hard_link(&entry.path(), &to.join(entry.file_name()));
    }
}

#[test]
fn a_file_with_a_second_name_outside_the_store_is_read_and_never_written() {
    for crashed in [false, true] {
        replace_each("a hard link", crashed, 3, |place, moved| {
            hard_link(moved, place);
        });
    }
    let folder = tempfile::tempdir().unwrap();
    let (path, linked) = (folder.path().join("a.iso"), folder.path().join("b.iso"));
    make_store(&path);
    hard_link(&path, &linked);
    let store = Store::open(&linked, Mode::Read).unwrap();
    let signal = store.signal("a").unwrap();
    let segment = signal.select(0..COUNT).unwrap().as_segment().unwrap();
    assert_eq!(segment.to_vec::<i16>().unwrap(), samples());
    let error = Store::open(&linked, Mode::ReadWrite).err().unwrap();
    assert_eq!(error.code(), "unexpected_file", "{error}");
    assert!(error.to_string().contains("hard link"), "{error}");
}

#[test]
fn a_folder_in_the_place_of_a_file_is_no_crash() {
    replace_each("a folder", false, 11, |place, moved| match moved.is_dir() {
        true => symlink(moved, place).unwrap(),
        false => fs::create_dir(place).unwrap(),
    });
}

#[test]
fn recovery_keeps_targets_of_links_in_temporary_folders() {
    let folder = tempfile::tempdir().unwrap();
    let (path, left) = (folder.path().join("a.iso"), folder.path().join("left.iso"));
    make_store(&path);
    let store = Store::open(&path, Mode::ReadWrite).unwrap();
    store.writer("a").unwrap().append(&[5i16; 20]).unwrap();
    store.commit(true).unwrap();
    copy(&path, &left);
    let valued = folder.path().join("valued");
    fs::create_dir(&valued).unwrap();
    fs::write(valued.join("thesis"), b"text").unwrap();
    for inside in ["tmp", "staging"] {
        let at = left.join(".isochrony").join(inside);
        symlink(&valued, at.join("17")).unwrap();
        fs::create_dir(at.join("18")).unwrap();
        symlink(&valued, at.join("18/deep")).unwrap();
    }
    let crashed = Store::open(&left, Mode::ReadWrite).unwrap();
    assert_eq!(crashed.signal("a").unwrap().end_index(), 2 * COUNT + 30);
    crashed.close().unwrap();
    assert_eq!(fs::read(valued.join("thesis")).unwrap(), b"text");
    for inside in ["tmp", "staging"] {
        let names = fs::read_dir(left.join(".isochrony").join(inside)).unwrap();
        assert_eq!(names.count(), 0, "{inside} was not emptied");
    }
}

#[test]
fn a_store_may_be_reached_by_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("a.iso"), folder.path().join("link.iso"));
    make_store(&path);
    symlink(&path, &link).unwrap();
    assert!(use_store(&link).is_empty());
}

#[test]
fn the_error_of_a_link_names_it_and_a_way_to_mend() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iso");
    make_store(&path);
    fs::rename(path.join("b"), folder.path().join("b")).unwrap();
    symlink(folder.path().join("b"), path.join("b")).unwrap();
    let store = Store::open(&path, Mode::Read).unwrap();
    let error = store.signal("b/c").unwrap_err();
    let text = error.to_string();
    assert_eq!(error.code(), "unexpected_file", "{text}");
    assert!(text.contains("/b: it is a symbolic link"), "{text}");
    assert!(text.contains("restore what was there"), "{text}");
}

#[test]
fn metadata_of_absurd_size_is_refused_unread() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iso");
    make_store(&path);
    let large = 10 << 30;
    for name in ["zarr.json", ".isochrony/MANIFEST"] {
        let file = path.join(name);
        let sound = fs::read(&file).unwrap();
        fs::File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_len(large)
            .unwrap();
        let found = use_store_for_reading(&path);
        assert!(
            found.contains("bytes, and such a file has at most"),
            "{name}: {found}"
        );
        fs::write(&file, sound).unwrap();
    }
}

fn use_store_for_reading(path: &Path) -> String {
    let report = isochrony_store::verify(path, &DEEP);
    let attributes = Store::open(path, Mode::Read).and_then(|store| store.attributes());
    format!(
        "{report:?} {:?}",
        attributes.map_err(|error| error.to_string())
    )
}
