//! Snapshots sent to other processes show the same, or an error says why not.

use isochrony_segment::DType;
use isochrony_store::{
    CreateOptions, Mode, Signal, SignalSnapshot, Store, StoreError, StoreSnapshot,
};
use isochrony_time::{Fixed, Rate, Stamp};

use super::{on_disk, options, read, samples};

const SECOND: i64 = 1_000_000_000;

fn arrived(bytes: &[u8]) -> Result<Signal, StoreError> {
    SignalSnapshot::from_bytes(bytes)?.open()
}

fn sent(signal: &Signal) -> Vec<u8> {
    signal.snapshot().unwrap().to_bytes().unwrap()
}

fn stamp(ns: i64) -> Stamp {
    Stamp::new(Fixed::from_int(ns), Fixed::from_int(1000))
}

fn shown(signal: &Signal) -> (i64, Vec<(i64, i64)>, String, Vec<Fixed>) {
    let gaps = signal.gaps().iter().map(|gap| (gap.start, gap.end()));
    let times = (0..signal.end_index()).map(|at| signal.time_of(at).unwrap().value);
    let runs = format!("{:?}", signal.runs().unwrap());
    (signal.end_index(), gaps.collect(), runs, times.collect())
}

/// 600 samples in two runs, with a gap; the clock drifts.
fn recorded(store: &Store) -> isochrony_store::SignalWriter {
    let writer = store.create("x", &options(1)).unwrap();
    let parts = samples(1, 500);
    writer
        .append_at(&parts[..100], &stamp(100 * SECOND))
        .unwrap();
    writer
        .append_at(&parts[100..200], &stamp(101 * SECOND + 2_000_000))
        .unwrap();
    writer
        .append_at(&parts[200..300], &stamp(103 * SECOND))
        .unwrap();
    writer
        .append_at(&parts[300..], &stamp(50 * SECOND))
        .unwrap();
    store.commit(true).unwrap();
    writer
}

#[test]
fn later_appends_do_not_affect_a_snapshot() {
    let (_folder, store) = on_disk();
    let writer = recorded(&store);
    let before = store.signal("x").unwrap();
    let (bytes, expected, values) = (sent(&before), shown(&before), read(&before).unwrap());
    assert!(before.gaps().len() == 1 && before.runs().unwrap().len() == 2);
    for (round, checkpoints) in [false, true].into_iter().enumerate() {
        // A later stamp changes the last run's fit from its first sample on.
        let late = stamp(52 * SECOND + 4_000_000 + round as i64 * 1_003_000_000);
        writer.append_at(&samples(2, 100), &late).unwrap();
        writer
            .add_event("late", 650..660, &serde_json::Map::new())
            .unwrap();
        store.commit(true).unwrap();
        if checkpoints {
            store.checkpoint().unwrap();
        }
        let now = store.signal("x").unwrap();
        assert_ne!(shown(&now).3[..600], expected.3[..]);
        let signal = arrived(&bytes).unwrap();
        assert_eq!(shown(&signal), expected);
        assert_eq!(read(&signal).unwrap(), values);
        assert_eq!(
            signal.events().filter(|event| event.kind == "late").count(),
            0
        );
        assert_eq!(shown(&arrived(&sent(&signal)).unwrap()), expected);
    }
    let mut signal = arrived(&bytes).unwrap();
    assert!(signal.refresh().unwrap());
    assert_eq!(shown(&signal), shown(&store.signal("x").unwrap()));
}

#[test]
fn shows_the_same_samples_in_other_files() {
    let (_folder, store) = on_disk();
    recorded(&store);
    let before = store.signal("x").unwrap();
    let (bytes, expected, values) = (sent(&before), shown(&before), read(&before).unwrap());
    let same = || {
        let signal = arrived(&bytes).unwrap();
        assert_eq!(
            (shown(&signal), read(&signal).unwrap()),
            (expected.clone(), values.clone())
        );
    };
    store.seal("x", "zstd:3".parse().unwrap()).unwrap();
    same();
    store.unseal("x").unwrap();
    same();
    store.rename("x", "y").unwrap();
    store.commit(true).unwrap();
    same();
}

