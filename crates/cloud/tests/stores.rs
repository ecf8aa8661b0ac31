//! Stores over an object store in memory, which counts requests and can break answers off, refuse them and take its time.

mod faulty;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use faulty::Faulty;
use isochrony_cloud::CloudMedia;
use isochrony_segment::DType;
use isochrony_store::{Codec, CreateOptions, Mode, Readers, Store, Strategy, VerifyOptions};
use isochrony_time::{Rate, civil};
use proptest::prelude::*;
use tempfile::TempDir;

const ROOT: &str = "s3://bucket/water.iso";
const PREFIX: &str = "some/water.iso";

/// A store on a disk and its copy among objects.
struct Copied {
    folder: TempDir,
    objects: Arc<Faulty>,
}

fn samples(count: i64, seed: i64) -> Vec<i16> {
    (0..count)
        .map(|at| ((at * 37 + seed) % 1999) as i16 + 1)
        .collect()
}

impl Copied {
    /// Stretches of samples with gaps between them.
    fn new(stretches: &[(i64, i64)], sealed: bool) -> Self {
        let copied = Self {
            folder: tempfile::tempdir().unwrap(),
            objects: Arc::new(Faulty::default()),
        };
        let store = Store::open(copied.local(), Mode::Create).unwrap();
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
        copied.publish();
        copied
    }

    fn local(&self) -> PathBuf {
        self.folder.path().join("water.iso")
    }

