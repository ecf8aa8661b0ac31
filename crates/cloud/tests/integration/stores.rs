//! Stores in an in-memory object store that counts requests and can truncate, deny and delay answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::faulty::Faulty;
use isochrony_cloud::CloudMedia;
use isochrony_segment::DType;
use isochrony_store::media::{Access, Media};
use isochrony_store::{
    Codec, CreateOptions, Mode, Readers, Store, StoreError, Strategy, VerifyOptions,
};
use isochrony_time::{Rate, civil};
use proptest::prelude::*;
use tempfile::TempDir;

const ROOT: &str = "s3://bucket/water.iso";
const PREFIX: &str = "some/water.iso";

struct StoreCopy {
    folder: TempDir,
    objects: Arc<Faulty>,
}

/// Not zero, and hard to compress.
fn samples(count: i64, seed: i64) -> Vec<i16> {
    let sample = |at: i64| {
        let mixed = (at + 7919 * seed).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64.cast_signed());
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0x94D0_49BB_1331_11EB_u64.cast_signed());
        (mixed >> 40).rem_euclid(1999) as i16 + 1
    };
    (0..count).map(sample).collect()
}

impl StoreCopy {
    fn new(stretches: &[(i64, i64)], sealed: bool) -> Self {
        let copy = Self {
            folder: tempfile::tempdir().unwrap(),
            objects: Arc::new(Faulty::default()),
        };
        let store = Store::open(copy.local(), Mode::Create).unwrap();
        let mut options = CreateOptions::new(DType::I16, Rate::from_hz(1000).unwrap());
        options.start = Some(civil::parse("2010-03-01T00:00:00Z").unwrap());
        let writer = store.create("a/b", &options).unwrap();
        for (seed, (count, gap)) in stretches.iter().enumerate() {
            writer.append(&samples(*count, seed as i64)).unwrap();
            writer.append_gap(*gap).unwrap();
        }
        store.commit(true).unwrap();
        if sealed {
            store.seal("a/b", Codec::default()).unwrap();
        }
        store.close().unwrap();
        copy.publish();
        copy
    }

    fn local(&self) -> PathBuf {
        self.folder.path().join("water.iso")
    }

    /// Files that name the live state come last.
    fn publish(&self) {
        self.objects.publish(&self.local(), PREFIX);
    }

    fn try_open(&self, mode: Mode) -> Result<Store, StoreError> {
        let media = CloudMedia::on(self.objects.clone(), PREFIX, Path::new(ROOT)).unwrap();
        Store::open_on(Path::new(ROOT), mode, Arc::new(media))
    }

    fn open(&self) -> Store {
        self.try_open(Mode::Read).unwrap()
    }

    fn values(store: &Store) -> Vec<Vec<i16>> {
        let signal = store.signal("a/b").unwrap();
        let all = signal.select(0..signal.end_index()).unwrap();
        let segments = all.segments().map(|segment| segment.unwrap());
        segments
            .map(|segment| segment.to_vec::<i16>().unwrap())
            .collect()
    }

    fn scanned(store: &Store, piece: i64, at_once: usize) -> Vec<i16> {
        let signal = store.signal("a/b").unwrap();
        let all = signal.select(0..signal.end_index()).unwrap();
        let parts = all.parts().to_vec();
        let tasks = Box::new(std::iter::once(parts.clone()));
        let strategy = Strategy::RangeRequests;
        let readers = Readers::new(&signal, &parts, piece, strategy, at_once, tasks).unwrap();
        let mut reader = readers.begin(0, &parts);
        assert_eq!(
            reader.reading().used,
            Some(strategy),
            "{:?}",
            reader.reading()
        );
        let mut found = Vec::new();
        for part in &parts {
            let mut rest = part.range.clone();
            while !rest.is_empty() {
                let gap = signal.gaps().first_within(rest.clone());
                if let Some(gap) = gap.as_ref().filter(|gap| gap.start <= rest.start) {
                    rest.start = (gap.start + gap.length).min(rest.end);
                    continue;
                }
                let end = gap.map_or(rest.end, |gap| gap.start);
                let next = reader.next_piece(&(rest.start..end));
                found.extend(reader.read(next.clone()).unwrap().to_vec::<i16>().unwrap());
                rest.start = next.end;
            }
        }
        found
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_store_in_objects_equals_its_copy_on_disk(
        stretches in prop::collection::vec((1..90_000i64, 1..40_000i64), 1..6),
        sealed in prop::bool::weighted(0.2),
        piece in 500..60_000i64,
        at_once in 1..3usize,
        faults in prop::collection::vec(0..40u64, 0..3),
        is_large in prop::bool::ANY,
    ) {
        let copy = StoreCopy::new(&stretches, sealed);
        copy.objects.is_large.store(is_large, Ordering::Relaxed);
        copy.objects.break_off(&faults);
        let (there, here) = (copy.open(), Store::open(copy.local(), Mode::Read).unwrap());
        let expected = StoreCopy::values(&here);
        prop_assert_eq!(&StoreCopy::values(&there), &expected);
        if !sealed {
            let scanned = StoreCopy::scanned(&copy.open(), piece, at_once);
            prop_assert_eq!(scanned, expected.concat());
        }
        let (there, here) = (there.info(None).unwrap(), here.info(None).unwrap());
        let room = |signal: &isochrony_store::SignalInfo| {
            (signal.samples, signal.gaps, signal.data.bytes, signal.views.files, signal.tables.bytes)
        };
        let rooms = |info: &isochrony_store::StoreInfo| info.signals.iter().map(room).collect::<Vec<_>>();
        prop_assert_eq!(rooms(&there), rooms(&here));
    }
}

#[test]
fn verification_accepts_a_sound_store_and_finds_a_flipped_bit() {
    let copy = StoreCopy::new(&[(200_000, 10)], false);
    let options = VerifyOptions {
        deep: true,
        ..VerifyOptions::default()
    };
    let report = copy.open().verify(&options).unwrap();
    assert!(
        report.is_clean() && report.bytes > 0,
        "{:?}",
        report.findings
    );
    copy.objects.change("data/c/0", |bytes| bytes[100_000] ^= 4);
    let report = copy.open().verify(&options).unwrap();
    let codes: Vec<_> = report.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["flipped_bits"]);
}