#[test]
fn samples_that_are_still_in_their_file_are_shown() {
    let (_folder, store) = on_disk();
    let writer = recorded(&store);
    let before = store.signal("x").unwrap();
    let (bytes, expected, values) = (sent(&before), shown(&before), read(&before).unwrap());
    writer.mark_invalid(10..20).unwrap();
    let gap = before.gaps().get(0).unwrap();
    writer.fill(gap.start, &[7i16]).unwrap();
    store.commit(true).unwrap();
    let signal = arrived(&bytes).unwrap();
    assert_eq!((shown(&signal), read(&signal).unwrap()), (expected, values));
}

#[test]
fn changes_below_the_end_are_told() {
    type Change = fn(&Store);
    let changes: [(Change, &str); 6] = [
        (
            |store| store.writer("x").unwrap().write(5, &[7i16]).unwrap(),
            "samples 0..",
        ),
        (
            |store| {
                let writer = store.writer("x").unwrap();
                writer.mark_invalid(10..20).unwrap();
                writer.fill(10, &samples(3, 10)).unwrap();
            },
            "samples 0..",
        ),
        (
            |store| {
                store.writer("x").unwrap().mark_invalid(10..20).unwrap();
                store.commit(true).unwrap();
                store.seal("x", "zstd:3".parse().unwrap()).unwrap();
            },
            "samples 0..",
        ),
        (|store| store.remove("x").unwrap(), "it was deleted"),
        (
            |store| drop(store.create("x", &options(2)).unwrap()),
            "another signal",
        ),
        (
            |store| {
                store.create("y", &options(2)).unwrap();
                store.remove("x").unwrap();
                store.rename("y", "x").unwrap();
            },
            "another signal",
        ),
    ];
    for (change, part) in changes {
        let (_folder, store) = on_disk();
        recorded(&store);
        let bytes = sent(&store.signal("x").unwrap());
        let kept = arrived(&bytes).unwrap();
        let values = read(&kept).unwrap();
        let all = store_bytes(&store);
        change(&store);
        store.commit(true).unwrap();
        let error = arrived(&bytes).unwrap_err();
        assert_eq!(error.code(), "snapshot_moved", "{error}");
        assert!(error.to_string().contains(part), "{error}");
        let opened = StoreSnapshot::from_bytes(&all).unwrap().open().unwrap();
        assert_eq!(opened.signal("x").unwrap_err().code(), "snapshot_moved");
        assert_eq!(read(&kept).unwrap(), values);
    }
}

fn store_bytes(store: &Store) -> Vec<u8> {
    let reader = Store::open(store.path(), Mode::Read).unwrap();
    reader.snapshot().unwrap().to_bytes().unwrap()
}

#[test]
fn a_store_shows_the_signals_that_it_showed_until_it_is_refreshed() {
    let (_folder, store) = on_disk();
    let writer = recorded(&store);
    store.create("old", &options(3)).unwrap();
    store.commit(true).unwrap();
    let (expected, sequence) = (
        shown(&store.signal("x").unwrap()),
        store.sequence().unwrap(),
    );
    let bytes = store_bytes(&store);
    writer.append(&samples(2, 100)).unwrap();
    store.create("new", &options(4)).unwrap();
    store.rename("old", "renamed").unwrap();
    store.commit(true).unwrap();

    let opened = StoreSnapshot::from_bytes(&bytes).unwrap().open().unwrap();
    assert_eq!(
        (opened.names().unwrap(), opened.sequence().unwrap()),
        (vec!["old".into(), "x".into()], sequence)
    );
    assert_eq!(shown(&opened.signal("x").unwrap()), expected);
    assert_eq!(opened.signal("new").unwrap_err().code(), "no_such_signal");
    assert_eq!(opened.signal("old").unwrap().end_index(), 0);
    let again = opened.snapshot().unwrap().to_bytes().unwrap();
    let again = StoreSnapshot::from_bytes(&again).unwrap().open().unwrap();
    assert_eq!(shown(&again.signal("x").unwrap()), expected);
    assert!(opened.refresh().unwrap());
    assert_eq!(opened.names().unwrap(), ["new", "renamed", "x"]);
    assert_eq!(opened.signal("x").unwrap().end_index(), expected.0 + 100);
    assert!(!opened.refresh().unwrap());
}

