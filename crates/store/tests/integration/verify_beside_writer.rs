//! Verification beside an active writer has no false findings, and finds damage.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use isochrony_segment::DType;
use isochrony_store::{Codec, CreateOptions, Mode, Store, VerifyOptions, repair, verify};
use isochrony_time::{Rate, civil};

const DEEP: VerifyOptions = VerifyOptions {
    signals: None,
    deep: true,
};

fn options() -> CreateOptions {
    let mut options = CreateOptions::new(DType::I16, Rate::new(1000, 1).expect("a rate"));
    options.start = Some(civil::parse("2020-01-01T00:00:00Z").expect("a time"));
    options
}

/// Does all that changes files under readers.
fn work(store: &Store, round: usize) {
    let samples: Vec<i16> = (0..3000).map(|i| (i * 7 + round) as i16).collect();
    let publish = !round.is_multiple_of(3);
    match round % 6 {
        0 => {
            let mut options = options();
            options.overwrite = true;
            let writer = store.create("n/over", &options).expect("created");
            writer.append(&samples).expect("appended");
        }
        1 => {
            let names = ["n/a", "m/b"];
            let (from, to) = match store.writer(names[0]) {
                Ok(_) => (names[0], names[1]),
                Err(_) => (names[1], names[0]),
            };
            store.rename(from, to).expect("renamed");
        }
        2 => {
            store.seal("n/sealed", Codec::default()).expect("sealed");
        }
        3 => {
            let unsealed = store.unseal("n/sealed");
            unsealed.expect("unsealed");
            let writer = store.writer("n/sealed").expect("the signal");
            writer.append(&samples).expect("appended");
        }
        4 => {
            let writer = store.writer("n/grows").expect("the signal");
            let end = writer.append(&samples).expect("appended");
            let _ = end;
            writer.append_gap(100).expect("a gap");
        }
        _ => {
            let writer = store.writer("n/grows").expect("the signal");
            let end = store.signal("n/grows").expect("the signal").end_index();
            writer.mark_invalid(end / 2..end / 2 + 50).expect("marked");
            writer
                .add_event("note", 1..2, &serde_json::Map::new())
                .expect("noted");
        }
    }
    store.commit(publish).expect("committed");
    if round.is_multiple_of(7) {
        store.checkpoint().expect("checkpointed");
    }
}

fn store_at(path: &Path) -> Store {
    let store = Store::open(path, Mode::Create).expect("created");
    for name in ["n/over", "n/a", "n/sealed", "n/grows"] {
        let writer = store.create(name, &options()).expect("a signal");
        writer.append(&[1i16; 100_000]).expect("appended");
    }
    store.commit(true).expect("committed");
    store
}

#[test]
fn a_store_that_is_being_written_is_sound() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.iso");
    let store = store_at(&path);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut round = 0;
            while !done.load(Ordering::Relaxed) {
                work(&store, round);
                round += 1;
            }
            round
        });
        let began = Instant::now();
        let mut looks = 0;
        while began.elapsed() < Duration::from_secs(8) {
            let report = verify(&path, &DEEP).expect("verified");
            assert_eq!(report.findings, [], "look {looks}");
            looks += 1;
        }
        done.store(true, Ordering::Relaxed);
        let rounds = writer.join().expect("wrote");
        assert!(looks > 3 && rounds > 20, "{looks} looks, {rounds} rounds");
    });
    store.close().expect("closed");
    assert_eq!(verify(&path, &DEEP).expect("verified").findings, []);
}

#[test]
fn damage_is_found_beside_a_writer_that_changes_the_signal() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.iso");
    let store = store_at(&path);
    store.checkpoint().expect("checkpointed");
    let shard = path.join("n/grows/data/c/0");
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(shard)
        .expect("opens");
    std::os::unix::fs::FileExt::write_all_at(&file, &[9; 4], 4096 + 100).expect("written");
    std::fs::remove_file(path.join("n/a/data/zarr.json")).expect("removed");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let writer = store.writer("n/grows").expect("the signal");
            while !done.load(Ordering::Relaxed) {
                writer.append(&[1i16; 100]).expect("appended");
                store.commit(false).expect("committed");
            }
        });
        let report = verify(&path, &DEEP).expect("verified");
        done.store(true, Ordering::Relaxed);
        writer.join().expect("wrote");
        let mut codes: Vec<_> = report.findings.iter().map(|finding| finding.code).collect();
        codes.sort_unstable();
        assert!(codes.contains(&"flipped_bits"), "{report:#?}");
        assert_eq!(codes.len(), 2, "{report:#?}");
    });
    store.close().expect("closed");
}

const CHUNK: usize = 65_536;

/// A checkpoint describes checksums once all that it writes is durable, which may take long or fail.
#[test]
fn checksums_that_a_checkpoint_has_not_described_yet_are_no_damage() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.iso");
    let store = Store::open(&path, Mode::Create).expect("created");
    let writer = store.create("s", &options()).expect("a signal");
    writer.append(&[1i16; 100]).expect("appended");
    store.commit(true).expect("committed");
    store.checkpoint().expect("checkpointed");
    writer.append(&[1i16; CHUNK]).expect("appended");
    store.commit(true).expect("committed");
    let checksums = path.join("s/crc/c");
    std::fs::create_dir_all(&checksums).expect("made");
    std::fs::write(checksums.join("0"), []).expect("written");
    assert_eq!(verify(&path, &DEEP).expect("verified").findings, []);
    store.checkpoint().expect("checkpointed");
    assert_eq!(verify(&path, &DEEP).expect("verified").findings, []);
    store.close().expect("closed");
    assert_eq!(verify(&path, &DEEP).expect("verified").findings, []);
}

#[test]
fn checksums_of_a_short_signal_that_are_lost_are_found_and_written_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.iso");
    let store = Store::open(&path, Mode::Create).expect("created");
    let writer = store.create("s", &options()).expect("a signal");
    writer.append(&[1i16; CHUNK + 100]).expect("appended");
    store.commit(true).expect("committed");
    store.close().expect("closed");
    std::fs::remove_dir_all(path.join("s/crc")).expect("removed");
    let found = verify(&path, &VerifyOptions::default()).expect("verified");
    let found: Vec<_> = (found.findings.iter())
        .map(|finding| (finding.code, finding.path.clone()))
        .collect();
    assert_eq!(found, [("missing_metadata", path.join("s/crc/zarr.json"))]);
    let (_, after) = repair(&path, &DEEP).expect("repaired");
    assert_eq!(after.findings, []);
    let report = verify(&path, &DEEP).expect("verified");
    assert_eq!((report.findings, report.unchecked), (vec![], 0));
}
