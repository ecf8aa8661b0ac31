//! Reads through a host's cache: the same samples, nothing twice from the store, every byte verified.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use isochrony_cache::{Cache, CacheOptions};
use isochrony_segment::DType;
use isochrony_store::shard_cache::{
    CacheReport, ObjectKey, ObjectName, PeerAddress, PieceSource, ReportCursor, ShardCache,
};
use isochrony_store::{Codec, CreateOptions, Mode, SignalSnapshot, SignalWriter, Store};
use isochrony_time::Rate;
use proptest::prelude::*;
use tempfile::TempDir;

/// 64 KiB.
const CHUNK: i64 = 32_768;
const PIECE: u64 = 64 << 10;

fn sample(index: i64) -> i16 {
    (index.wrapping_mul(2_654_435_761) >> 13) as i16
}

fn samples(range: Range<i64>) -> Vec<i16> {
    range.map(sample).collect()
}

struct Fixture {
    folder: TempDir,
    store: Store,
    writer: SignalWriter,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
        let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
        let writer = store.create("p", &options).unwrap();
        Self {
            folder,
            store,
            writer,
        }
    }

    fn of(samples_count: i64) -> Self {
        let fixture = Self::new();
        fixture.writer.append(&samples(0..samples_count)).unwrap();
        fixture.store.commit(true).unwrap();
        fixture
    }

    fn shards(&self) -> Vec<PathBuf> {
        let mut shards = files(&self.folder.path().join("a.iso/p/data"));
        shards.retain(|path| fs::metadata(path).unwrap().len() > 65_536);
        shards
    }

    fn cache_folder(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// As another process of this host opens it.
    fn cache(
        &self,
        quota: u64,
        piece: u64,
        peers: Option<Arc<dyn PieceSource>>,
    ) -> Arc<ShardCache> {
        let mut options = CacheOptions::new(quota);
        options.piece_bytes = piece;
        let cache = Cache::open(self.cache_folder(), options).unwrap();
        Arc::new(ShardCache::new(cache, peers).unwrap())
    }

    fn reader(&self, cache: &Arc<ShardCache>) -> Store {
        let reader = Store::open(self.store.path(), Mode::Read).unwrap();
        reader.set_shard_cache(Some(cache.clone())).unwrap();
        reader
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

fn read(store: &Store, range: Range<i64>) -> Vec<i16> {
    let selection = store.signal("p").unwrap().select(range).unwrap();
    selection.counts(-1i16).unwrap()
}

fn damage(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes[4096..].fill(0x5a);
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_second_process_reads_nothing_from_the_store() {
    let fixture = Fixture::of(4 * CHUNK);
    let expected = samples(0..4 * CHUNK);
    let cache = fixture.cache(64 << 20, PIECE, None);
    assert_eq!(read(&fixture.reader(&cache), 0..4 * CHUNK), expected);
    let counts = cache.counts();
    assert_eq!(counts.storage_bytes, 4 * 65_536, "{counts:?}");
    assert_eq!((counts.local_bytes, counts.rejected), (0, 0));
    drop(cache);

    // Reads from the store now give wrong samples.
    for shard in fixture.shards() {
        damage(&shard);
    }
    let cache = fixture.cache(64 << 20, PIECE, None);
    let reader = fixture.reader(&cache);
    assert_eq!(read(&reader, 0..4 * CHUNK), expected);
    assert_eq!(read(&reader, 100..70_000), expected[100..70_000]);
    let counts = cache.counts();
    assert_eq!((counts.storage_bytes, counts.misses), (0, 0), "{counts:?}");
    assert!(counts.local_bytes >= 4 * 65_536);
}

#[test]
fn pieces_may_be_shorter_or_longer_than_chunks() {
    for piece in [4096, 16 << 10, 256 << 10, 1 << 20] {
        let fixture = Fixture::of(5 * CHUNK + 77);
        let cache = fixture.cache(64 << 20, piece, None);
        let reader = fixture.reader(&cache);
        for range in [
            3..9,
            CHUNK - 1..CHUNK + 1,
            2 * CHUNK..5 * CHUNK + 77,
            0..5 * CHUNK,
        ] {
            assert_eq!(read(&reader, range.clone()), samples(range));
        }
        assert_eq!(cache.counts().rejected, 0);
    }
}

#[test]
fn the_tail_is_read_from_the_store_until_its_chunk_is_full() {
    let fixture = Fixture::of(2 * CHUNK + 1000);
    let cache = fixture.cache(64 << 20, PIECE, None);
    let reader = fixture.reader(&cache);
    let end = 2 * CHUNK + 1000;
    read(&reader, 0..end);
    assert_eq!(cache.counts().storage_bytes, 2 * 65_536 + 2000);
    read(&reader, 0..end);
    assert_eq!(cache.counts().storage_bytes, 2 * 65_536 + 4000);

    // An append keeps the content version.
    fixture.writer.append(&samples(end..3 * CHUNK + 5)).unwrap();
    fixture.store.commit(true).unwrap();
    reader.refresh().unwrap();
    let before = cache.counts().storage_bytes;
    assert_eq!(read(&reader, 0..3 * CHUNK + 5), samples(0..3 * CHUNK + 5));
    assert_eq!(cache.counts().storage_bytes - before, 65_536 + 10);
}

#[test]
fn fills_overwrites_and_seals_change_the_content_version_but_appends_do_not() {
    let fixture = Fixture::new();
    let version = || {
        let reader = Store::open(fixture.store.path(), Mode::Read).unwrap();
        let signal = reader.signal("p").unwrap();
        signal.state().data.content_version(0)
    };
    let append = |count: i64| {
        let from = fixture.writer.signal().unwrap().end_index();
        fixture.writer.append(&samples(from..from + count)).unwrap();
        fixture.store.commit(true).unwrap();
    };
    append(CHUNK);
    fixture.writer.append_gap(CHUNK).unwrap();
    append(CHUNK);
    let first = version();
    append(10);
    append(3 * CHUNK);
    fixture.store.checkpoint().unwrap();
    append(CHUNK - 10);
    assert_eq!(version(), first);
    fixture.writer.fill(CHUNK + 5, &[1i16, 2, 3]).unwrap();
    fixture.store.commit(true).unwrap();
    let filled = version();
    assert_ne!(filled, first);
    // The fill's mark is in the base of the next log.
    fixture.store.checkpoint().unwrap();
    assert_eq!(version(), filled);
    fixture.store.seal("p", Codec::default()).unwrap();
    let sealed = version();
    assert_ne!(sealed, filled);
    fixture.store.unseal("p").unwrap();
    assert!(![first, filled, sealed].contains(&version()));
}

#[test]
fn sealed_signals_are_cached_as_they_are_compressed() {
    for codec in ["zstd", "blosc"] {
        let fixture = Fixture::of(70 * CHUNK);
        fixture.writer.append_gap(2 * CHUNK).unwrap();
        let end = 80 * CHUNK + 123;
        fixture.writer.append(&samples(72 * CHUNK..end)).unwrap();
        fixture.store.checkpoint().unwrap();
        fixture.store.seal("p", codec.parse().unwrap()).unwrap();
        fixture.store.checkpoint().unwrap();
        let mut expected = samples(0..end);
        expected[70 * CHUNK as usize..72 * CHUNK as usize].fill(-1);
        let cache = fixture.cache(64 << 20, PIECE, None);
        let reader = fixture.reader(&cache);
        assert_eq!(read(&reader, 0..end), expected, "{codec}");
        let files: u64 = fixture
            .shards()
            .iter()
            .map(|path| fs::metadata(path).unwrap().len())
            .sum();
        let counts = cache.counts();
        assert_eq!(counts.rejected, 0);
        // A frame in two pieces may be read twice.
        assert!(
            (files..files * 2).contains(&counts.storage_bytes),
            "{counts:?} of {files}"
        );
        drop((reader, cache));

        for shard in fixture.shards() {
            let mut bytes = fs::read(&shard).unwrap();
            let index = bytes.len() - 1028;
            bytes[64..index].fill(0x5a);
            fs::write(&shard, bytes).unwrap();
        }
        let cache = fixture.cache(64 << 20, PIECE, None);
        let reader = fixture.reader(&cache);
        assert_eq!(read(&reader, 0..end), expected, "{codec}");
        assert_eq!(cache.counts().storage_bytes, 0);
        let objects = reader.signal("p").unwrap().cached_objects(0..end).unwrap();
        let mut cursor = ReportCursor::default();
        let mut told: Vec<_> = cache
            .report(&mut cursor)
            .added
            .iter()
            .map(|one| one.0)
            .collect();
        let mut names: Vec<_> = objects.iter().map(|one| ObjectName::from(&one.0)).collect();
        told.sort_unstable();
        names.sort_unstable();
        assert_eq!(told, names);
    }
}

#[test]
fn a_sealed_chunk_that_does_not_have_its_checksum_is_not_cached() {
    let fixture = Fixture::of(8 * CHUNK);
    fixture.store.seal("p", Codec::default()).unwrap();
    let cache = fixture.cache(64 << 20, PIECE, None);
    // The same samples under other checksums, like a replaced frame.
    let shard = fixture.shards().remove(0);
    let mut bytes = fs::read(&shard).unwrap();
    bytes[90_000] ^= 1;
    fs::write(&shard, &bytes).unwrap();
    let plain = Store::open(fixture.store.path(), Mode::Read).unwrap();
    let signal = |store: &Store| {
        let selection = store.signal("p").unwrap().select(0..8 * CHUNK).unwrap();
        selection.counts(-1i16).map_err(|error| error.code())
    };
    assert_eq!(signal(&fixture.reader(&cache)), signal(&plain));
    assert!(cache.counts().rejected > 0);
}

#[test]
fn shows_samples_filled_meanwhile() {
    let fixture = Fixture::of(2 * CHUNK);
    fixture.writer.append_gap(2 * CHUNK).unwrap();
    fixture
        .writer
        .append(&samples(4 * CHUNK..5 * CHUNK))
        .unwrap();
    fixture.store.commit(true).unwrap();
    let cache = fixture.cache(64 << 20, PIECE, None);
    let reader = fixture.reader(&cache);
    let before = read(&reader, 0..5 * CHUNK);
    assert!(
        before[2 * CHUNK as usize..4 * CHUNK as usize]
            .iter()
            .all(|x| *x == -1)
    );
    let old = reader.signal("p").unwrap();
    let snapshot = old.snapshot().unwrap().to_bytes().unwrap();
    for start in [2 * CHUNK + 100, 3 * CHUNK] {
        let filled = start..start + 5000;
        fixture
            .writer
            .fill(filled.start, &samples(filled.clone()))
            .unwrap();
        fixture.store.commit(true).unwrap();
        reader.refresh().unwrap();
        assert_eq!(read(&reader, filled.clone()), samples(filled));
        // Older handles show their samples.
        assert_eq!(
            old.select(0..5 * CHUNK).unwrap().counts(-1i16).unwrap(),
            before
        );
        let snapshot = SignalSnapshot::from_bytes(&snapshot).unwrap();
        let shown = reader.signal_at(&snapshot).unwrap();
        assert_eq!(
            shown.select(0..5 * CHUNK).unwrap().counts(-1i16).unwrap(),
            before
        );
    }
    assert_eq!(cache.counts().rejected, 0);
}

#[test]
fn a_byte_that_flipped_in_the_cache_is_found() {
    let fixture = Fixture::of(4 * CHUNK);
    let cache = fixture.cache(64 << 20, PIECE, None);
    read(&fixture.reader(&cache), 0..4 * CHUNK);
    drop(cache);
    let objects = files(&fixture.cache_folder().join("objects"));
    assert_eq!(objects.len(), 1);
    let mut bytes = fs::read(&objects[0]).unwrap();
    bytes[70_000] ^= 4;
    fs::write(&objects[0], bytes).unwrap();
    let cache = fixture.cache(64 << 20, PIECE, None);
    assert_eq!(
        read(&fixture.reader(&cache), 0..4 * CHUNK),
        samples(0..4 * CHUNK)
    );
    assert_eq!(cache.counts().storage_bytes, 65_536);
}

#[test]
fn pieces_with_a_wrong_checksum_are_not_cached() {
    let fixture = Fixture::of(4 * CHUNK);
    let shard = fixture.shards().remove(0);
    let mut bytes = fs::read(&shard).unwrap();
    bytes[4096 + 70_000] ^= 4;
    fs::write(&shard, bytes).unwrap();
    let cache = fixture.cache(64 << 20, PIECE, None);
    let reader = fixture.reader(&cache);
    let plain = Store::open(fixture.store.path(), Mode::Read).unwrap();
    for _ in 0..2 {
        // As without a cache.
        assert_eq!(read(&reader, 0..4 * CHUNK), read(&plain, 0..4 * CHUNK));
    }
    let counts = cache.counts();
    assert!(counts.rejected >= 2 && counts.hits == 0, "{counts:?}");
}

#[test]
fn a_cache_that_is_too_small_changes_nothing() {
    let fixture = Fixture::of(8 * CHUNK);
    let cache = fixture.cache(200_000, PIECE, None);
    let reader = fixture.reader(&cache);
    for _ in 0..2 {
        assert_eq!(read(&reader, 0..8 * CHUNK), samples(0..8 * CHUNK));
    }
}

#[test]
fn shards_are_evicted_and_read_again() {
    // Three shards of 8 MiB, with space for two.
    let fixture = Fixture::of(300 * CHUNK);
    let cache = fixture.cache(18 << 20, 1 << 20, None);
    let reader = fixture.reader(&cache);
    let shard = 128 * CHUNK;
    for range in [
        0..shard,
        shard..2 * shard,
        2 * shard..300 * CHUNK,
        0..shard,
        100..200,
    ] {
        assert_eq!(read(&reader, range.clone()), samples(range));
    }
    let counts = cache.counts();
    assert!(
        counts.hits > 0 && counts.storage_bytes > 300 * 65_536,
        "{counts:?}"
    );
}

#[test]
fn threads_fetch_each_piece_once() {
    let fixture = Fixture::of(64 * CHUNK);
    let cache = fixture.cache(64 << 20, 1 << 20, None);
    let reader = fixture.reader(&cache);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let reader = &reader;
            scope.spawn(move || {
                for part in 0..16 {
                    let start = (part + thread) % 16 * 4 * CHUNK;
                    let range = start..start + 4 * CHUNK;
                    assert_eq!(read(reader, range.clone()), samples(range));
                }
            });
        }
    });
    assert_eq!(cache.counts().storage_bytes, 64 * 65_536);
}