#[test]
fn a_view_of_a_store_that_was_sent_leaves_it_as_it_was() {
    let (_folder, store) = on_disk();
    let writer = store.create("x", &options(1)).unwrap();
    writer.append(&samples(1, 3_000_000)).unwrap();
    store.commit(true).unwrap();
    store.checkpoint().unwrap();
    let bytes = {
        let reader = Store::open(store.path(), Mode::Read).unwrap();
        store_bytes(&reader)
    };
    let sent = StoreSnapshot::from_bytes(&bytes).unwrap().open().unwrap();
    let signal = sent.signal("x").unwrap();
    store.rename("x", "y").unwrap();
    writer.append(&samples(1, 1000)).unwrap();
    store.commit(true).unwrap();
    let view = signal.view(0..3_000_000, 10).unwrap();
    assert_eq!(view.columns.count.iter().sum::<u64>(), 3_000_000);
    assert_eq!(sent.names().unwrap(), ["x"]);
    assert_eq!(sent.signal("x").unwrap().end_index(), 3_000_000);
}

#[test]
fn reports_a_missing_or_different_store() {
    let (folder, store) = on_disk();
    let writer = recorded(&store);
    let path = store.path().to_path_buf();
    let bytes = sent(&store.signal("x").unwrap());
    let code = |bytes: &[u8]| arrived(bytes).unwrap_err().code();
    writer.append(&[1i16]).unwrap();
    let pending = sent(&store.signal("x").unwrap());
    assert_eq!(code(&pending), "uncommitted");
    let snapshot = SignalSnapshot::from_bytes(&pending).unwrap();
    assert_eq!(
        store.signal_at(&snapshot).unwrap().end_index(),
        snapshot.end_index()
    );
    let old = folder.path().join("old.iso");
    store.backup(&old, &mut |_| ()).unwrap();
    store.commit(true).unwrap();
    let newer = sent(&store.signal("x").unwrap());
    assert_eq!(store.snapshot().unwrap_err().code(), "not_picklable");
    let scratch = store
        .scratch(&CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap()))
        .unwrap();
    assert_eq!(
        scratch.signal().unwrap().snapshot().unwrap_err().code(),
        "not_picklable"
    );
    drop(scratch);
    store.close().unwrap();

    let moved = folder.path().join("moved.iso");
    std::fs::rename(&path, &moved).unwrap();
    let error = arrived(&bytes).unwrap_err();
    assert_eq!(error.code(), "not_a_store");
    assert!(
        error.to_string().contains("signal \"x\"") && error.to_string().contains("put it back"),
        "{error}"
    );
    std::fs::rename(&old, &path).unwrap();
    assert_eq!(code(&newer), "older_commit");
    std::fs::remove_dir_all(&path).unwrap();
    drop(Store::open(&path, Mode::Create).unwrap());
    assert_eq!(code(&bytes), "other_store");
}

#[test]
fn damaged_bytes_are_refused_and_end_no_process() {
    let (_folder, store) = on_disk();
    recorded(&store);
    let bytes = sent(&store.signal("x").unwrap());
    assert_eq!(
        SignalSnapshot::from_bytes(&[]).unwrap_err().code(),
        "unreadable_snapshot"
    );
    let other = [&[9u8], &bytes[1..]].concat();
    let error = SignalSnapshot::from_bytes(&other).unwrap_err();
    assert!(error.to_string().contains("version is 9"), "{error}");
    for at in 0..bytes.len() {
        assert!(SignalSnapshot::from_bytes(&bytes[..at]).is_err());
        for value in [0, 1, 127, 128, 255] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            if let Ok(snapshot) = SignalSnapshot::from_bytes(&damaged) {
                let _ = store.signal_at(&snapshot).map(|signal| read(&signal));
            }
        }
    }
}