#[test]
fn opening_a_store_and_a_signal_takes_few_requests() {
    let copy = StoreCopy::new(&[(50_000, 10), (50_000, 10)], false);
    let store = copy.open();
    let opened = copy.objects.settled_requests();
    assert!(opened <= 9, "{opened} requests");
    store.signal("a/b").unwrap();
    let rounds = copy.objects.settled_requests();
    assert!(rounds <= 30, "{rounds} requests");
    store.signal("a/b").unwrap().select(0..10).unwrap();
    assert_eq!(copy.objects.settled_requests(), 0);
}

#[test]
fn pieces_close_together_are_one_request() {
    let stretches = [(1000, 50); 200];
    let copy = StoreCopy::new(&stretches, false);
    let store = copy.open();
    store.signal("a/b").unwrap();
    copy.objects.requests.store(0, Ordering::Relaxed);
    let found = StoreCopy::scanned(&store, 1 << 22, 1);
    assert_eq!(found.len(), 200_000);
    let requests = copy.objects.requests.load(Ordering::Relaxed);
    assert!(requests <= 12, "{requests} requests for 200 stretches");
}

#[test]
fn publications_are_visible_after_a_refresh_only() {
    let copy = StoreCopy::new(&[(30_000, 10)], false);
    let reader = copy.open();
    let old = reader.signal("a/b").unwrap();
    let before = StoreCopy::values(&reader);
    let writing = Store::open(copy.local(), Mode::ReadWrite).unwrap();
    let writer = writing.writer("a/b").unwrap();
    for round in 0..4 {
        writer.append(&samples(40_000, round)).unwrap();
        writing.commit(true).unwrap();
        if round == 2 {
            writing.checkpoint().unwrap();
        }
        copy.publish();
        let shown = old.select(0..30_000).unwrap();
        let first = shown.segments().next().unwrap().unwrap();
        assert_eq!(first.to_vec::<i16>().unwrap(), before[0]);
        assert!(reader.refresh().unwrap());
        assert!(!reader.refresh().unwrap());
        let here = Store::open(copy.local(), Mode::Read).unwrap();
        assert_eq!(StoreCopy::values(&reader), StoreCopy::values(&here));
        assert_eq!(
            StoreCopy::scanned(&reader, 7000, 1),
            StoreCopy::values(&here).concat()
        );
    }
}

#[test]
fn another_store_replacing_an_open_one_is_not_mixed_with_it() {
    let copy = StoreCopy::new(&[(2_000_000, 10)], false);
    let reader = copy.open();
    let signal = reader.signal("a/b").unwrap();
    signal
        .select(0..10)
        .unwrap()
        .segments()
        .next()
        .unwrap()
        .unwrap();
    let other = StoreCopy::new(&[(2_000_000, 11)], false);
    for (key, bytes) in other.objects.all() {
        copy.objects.put(&key, bytes);
    }
    let read = signal
        .select(1_500_000..1_900_000)
        .unwrap()
        .segments()
        .next()
        .unwrap();
    let code = read.unwrap_err().code();
    assert!(
        ["store_vanished", "wrong_shard", "changed_remotely"].contains(&code),
        "{code}"
    );
    assert_eq!(reader.refresh().unwrap_err().code(), "store_vanished");
}