#[derive(Debug)]
struct Peer {
    bytes: Vec<u8>,
    asked: Mutex<Vec<(ObjectKey, Vec<Range<u64>>)>>,
}

impl PieceSource for Peer {
    fn fetch(
        &self,
        object: &ObjectKey,
        _object_bytes: u64,
        missing: &[Range<u64>],
        sources: &[PeerAddress],
        take: &mut (dyn FnMut(u64, &[u8]) -> bool + Send),
    ) {
        assert_eq!(sources, [other()]);
        self.asked
            .lock()
            .unwrap()
            .push((object.clone(), missing.to_vec()));
        for range in missing {
            let range = range.start as usize..range.end as usize;
            if range.end <= self.bytes.len() && !take(range.start as u64, &self.bytes[range]) {
                return;
            }
        }
    }
}

fn other() -> PeerAddress {
    ("10.0.0.6".into(), 4711)
}

/// As a scheduler would.
fn tell_sources(cache: &ShardCache, store: &Store) {
    let objects = store.signal("p").unwrap().cached_objects(0..4 * CHUNK);
    for (key, bytes) in objects.unwrap() {
        assert_eq!(bytes, 4 * 65_536);
        cache.add_sources(ObjectName::from(&key), vec![other()]);
    }
}

fn peer(bytes: Vec<u8>) -> Arc<Peer> {
    let asked = Mutex::default();
    Arc::new(Peer { bytes, asked })
}

