//! Reads by each strategy give the appended samples.

#[path = "../../../system/tests/uring/mod.rs"]
mod uring;

use isochrony_segment::DType;
use isochrony_store::{
    Codec, CreateOptions, Mode, Signal, SignalReader, Store, StoreError, Strategy, Stretch,
};
use isochrony_time::Rate;
use tempfile::TempDir;

/// 300 chunks of 1 MiB take two shards.
fn sample(index: i64) -> i16 {
    (index.wrapping_mul(2_654_435_761) >> 13) as i16
}

fn append(writer: &isochrony_store::SignalWriter, count: i64) {
    let from = writer.signal().unwrap().end_index();
    let samples: Vec<i16> = (from..from + count).map(sample).collect();
    writer.append(&samples).unwrap();
}

/// One gap is a single sample; ends are inside pages.
fn gappy(folder: &TempDir) -> (Store, Signal) {
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    let writer = store.create("p", &options).unwrap();
    for (count, gap) in [(70_001, 1), (3, 40_000), (90_000, 77), (12_345, 0)] {
        append(&writer, count);
        if gap > 0 {
            writer.append_gap(gap).unwrap();
        }
    }
    store.commit(true).unwrap();
    let signal = writer.signal().unwrap();
    (store, signal)
}

fn parts(signal: &Signal) -> Vec<Stretch> {
    let all = signal.select(0..signal.end_index()).unwrap();
    all.parts().to_vec()
}

fn compare(signal: &Signal, strategy: Strategy, piece: i64) -> SignalReader {
    let parts = parts(signal);
    let mut reader = SignalReader::new(signal, &parts, piece, strategy).unwrap();
    // Two pieces, as an operator does whose window spans both.
    let mut held = None;
    let all = signal.select(0..signal.end_index()).unwrap();
    for stretch in all.stretches() {
        let mut at = stretch.range.start;
        while at < stretch.range.end {
            let stop = stretch.range.end.min(at + piece);
            let segment = reader.read(at..stop).unwrap();
            assert_eq!(segment.range(), at..stop);
            if let Some(before) = held.replace(segment.clone()) {
                check(&before);
            }
            check(&segment);
            at = stop;
        }
    }
    reader
}

fn check(segment: &isochrony_segment::SigSeg) {
    let expected = segment.range().map(sample);
    let found = segment.to_vec::<i16>().unwrap();
    assert!(found.into_iter().eq(expected), "{segment:?}");
}

#[test]
fn every_strategy_gives_the_same_samples_over_gaps() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, signal) = gappy(&folder);
    for strategy in Strategy::ALL {
        for piece in [1 << 14, 5_001, 1 << 20] {
            let reader = compare(&signal, strategy, piece);
            // A file system may refuse direct reads, which must be reported.
            let reading = reader.reading();
            assert_eq!(reading.asked, strategy);
            assert_eq!(
                reading.used == Some(strategy),
                reading.why.is_none(),
                "{reading}"
            );
        }
    }
}

#[test]
fn an_io_uring_is_used_where_the_kernel_grants_one() {
    if let Some(why) = uring::refused() {
        eprintln!("no io_uring here: not tested: {why}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_store, signal) = gappy(&folder);
    for strategy in Strategy::ALL.into_iter().filter(|one| one.uses_io_uring()) {
        for piece in [5_001, 1 << 20] {
            let reader = compare(&signal, strategy, piece);
            let reading = reader.reading();
            let why = reading.why.as_deref().unwrap_or_default();
            // Direct reads may be impossible for another reason.
            if strategy.bypasses_page_cache() && why.starts_with("the file system refuses") {
                eprintln!("{reading}: not tested");
                continue;
            }
            assert_eq!(reading.used, Some(strategy), "{reading}");
        }
    }
}

#[test]
fn every_strategy_crosses_shards() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    // Chunks of 64 KiB: shards of 16 MiB.
    let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    let writer = store.create("p", &options).unwrap();
    append(&writer, 9_000_123);
    store.commit(true).unwrap();
    let signal = writer.signal().unwrap();
    for strategy in Strategy::ALL {
        // Does not divide a shard: a piece spans two.
        compare(&signal, strategy, 1_234_567);
    }
}

#[test]
fn a_reader_of_the_store_and_what_is_not_committed_read_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = gappy(&folder);
    let reading = Store::open(store.path(), Mode::Read).unwrap();
    let signal = reading.signal("p").unwrap();
    for strategy in Strategy::ALL {
        compare(&signal, strategy, 10_000);
    }
    let writer = store.writer("p").unwrap();
    append(&writer, 4_321);
    for strategy in Strategy::ALL {
        compare(&writer.signal().unwrap(), strategy, 10_000);
    }
}

#[test]
fn reads_ranges_out_of_order() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, signal) = gappy(&folder);
    for strategy in Strategy::ALL {
        let mut reader = SignalReader::new(&signal, &parts(&signal), 10_000, strategy).unwrap();
        for range in [60_000..70_001, 17..18, 0..10_000, 0..10_000, 5..5] {
            check(&reader.read(range).unwrap());
        }
        let end = signal.end_index();
        let error = reader.read(end - 1..end + 1).unwrap_err();
        assert_eq!(error.code(), "out_of_bounds", "{strategy}");
    }
}

#[test]
fn reads_a_sealed_signal_by_decoding_with_any_strategy() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = gappy(&folder);
    store.seal("p", Codec::Zstd { level: 1 }).unwrap();
    let signal = store.signal("p").unwrap();
    for strategy in Strategy::ALL {
        let reader = compare(&signal, strategy, 30_000);
        assert_eq!(reader.reading().used, None);
        let said = reader.reading().to_string();
        assert!(
            said.contains("sealed") && said.contains(strategy.name()),
            "{said}"
        );
    }
}