#[test]
fn writing_is_refused_in_one_line() {
    let copy = StoreCopy::new(&[(10, 1)], false);
    for mode in [Mode::ReadWrite, Mode::Append, Mode::Create] {
        let error = copy.try_open(mode).map(drop).unwrap_err();
        assert_eq!(error.code(), "remote_read_only");
        assert!(
            error
                .to_string()
                .contains("cannot write to s3://bucket/water.iso")
        );
    }
}

#[test]
fn a_persistently_failing_server_is_an_error_not_an_end_of_file() {
    let copy = StoreCopy::new(&[(200_000, 10)], false);
    let store = copy.open();
    let signal = store.signal("a/b").unwrap();
    copy.objects.break_off(&(0..10_000).collect::<Vec<_>>());
    let read = signal
        .select(0..200_000)
        .unwrap()
        .segments()
        .next()
        .unwrap();
    assert_eq!(read.unwrap_err().code(), "truncated_answer");
}

#[test]
fn a_publication_during_opening_is_seen() {
    let copy = StoreCopy::new(&[(30_000, 10)], false);
    let (local, objects) = (copy.local(), copy.objects.clone());
    // Between the first request and MANIFEST.
    copy.objects.before_read("MANIFEST", move || {
        let store = Store::open(&local, Mode::ReadWrite).unwrap();
        let options = CreateOptions::new(DType::I16, Rate::from_hz(1000).unwrap());
        let writer = store.create("c/d", &options).unwrap();
        writer.append(&samples(40_000, 5)).unwrap();
        store.commit(true).unwrap();
        store.close().unwrap();
        objects.publish(&local, PREFIX);
    });
    let store = copy.open();
    let signal = store.signal("c/d").unwrap();
    let shown = signal.select(0..40_000).unwrap().counts(-1i16).unwrap();
    assert_eq!(shown, samples(40_000, 5));
}

#[test]
fn a_possibly_incomplete_backup_does_not_open() {
    let copy = StoreCopy::new(&[(1000, 10)], false);
    *copy.objects.denied.lock().unwrap() = Some("/BACKUP".into());
    let error = copy.try_open(Mode::Read).map(drop).unwrap_err();
    assert_eq!(error.code(), "access_denied");
}

#[test]
fn a_store_too_large_to_list_opens_with_few_listings() {
    let copy = StoreCopy::new(&[(50_000, 10), (50_000, 10)], false);
    copy.objects.is_large.store(true, Ordering::Relaxed);
    let store = copy.open();
    store.signal("a/b").unwrap();
    let requests = copy.objects.requests.load(Ordering::Relaxed);
    assert!(requests <= 50, "{requests} requests");
    let empty = copy.objects.empty_folders.lock().unwrap().clone();
    assert!(
        !empty.iter().any(|folder| folder.ends_with("/data")),
        "{empty:?}"
    );
}

#[test]
fn objects_that_fail_are_not_requested_again() {
    const TRIES: u64 = 6;
    for sealed in [false, true] {
        let copy = StoreCopy::new(&[(2_000_000, 10)], sealed);
        let store = copy.open();
        let signal = store.signal("a/b").unwrap();
        let read = |range| signal.select(range).unwrap().counts(-1i16);
        read(0..10).unwrap();
        // Also wait for the read-ahead.
        std::thread::sleep(std::time::Duration::from_millis(200));
        copy.objects.break_off(&(0..10_000).collect::<Vec<_>>());
        copy.objects.requests.store(0, Ordering::Relaxed);
        let error = read(1_000_000..1_000_010).unwrap_err();
        assert_eq!(error.code(), "truncated_answer", "{error}");
        let requests = copy.objects.requests.load(Ordering::Relaxed);
        assert!(requests <= TRIES, "{requests} requests, sealed: {sealed}");
    }
}

#[test]
fn alternating_readers_read_each_block_once() {
    const FILE_BYTES: u64 = 16 << 20;
    const READ_BYTES: u64 = 64 << 10;
    let objects = Arc::new(Faulty::default());
    let names: Vec<String> = (0..8).map(|number| format!("file{number}")).collect();
    for (seed, name) in names.iter().enumerate() {
        objects.put(
            &format!("{PREFIX}/{name}"),
            vec![seed as u8; FILE_BYTES as usize],
        );
    }
    let media = CloudMedia::on(objects.clone(), PREFIX, Path::new(ROOT)).unwrap();
    let open = |name| {
        media
            .open(&Path::new(ROOT).join(name), Access::Read)
            .unwrap()
    };
    let files: Vec<_> = names.iter().map(open).collect();
    let mut bytes = vec![0; READ_BYTES as usize];
    for offset in (0..FILE_BYTES).step_by(READ_BYTES as usize) {
        for (seed, file) in files.iter().enumerate() {
            assert_eq!(file.read_at(offset, &mut bytes).unwrap(), bytes.len());
            assert!(bytes.iter().all(|byte| *byte == seed as u8));
        }
    }
    let requested = objects.bytes.load(Ordering::Relaxed);
    assert_eq!(requested, 8 * FILE_BYTES);
}