#[test]
fn asks_other_hosts_first_and_verifies_their_bytes() {
    let fixture = Fixture::of(4 * CHUNK);
    let bytes: Vec<u8> = samples(0..4 * CHUNK)
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let good = peer(bytes.clone());
    let cache = fixture.cache(64 << 20, PIECE, Some(good.clone()));
    let reader = fixture.reader(&cache);
    read(&reader, 0..CHUNK);
    assert_eq!(cache.counts().storage_bytes, 65_536);
    tell_sources(&cache, &reader);
    assert_eq!(read(&reader, 0..4 * CHUNK), samples(0..4 * CHUNK));
    let counts = cache.counts();
    assert_eq!(
        (counts.peer_bytes, counts.storage_bytes),
        (3 * 65_536, 65_536),
        "{counts:?}"
    );
    assert!(!good.asked.lock().unwrap().is_empty());
    drop(cache);

    fs::remove_dir_all(fixture.cache_folder()).unwrap();
    let mut wrong = bytes;
    wrong[100] ^= 1;
    let cache = fixture.cache(64 << 20, PIECE, Some(peer(wrong)));
    let reader = fixture.reader(&cache);
    tell_sources(&cache, &reader);
    assert_eq!(read(&reader, 0..4 * CHUNK), samples(0..4 * CHUNK));
    let counts = cache.counts();
    assert_eq!(
        (counts.rejected, counts.storage_bytes),
        (1, 4 * 65_536),
        "{counts:?}"
    );
}