    /// Copies what is new or changed; what names the live state last.
    fn publish(&self) {
        let mut files = Vec::new();
        let mut open = vec![self.local()];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => open.push(path),
                    false => files.push(path),
                }
            }
        }
        files.sort_by_key(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            (name == "MANIFEST", name.starts_with("log."))
        });
        for path in files {
            let name = path.strip_prefix(self.local()).unwrap();
            let key = format!("{PREFIX}/{}", name.to_str().unwrap());
            self.objects.put(&key, std::fs::read(&path).unwrap());
        }
    }

    fn open(&self) -> Store {
        let media = CloudMedia::on(self.objects.clone(), PREFIX, Path::new(ROOT)).unwrap();
        Store::open_on(Path::new(ROOT), Mode::Read, Arc::new(media)).unwrap()
    }

    fn values(store: &Store) -> Vec<Vec<i16>> {
        let signal = store.signal("a/b").unwrap();
        let all = signal.select(0..signal.end_index()).unwrap();
        let segments = all.segments().map(|segment| segment.unwrap());
        segments
            .map(|segment| segment.to_vec::<i16>().unwrap())
            .collect()
    }

    /// By the strategy of remote media, in pieces.
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

    /// Whatever lies where, and whatever breaks off on the way: the same as from the disk.
    #[test]
    fn a_store_among_objects_shows_what_its_copy_on_a_disk_does(
        stretches in prop::collection::vec((1..90_000i64, 1..40_000i64), 1..6),
        sealed in prop::bool::weighted(0.2),
        piece in 500..60_000i64,
        at_once in 1..3usize,
        faults in prop::collection::vec(0..40u64, 0..3),
        is_large in prop::bool::ANY,
    ) {
        let copied = Copied::new(&stretches, sealed);
        copied.objects.is_large.store(is_large, Ordering::Relaxed);
        copied.objects.break_off(&faults);
        let (there, here) = (copied.open(), Store::open(copied.local(), Mode::Read).unwrap());
        let expected = Copied::values(&here);
        prop_assert_eq!(&Copied::values(&there), &expected);
        if !sealed {
            let scanned = Copied::scanned(&copied.open(), piece, at_once);
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
fn verification_finds_a_sound_store_sound_and_a_flipped_bit() {
    let copied = Copied::new(&[(200_000, 10)], false);
    let options = VerifyOptions {
        deep: true,
        ..VerifyOptions::default()
    };
    let report = copied.open().verify(&options).unwrap();
    assert!(
        report.is_clean() && report.bytes > 0,
        "{:?}",
        report.findings
    );
    copied
        .objects
        .change("data/c/0", |bytes| bytes[100_000] ^= 4);
    let report = copied.open().verify(&options).unwrap();
    let codes: Vec<_> = report.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["flipped_bits"]);
}

#[test]
fn a_store_opens_and_a_signal_loads_with_few_requests_one_after_another() {
    let copied = Copied::new(&[(50_000, 10), (50_000, 10)], false);
    let store = copied.open();
    let opened = copied.objects.requests.swap(0, Ordering::Relaxed);
    assert!(opened <= 9, "{opened} requests");
    store.signal("a/b").unwrap();
    let rounds = copied.objects.requests.swap(0, Ordering::Relaxed);
    // Its small objects, together.
    assert!(rounds <= 30, "{rounds} requests");
    store.signal("a/b").unwrap().select(0..10).unwrap();
    assert_eq!(copied.objects.requests.load(Ordering::Relaxed), 0);
}

#[test]
fn pieces_close_together_are_one_request() {
    let stretches = [(1000, 50); 200];
    let copied = Copied::new(&stretches, false);
    let store = copied.open();
    store.signal("a/b").unwrap();
    copied.objects.requests.store(0, Ordering::Relaxed);
    let found = Copied::scanned(&store, 1 << 22, 1);
    assert_eq!(found.len(), 200_000);
    let requests = copied.objects.requests.load(Ordering::Relaxed);
    assert!(requests <= 12, "{requests} requests for 200 stretches");
}

#[test]
fn what_was_published_since_shows_after_a_refresh_and_not_before() {
    let copied = Copied::new(&[(30_000, 10)], false);
    let reader = copied.open();
    let old = reader.signal("a/b").unwrap();
    let before = Copied::values(&reader);
    let writing = Store::open(copied.local(), Mode::ReadWrite).unwrap();
    let writer = writing.writer("a/b").unwrap();
    for round in 0..4 {
        writer.append(&samples(40_000, round)).unwrap();
        writing.commit(true).unwrap();
        if round == 2 {
            writing.checkpoint().unwrap();
        }
        copied.publish();
        let shown = old.select(0..30_000).unwrap();
        let first = shown.segments().next().unwrap().unwrap();
        assert_eq!(first.to_vec::<i16>().unwrap(), before[0]);
        assert!(reader.refresh().unwrap());
        assert!(!reader.refresh().unwrap());
        let here = Store::open(copied.local(), Mode::Read).unwrap();
        assert_eq!(Copied::values(&reader), Copied::values(&here));
        assert_eq!(
            Copied::scanned(&reader, 7000, 1),
            Copied::values(&here).concat()
        );
    }
}

#[test]
fn another_store_in_the_place_of_an_open_one_is_no_mixture() {
    let copied = Copied::new(&[(2_000_000, 10)], false);
    let reader = copied.open();
    let signal = reader.signal("a/b").unwrap();
    signal
        .select(0..10)
        .unwrap()
        .segments()
        .next()
        .unwrap()
        .unwrap();
    let other = Copied::new(&[(2_000_000, 11)], false);
    for (key, bytes) in other.objects.all() {
        copied.objects.put(&key, bytes);
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
    let copied = Copied::new(&[(10, 1)], false);
    let media = CloudMedia::on(copied.objects.clone(), PREFIX, Path::new(ROOT)).unwrap();
    for mode in [Mode::ReadWrite, Mode::Append, Mode::Create] {
        let opened = Store::open_on(Path::new(ROOT), mode, Arc::new(media.clone()));
        let error = opened.map(drop).unwrap_err();
        assert_eq!(error.code(), "remote_read_only");
        assert!(
            error
                .to_string()
                .contains("cannot write to s3://bucket/water.iso")
        );
    }
}

#[test]
fn a_server_that_goes_on_failing_is_an_error_and_no_end_of_the_file() {
    let copied = Copied::new(&[(200_000, 10)], false);
    let store = copied.open();
    let signal = store.signal("a/b").unwrap();
    copied.objects.break_off(&(0..10_000).collect::<Vec<_>>());
    let read = signal
        .select(0..200_000)
        .unwrap()
        .segments()
        .next()
        .unwrap();
    assert_eq!(read.unwrap_err().code(), "truncated_answer");
}