#[test]
fn memory_of_copies_does_not_grow_with_the_signal() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, signal) = gappy(&folder);
    let copying = Strategy::ALL.into_iter().filter(|one| one.copies());
    for strategy in copying {
        let most = if strategy == Strategy::Read { 2 } else { 6 };
        let parts = parts(&signal);
        let mut reader = SignalReader::new(&signal, &parts, 1_000, strategy).unwrap();
        let mut places = std::collections::BTreeSet::new();
        for k in 0..70 {
            let segment = reader.read(k * 1_000..(k + 1) * 1_000).unwrap();
            check(&segment);
            // The page; the offset in it depends on the file.
            places.insert(segment.buffers().next().unwrap().as_ptr().addr() / 4096);
        }
        assert!(
            places.len() <= 2 * most,
            "{strategy}: pieces were read into other memory: {places:?}"
        );
    }
}

#[test]
fn a_file_that_became_shorter_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = gappy(&folder);
    let store = Store::open(store.path(), Mode::Read).unwrap();
    let signal = store.signal("p").unwrap();
    let array = store.path().join("p").join("data");
    let shard = isochrony_store::layout::shard_file(&array, 0);
    let file = std::fs::File::options().write(true).open(&shard).unwrap();
    file.set_len(4096 + 80_000).unwrap();
    for strategy in Strategy::ALL.into_iter().filter(|one| one.copies()) {
        let parts = parts(&signal);
        let mut reader = SignalReader::new(&signal, &parts, 10_000, strategy).unwrap();
        for start in [0, 10_000, 20_000, 30_000] {
            check(&reader.read(start..start + 10_000).unwrap());
        }
        let error = reader.read(40_000..50_000).unwrap_err();
        assert_eq!(error.code(), "missing_samples", "{strategy}: {error}");
        assert!(
            error.to_string().contains(shard.to_str().unwrap()),
            "{error}"
        );
        check(&reader.read(5_000..15_000).unwrap());
        // Past the end, too, the error says where that is.
        let error = reader.read(60_000..70_000).unwrap_err();
        let StoreError::MissingSamples { have, .. } = error else {
            panic!("{strategy}: {error}");
        };
        assert_eq!(have, 4096 + 80_000, "{strategy}");
    }
}

#[test]
fn a_reader_goes_on_in_another_thread_when_its_own_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, signal) = gappy(&folder);
    for strategy in Strategy::ALL {
        let parts = parts(&signal);
        let mut reader = SignalReader::new(&signal, &parts, 10_000, strategy).unwrap();
        for k in 0..7 {
            // A thread's requests may be cancelled when it ends.
            let thread = std::thread::spawn(move || {
                let segment = reader.read(k * 10_000..(k + 1) * 10_000).unwrap();
                (reader, segment)
            });
            let segment;
            (reader, segment) = thread.join().unwrap();
            check(&segment);
        }
    }
}

#[test]
fn a_reader_can_be_dropped_with_requests_in_flight() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, signal) = gappy(&folder);
    for strategy in Strategy::ALL {
        for read in [0, 1, 2] {
            let parts = parts(&signal);
            let mut reader = SignalReader::new(&signal, &parts, 10_000, strategy).unwrap();
            let held: Vec<_> = (0..read)
                .map(|k| reader.read(k * 10_000..(k + 1) * 10_000).unwrap())
                .collect();
            drop(reader);
            held.iter().for_each(check);
        }
    }
}

#[test]
fn rejects_reads_of_a_closed_store_with_open_files() {
    let folder = tempfile::tempdir().unwrap();
    let (store, signal) = gappy(&folder);
    for strategy in Strategy::ALL {
        let store = Store::open(store.path(), Mode::Read).unwrap();
        let signal = store.signal("p").unwrap();
        let mut reader = SignalReader::new(&signal, &parts(&signal), 10_000, strategy).unwrap();
        reader.read(0..10_000).unwrap();
        store.close().unwrap();
        assert_eq!(reader.read(10_000..20_000).unwrap_err().code(), "closed");
    }
    drop(signal);
}

#[test]
fn an_unknown_strategy_names_those_that_there_are() {
    for one in Strategy::ALL {
        assert_eq!(Strategy::parse(one.name()).unwrap(), one);
    }
    let error = StoreError::from(Strategy::parse("fread").unwrap_err());
    assert!(matches!(error, StoreError::UnknownStrategy { .. }));
    assert!(error.to_string().contains("readahead_all"), "{error}");
}

#[test]
fn opens_no_files_of_shards_in_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    let writer = store.create("p", &options).unwrap();
    append(&writer, 30_000);
    writer.append_gap(100 << 20).unwrap();
    append(&writer, 30_000);
    store.commit(true).unwrap();
    let reading = Store::open(store.path(), Mode::Read).unwrap();
    let signal = reading.signal("p").unwrap();
    let begun = std::time::Instant::now();
    for strategy in Strategy::ALL {
        let reader = compare(&signal, strategy, 20_000);
        assert_ne!(reader.reading().used, None);
    }
    let all = parts(&signal);
    let estimate = isochrony_store::machine::estimate(&signal, &all);
    assert_eq!(estimate.amount.bytes, 120_000.0);
    // Waiting for files that may be being moved would take seconds per strategy for twelve shards.
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
}