#[test]
fn reads_directly_after_the_cache_is_removed() {
    let fixture = Fixture::of(3 * CHUNK);
    let cache = fixture.cache(64 << 20, PIECE, None);
    let reader = fixture.reader(&cache);
    read(&reader, 0..3 * CHUNK);
    reader.set_shard_cache(None).unwrap();
    let counts = cache.counts();
    assert_eq!(read(&reader, 0..3 * CHUNK), samples(0..3 * CHUNK));
    assert_eq!(cache.counts(), counts);
}

#[test]
fn reports_tell_what_is_cached_and_what_changed() {
    let fixture = Fixture::of(300 * CHUNK);
    let cache = fixture.cache(18 << 20, 1 << 20, None);
    let reader = fixture.reader(&cache);
    let names = |range: Range<i64>| {
        let objects = reader.signal("p").unwrap().cached_objects(range).unwrap();
        let names = objects
            .iter()
            .map(|(key, bytes)| (ObjectName::from(key), *bytes));
        names.collect::<Vec<_>>()
    };
    let shard = 128 * CHUNK;
    let mut cursor = ReportCursor::default();
    let first = cache.report(&mut cursor);
    assert!(first.is_all && first.added.is_empty());
    read(&reader, 0..10);
    let report = cache.report(&mut cursor);
    assert_eq!((report.is_all, report.added.len()), (false, 0));
    assert_eq!(
        (report.counts.storage_bytes, report.counts.misses),
        (1 << 20, 1)
    );
    read(&reader, 0..shard / 2);
    let report = cache.report(&mut cursor);
    assert_eq!((report.is_all, &report.added), (false, &names(0..1)));
    assert_eq!(
        CacheReport::from_bytes(&report.to_bytes().unwrap()).unwrap(),
        report
    );
    assert_eq!(
        CacheReport::from_bytes(&[1]).unwrap_err().code(),
        "unreadable_snapshot"
    );
    // Not reported twice.
    assert_eq!(cache.report(&mut cursor).counts, Default::default());

    let index = fixture.cache_folder();
    let aside = fixture.folder.path().join("aside");
    fs::rename(&index, &aside).unwrap();
    fs::write(&index, "no folder").unwrap();
    let lost = cache.report(&mut cursor);
    fs::remove_file(&index).unwrap();
    fs::rename(&aside, &index).unwrap();
    assert!(lost.is_all && lost.added.is_empty(), "{lost:?}");
    let again = cache.report(&mut cursor);
    assert_eq!((again.is_all, again.added), (true, names(0..1)));

    read(&reader, shard..300 * CHUNK);
    read(&reader, 0..shard);
    cache.release();
    read(&reader, shard..2 * shard);
    let report = cache.report(&mut cursor);
    let all = cache.report(&mut ReportCursor::default());
    assert!(all.is_all && all.added.len() < 3, "{all:?}");
    for (name, _) in names(0..300 * CHUNK) {
        let has = |report: &CacheReport| report.added.iter().any(|(one, _)| *one == name);
        assert!(has(&all) || !has(&report));
        assert!(has(&all) || names(0..1)[0].0 != name || report.removed.contains(&name));
    }
}

