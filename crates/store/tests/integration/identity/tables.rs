//! A table identifies its signal, and the log the table: older, foreign, missing and changed tables are errors even
//! with right checksums.

use std::fs;
use std::path::{Path, PathBuf};

use isochrony_store::layout::table::{Geometry, ROWS, TableFile};
use isochrony_store::{Mode, Signal, Store, StoreError, VerifyOptions, verify};
use isochrony_time::{Fixed, Stamp};
use serde_json::Map;

use super::{on_disk, options, read, samples};

const SECOND: i64 = 1_000_000_000;
const TABLES: [(&str, &str, u64); 4] = [
    ("gaps", "gaps/c/0/0", 2),
    ("runs", "runs/c/0/0", 4),
    ("timebase/points", "timebase/points/c/0/0", 7),
    ("timebase/fit", "timebase/fit/c/0/0", 9),
];
const EVENTS: &str = "events/text/c/0";

fn stamp(seconds: i64) -> Stamp {
    Stamp::new(
        Fixed::from_int((1_000 + seconds) * SECOND),
        Fixed::from_int(1000),
    )
}

fn grow(store: &Store, name: &str, making: i16) {
    let writer = store.writer(name).unwrap();
    let end = writer.signal().unwrap().end_index();
    let later = end / 100 + 60;
    writer
        .append_at(&samples(making, 100), &stamp(later))
        .unwrap();
    writer.append_gap(10).unwrap();
    writer.add_event("note", 0..5, &Map::new()).unwrap();
    store.commit(true).unwrap();
}

/// `x` and `y` have rows in every table; also gives an older copy of `x`.
fn two_signals() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let (folder, store) = on_disk();
    for (name, making) in [("x", 1), ("y", 2)] {
        let writer = store.create(name, &options(making)).unwrap();
        // 1 MiB: tables of shorter signals have no files.
        writer
            .append_at(&samples(making, 1 << 19), &stamp(0))
            .unwrap();
        grow(&store, name, making);
    }
    store.close().unwrap();
    let root = store.path().to_path_buf();
    let before = folder.path().join("before");
    copy(&root.join("x"), &before);
    let store = Store::open(&root, Mode::ReadWrite).unwrap();
    grow(&store, "x", 3);
    grow(&store, "y", 4);
    store.close().unwrap();
    (folder, root, before)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Errors of reading and writing `x`; the rest of the store works.
fn codes(root: &Path) -> [&'static str; 2] {
    [Mode::Read, Mode::ReadWrite].map(|mode| {
        let store = match Store::open(root, mode) {
            Ok(store) => store,
            Err(error) => return error.code(),
        };
        let use_it = |name: &str| -> Result<Signal, StoreError> {
            let signal = store.signal(name)?;
            read(&signal)?;
            signal.time_of(0)?;
            Ok(signal)
        };
        use_it("y").unwrap();
        if mode == Mode::ReadWrite {
            let appended = store.writer("x").unwrap().append(&[1i16]);
            assert!(appended.is_err());
        }
        use_it("x").err().map_or("none", |error| error.code())
    })
}

fn forge(path: &Path, columns: u64, change: impl FnOnce(&mut Vec<i64>, &mut TableFile)) {
    let row_bytes = 8 * columns;
    let bytes = fs::read(path).unwrap();
    let mut file = TableFile::decode(&bytes, row_bytes, &ROWS).unwrap();
    let numbers = |bytes: &[u8]| -> Vec<i64> {
        let numbers = bytes.chunks_exact(8);
        numbers
            .map(|x| i64::from_le_bytes(x.try_into().unwrap()))
            .collect()
    };
    let mut rows = numbers(&file.rows);
    change(&mut rows, &mut file);
    file.rows = rows.iter().flat_map(|x| x.to_le_bytes()).collect();
    let count = file.rows.len() as u64 / row_bytes;
    let geometry = Geometry::for_rows(row_bytes, count, &ROWS).unwrap();
    let encoded = file.encode(geometry);
    let mut bytes = vec![0; encoded.len as usize];
    bytes[..encoded.head.len()].copy_from_slice(&encoded.head);
    let at = encoded.payload_start as usize;
    bytes[at..at + file.rows.len()].copy_from_slice(&file.rows);
    fs::write(path, bytes).unwrap();
}

#[test]
fn an_older_table_is_an_error() {
    for file in TABLES.map(|(_, file, _)| file).into_iter().chain([EVENTS]) {
        let (_folder, root, before) = two_signals();
        assert_eq!(codes_before_damage(&root), ["none", "none"]);
        fs::copy(before.join(file), root.join("x").join(file)).unwrap();
        assert_eq!(codes(&root), ["wrong_table"; 2], "{file}");
        assert_found(&root, "wrong_table");
    }
}

/// Asserts it for shallow and deep verification.
fn assert_found(root: &Path, code: &str) {
    for deep in [false, true] {
        let signals = None;
        let report = verify(root, &VerifyOptions { signals, deep }).unwrap();
        let codes: Vec<_> = report.findings.iter().map(|one| one.code).collect();
        assert!(codes.contains(&code), "deep: {deep}, {codes:?}");
    }
}

fn codes_before_damage(root: &Path) -> [&'static str; 2] {
    [Mode::Read, Mode::ReadWrite].map(|mode| {
        let store = Store::open(root, mode).unwrap();
        read(&store.signal("x").unwrap())
            .err()
            .map_or("none", |error| error.code())
    })
}

#[test]
fn another_signals_table_is_an_error() {
    for file in TABLES.map(|(_, file, _)| file).into_iter().chain([EVENTS]) {
        let (_folder, root, _) = two_signals();
        fs::copy(root.join("y").join(file), root.join("x").join(file)).unwrap();
        assert_eq!(codes(&root), ["wrong_table"; 2], "{file}");
        assert_found(&root, "wrong_table");
    }
}