#[test]
fn an_interrupt_ends_a_wait_for_another_process() {
    let fixture = Fixture::of(2 * CHUNK);
    let cache = fixture.cache(64 << 20, PIECE, None);
    let reader = fixture.reader(&cache);
    let signal = reader.signal("p").unwrap();
    let (key, bytes) = signal.cached_objects(0..10).unwrap().remove(0);
    let other = Cache::open(fixture.cache_folder(), CacheOptions::new(64 << 20)).unwrap();
    let pinned = other.pin(&key, bytes).unwrap();
    let reservation = pinned.reserve(0..bytes).unwrap();
    assert!(!reservation.is_empty());
    let begun = Instant::now();
    let stopped = isochrony_runtime::stoppable_waits(
        move || begun.elapsed() > Duration::from_millis(50),
        || signal.select(0..10).unwrap().counts(-1i16).unwrap_err(),
    );
    assert_eq!(stopped.code(), "interrupted", "{stopped}");
    assert!(begun.elapsed() < Duration::from_secs(5));
    drop(reservation);
    assert_eq!(read(&reader, 0..10), samples(0..10));
}

#[derive(Debug, Clone)]
enum Step {
    Append(i64),
    Gap(i64),
    Fill(f64, i64),
    Invalid(f64, i64),
    Commit,
    Checkpoint,
    Seal,
    Unseal,
    NewProcess,
    Read(f64, f64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (1..3 * CHUNK).prop_map(Step::Append),
        2 => (1..2 * CHUNK).prop_map(Step::Gap),
        4 => (0.0..1.0, 1..CHUNK).prop_map(|(at, count)| Step::Fill(at, count)),
        1 => (0.0..1.0, 1..CHUNK).prop_map(|(at, count)| Step::Invalid(at, count)),
        2 => Just(Step::Commit),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Seal),
        1 => Just(Step::Unseal),
        1 => Just(Step::NewProcess),
        6 => (0.0..1.0, 0.0..1.0).prop_map(|(from, to)| Step::Read(from, to)),
    ]
}

/// `None` in gaps.
type Model = Vec<Option<i16>>;

fn shown(model: &Model, range: Range<i64>) -> Vec<i16> {
    let part = &model[range.start as usize..range.end as usize];
    part.iter().map(|sample| sample.unwrap_or(-1)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn cached_reads_equal_a_list_of_samples_through_any_history(
        steps in prop::collection::vec(step(), 1..40), piece in prop_oneof![Just(4096u64), Just(64 << 10), Just(1 << 20)],
        quota in prop_oneof![Just(300_000u64), Just(64 << 20)],
    ) {
        let piece = piece.min(quota / 4).next_power_of_two();
        let fixture = Fixture::new();
        let mut cache = fixture.cache(quota.max(2 * piece), piece, None);
        let (mut model, mut committed) = (Model::new(), Model::new());
        let mut is_sealed = false;
        fixture.store.commit(true).unwrap();
        let mut reader = fixture.reader(&cache);
        for (number, step) in steps.into_iter().enumerate() {
            let value = |index: i64| sample(index + number as i64 * 1_000_003);
            match step {
                Step::Append(count) if !is_sealed => {
                    let from = model.len() as i64;
                    let new: Vec<i16> = (from..from + count).map(value).collect();
                    fixture.writer.append(&new).unwrap();
                    model.extend(new.into_iter().map(Some));
                }
                Step::Gap(count) if !is_sealed => {
                    fixture.writer.append_gap(count).unwrap();
                    model.resize(model.len() + count as usize, None);
                }
                Step::Fill(at, count) if !is_sealed && !model.is_empty() => {
                    let start = (at * model.len() as f64) as usize;
                    let Some(start) = (start..model.len()).find(|at| model[*at].is_none()) else {
                        continue;
                    };
                    let end = (start..model.len().min(start + count as usize)).find(|at| model[*at].is_some());
                    let end = end.unwrap_or(model.len().min(start + count as usize));
                    let new: Vec<i16> = (start as i64..end as i64).map(value).collect();
                    fixture.writer.fill(start as i64, &new).unwrap();
                    for (own, new) in model[start..end].iter_mut().zip(new) {
                        *own = Some(new);
                    }
                }
                Step::Invalid(at, count) if !is_sealed && !model.is_empty() => {
                    let start = (at * model.len() as f64) as usize;
                    let end = model.len().min(start + count as usize);
                    fixture.writer.mark_invalid(start as i64..end as i64).unwrap();
                    model[start..end].fill(None);
                }
                Step::Commit => {
                    fixture.store.commit(true).unwrap();
                    committed = model.clone();
                }
                Step::Checkpoint => {
                    fixture.store.commit(true).unwrap();
                    committed = model.clone();
                    fixture.store.checkpoint().unwrap();
                }
                Step::Seal if !is_sealed && model.iter().any(Option::is_some) => {
                    fixture.store.seal("p", Codec::default()).unwrap();
                    (is_sealed, committed) = (true, model.clone());
                }
                Step::Unseal if is_sealed => {
                    fixture.store.unseal("p").unwrap();
                    is_sealed = false;
                }
                Step::NewProcess => {
                    drop((reader, cache));
                    cache = fixture.cache(quota.max(2 * piece), piece, None);
                    reader = fixture.reader(&cache);
                }
                Step::Read(from, to) => {
                    reader.refresh().unwrap();
                    let end = committed.len() as f64;
                    let (from, to) = ((from * end) as i64, (to * end) as i64);
                    let range = from.min(to)..from.max(to);
                    prop_assert_eq!(read(&reader, range.clone()), shown(&committed, range));
                }
                _ => {}
            }
        }
        prop_assert_eq!(cache.counts().rejected, 0);
    }
}