#[test]
fn a_missing_table_is_an_error_also_without_what_describes_it() {
    for file in TABLES.map(|(_, file, _)| file).into_iter().chain([EVENTS]) {
        for folder_too in [false, true] {
            let (_folder, root, _) = two_signals();
            let path = root.join("x").join(file);
            match folder_too {
                true => fs::remove_dir_all(root.join("x").join(file.split_once("/c/").unwrap().0)),
                false => fs::remove_file(&path),
            }
            .unwrap();
            assert_eq!(codes(&root), ["missing_table"; 2], "{file}");
        }
    }
}

#[test]
fn a_table_that_was_not_there_is_an_error() {
    let (folder, store) = on_disk();
    for (name, gap) in [("x", 0), ("y", 5)] {
        let writer = store.create(name, &options(1)).unwrap();
        writer.append_at(&samples(1, 50), &stamp(0)).unwrap();
        if gap > 0 {
            writer.append_gap(gap).unwrap();
        }
        store.commit(true).unwrap();
    }
    store.close().unwrap();
    let root = store.path().to_path_buf();
    let forged = root.join("x/gaps/c/0");
    fs::create_dir_all(&forged).unwrap();
    fs::copy(root.join("y/gaps/c/0/0"), forged.join("0")).unwrap();
    let x = Store::open(&root, Mode::Read).unwrap();
    let id = |name: &str| x.signal(name).unwrap_err().code();
    assert_eq!(id("x"), "wrong_table");
    drop(folder);
}

#[test]
fn a_changed_table_is_an_error_though_its_checksums_are_right() {
    for (table, file, columns) in TABLES {
        let (_folder, root, _) = two_signals();
        forge(&root.join("x").join(file), columns, |rows, _| match table {
            // A gap longer by a sample, a shorter run, a stamp and a line a minute later.
            "gaps" => rows[1] += 1,
            "runs" => rows[2] -= 50,
            _ => rows[if table == "timebase/fit" { 3 } else { 2 }] += 60 * SECOND,
        });
        assert_eq!(codes(&root), ["wrong_table"; 2], "{table}");
        assert_found(&root, "wrong_table");
    }
}

/// A reader gets a table as new as the log, which does not describe its content.
fn forged_as_new(table: &str, change: impl FnOnce(&mut Vec<i64>)) -> &'static str {
    let (folder, root, _) = two_signals();
    let store = Store::open(&root, Mode::ReadWrite).unwrap();
    let writer = store.writer("x").unwrap();
    writer.add_event("note", 0..1, &Map::new()).unwrap();
    let sequence = store.commit(true).unwrap();
    let (_, file, columns) = TABLES.into_iter().find(|known| known.0 == table).unwrap();
    // As after a kill: the commit is only in the log.
    let copied = folder.path().join("copy.iso");
    copy(&root, &copied);
    forge(&copied.join("x").join(file), columns, |rows, file| {
        change(rows);
        file.sequence = sequence;
    });
    let store = Store::open(&copied, Mode::Read).unwrap();
    let code = store.signal("x").err().map_or("none", |error| error.code());
    match code {
        "none" => {}
        "damaged_table" => assert_found(&copied, "impossible_table"),
        other => assert_found(&copied, other),
    }
    code
}

#[test]
fn rejects_impossible_contents_unknown_to_the_log() {
    assert_eq!(forged_as_new("runs", |_| ()), "none");
    assert_eq!(forged_as_new("runs", |rows| rows[2] -= 50), "damaged_table");
    assert_eq!(forged_as_new("runs", |rows| rows[0] = 7), "damaged_table");
    let beyond = |rows: &mut Vec<i64>| rows[1] += 1_000_000;
    assert_eq!(forged_as_new("gaps", beyond), "damaged_table");
    let late = |rows: &mut Vec<i64>| rows[3] += 50 * SECOND;
    assert_eq!(forged_as_new("timebase/fit", late), "damaged_table");
    assert_eq!(
        forged_as_new("timebase/fit", |rows| rows[0] = 7),
        "damaged_table"
    );
    assert_eq!(
        forged_as_new("timebase/points", |rows| rows[1] = -4),
        "damaged_table"
    );
}

#[test]
fn a_published_table_that_is_newer_than_the_log_began_is_read_with_the_log() {
    let (folder, root, _) = two_signals();
    let store = Store::open(&root, Mode::ReadWrite).unwrap();
    let writer = store.writer("x").unwrap();
    for _ in 0..3 {
        writer.append(&samples(5, 20)).unwrap();
        writer.append_gap(7).unwrap();
        store.commit(true).unwrap();
    }
    let expected = read(&writer.signal().unwrap()).unwrap();
    let copied = folder.path().join("copy.iso");
    copy(&root, &copied);
    for mode in [Mode::Read, Mode::ReadWrite, Mode::Read] {
        let again = Store::open(&copied, mode).unwrap();
        assert_eq!(read(&again.signal("x").unwrap()).unwrap(), expected);
        again.close().unwrap();
    }
    // Older than the published one, of the same log.
    let gaps = root.join("x/gaps/c/0/0");
    let old = fs::read(&gaps).unwrap();
    writer.append(&samples(6, 20)).unwrap();
    writer.append_gap(9).unwrap();
    store.commit(true).unwrap();
    let expected = read(&writer.signal().unwrap()).unwrap();
    let copied = folder.path().join("again.iso");
    copy(&root, &copied);
    fs::write(copied.join("x/gaps/c/0/0"), old).unwrap();
    let again = Store::open(&copied, Mode::Read).unwrap();
    assert_eq!(read(&again.signal("x").unwrap()).unwrap(), expected);
}
